//! The bus inside one process: the semantics of the real one, for tests and for the suite that holds each bus to them.
//!
//! Time is tokio's, so that a test may pause it. Differences from a server: an acknowledgement and what it does are one
//! step, two who listen with one credential get each message once between them, and nothing outlives the value.

mod carrier;
mod controller;
mod joiner;
mod module;
mod node;
mod queue;
mod state;

use std::sync::Arc;

use mesh_derive::subject;
use mesh_model::{
    BusFacts, BusKind, ConsumerRef, Filter, InstanceRef, InvalidBusName, NodeName, Principal,
    PublicKey, StreamName, Subject, TokenId,
};

use crate::seam::{BusError, Disturbance};
use queue::Stored;
use state::Shared;

pub use controller::LoopbackController;
pub use joiner::LoopbackJoiner;
pub use module::{LoopbackListener, LoopbackModule};
pub use node::LoopbackNode;

/// A bus in this process. Clones are the same bus.
#[derive(Debug, Clone)]
pub struct Loopback(Arc<Shared>);

/// What settling a message takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    consumer: ConsumerRef,
    sequence: u64,
}

/// A copy of what was let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Where it is kept.
    pub subject: Subject,
    /// What it said.
    pub body: Vec<u8>,
    /// Why it was let go.
    pub why: String,
}

impl Loopback {
    /// A bus that holds nothing and knows nobody but the controller.
    pub fn new(facts: BusFacts) -> Self {
        Self::standing_for(BusKind::default(), facts)
    }

    /// One that is this bus of a mesh of two.
    pub fn standing_for(kind: BusKind, facts: BusFacts) -> Self {
        Self(Arc::new(Shared::new(kind, facts)))
    }

    /// A controller's side. There may be several; the one that took over last can declare.
    pub fn controller(&self) -> LoopbackController {
        LoopbackController::new(Arc::clone(&self.0))
    }

    /// A node's side, under this key. It is down until a plan knows the key for the node's.
    pub fn node(&self, name: NodeName, key: PublicKey) -> LoopbackNode {
        LoopbackNode::new(Arc::clone(&self.0), name, key)
    }

    /// The side of a host that holds a token; refused until a plan knows it.
    pub fn joiner(&self, token: TokenId) -> Result<LoopbackJoiner, BusError> {
        self.0
            .state()
            .require_user(&Principal::Joiner(token.clone()))?;
        Ok(LoopbackJoiner::new(Arc::clone(&self.0), token))
    }

    /// A module's side; refused until a plan knows it.
    pub fn module(&self, instance: InstanceRef) -> Result<LoopbackModule, BusError> {
        let principal = Principal::Instance(instance);
        self.0.state().require_user(&principal)?;
        let Principal::Instance(instance) = principal else {
            return Err(BusError::Away("no instance".to_owned()));
        };
        Ok(LoopbackModule::new(Arc::clone(&self.0), instance))
    }

    /// Whether the bus can be reached. While it cannot, every call answers [`BusError::Away`]; what it stores stays.
    pub fn set_up(&self, up: bool) {
        self.0.set_up(up);
    }

    /// Takes no message of more bytes from now on, as a server that was told so.
    pub fn set_largest(&self, bytes: usize) {
        self.0.change(|state| state.largest = bytes);
    }

    /// Deletes a stream with all it holds, behind the controller's back. Answers whether there was one.
    pub fn delete_stream(&self, stream: &StreamName) -> bool {
        let was = self.0.change(|state| state.delete_stream(stream));
        self.0.disturb(Disturbance::of(stream));
        was
    }

    /// Deletes a consumer, behind the controller's back. Answers whether there was one.
    pub fn delete_consumer(&self, consumer: &ConsumerRef) -> bool {
        let was = self.0.change(|state| {
            let stream = state.streams.get_mut(consumer.stream());
            stream.is_some_and(|stream| stream.delete_consumer(consumer.name()))
        });
        self.0.disturb(Disturbance::Definitions);
        was
    }

    /// Leaves this entry out of a principal's grant from now on, whatever a plan says.
    pub fn withhold(&self, who: Principal, entry: Filter) {
        self.0.change(|state| state.withhold(who, entry));
    }

    /// Stores a message as one would who holds rights that no plan gives: what grants cannot stop.
    pub fn inject(&self, subject: Subject, body: Vec<u8>) -> Result<(), BusError> {
        let message = Stored {
            subject,
            body,
            id: None,
            why: None,
        };
        self.0.change(|state| state.store(message)).map(drop)
    }

    /// How many messages a stream holds.
    pub fn stored(&self, stream: &StreamName) -> usize {
        let state = self.0.state();
        state
            .streams
            .get(stream)
            .map_or(0, |stream| stream.stored().count())
    }

    /// How many messages a consumer has not settled: out with its owner, or still to be sent.
    pub fn unsettled(&self, consumer: &ConsumerRef) -> usize {
        let state = self.0.state();
        let stream = state.streams.get(consumer.stream());
        stream.map_or(0, |stream| stream.unsettled(consumer.name()))
    }

    /// What was let go and is kept, oldest first.
    pub fn parked(&self) -> Vec<Parked> {
        let state = self.0.state();
        let stream = state.streams.get(&subject::parked_stream());
        let parked = |stored: &Stored| Parked {
            subject: stored.subject.clone(),
            body: stored.body.clone(),
            why: stored.why.clone().unwrap_or_default(),
        };
        stream.map_or_else(Vec::new, |stream| stream.stored().map(parked).collect())
    }
}

fn consumer(stream: StreamName, name: &str) -> Result<ConsumerRef, BusError> {
    ConsumerRef::new(stream, name).map_err(|InvalidBusName(what)| BusError::Refused {
        what,
        why: "no consumer can be called so".to_owned(),
    })
}
