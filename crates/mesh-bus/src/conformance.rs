//! What every bus must do, checked on a running one: each claim drives the real loops over whatever bus a [`World`] has.
//!
//! A claim is a function over a world; it returns when the claim held and says in one sentence what did not. It waits
//! for what should happen, never for time to pass, and gives up after a deadline far beyond what a bus may take.

mod bench;
mod declarations;
mod enrolment;
mod epochs;
mod journal;
mod logs;
mod modules;
mod patience;
mod reports;
mod seats;
mod stand_ins;

use std::future::Future;

use mesh_control::Mint;
use mesh_model::{
    BoxPublicKey, ConsumerRef, InstanceRef, NodeName, Principal, PublicKey, StreamName, Timestamp,
    TokenId,
};

use crate::seam::{BusError, ControllerBus, JoinerBus, ModuleBus, NodeBus};

pub use declarations::*;
pub use enrolment::*;
pub use epochs::*;
pub use logs::*;
pub use modules::*;
pub use reports::*;
pub use seats::*;
pub use stand_ins::{MemoryDisk, MemoryLedger, MemoryWorkloads, StoreMood, signer, verifier};

/// Where a claim is checked: a bus nobody has used yet, and the keys of those who will. One world serves one claim.
pub trait World: Send + Sync {
    /// A controller's side of its bus.
    type Controller: ControllerBus;
    /// A node's.
    type Node: NodeBus;
    /// A joiner's.
    type Joiner: JoinerBus;
    /// A module's.
    type Module: ModuleBus;
    /// What makes credentials of instances.
    type Mint: Mint + Send + 'static;

    /// What time it is, on the clock that passes while the bus waits.
    fn clock(&self) -> fn() -> Timestamp;

    /// The key of a node or a joiner: always the same one for the same principal.
    fn user(&self, who: &Principal) -> PublicKey;

    /// The key secrets are sealed to for a node.
    fn box_key(&self, node: &NodeName) -> BoxPublicKey;

    /// Makes credentials that [`World::module`] can connect with.
    fn mint(&self) -> Self::Mint;

    /// A controller's side, connected; nothing is asserted and nobody has taken over.
    fn controller(&self) -> impl Future<Output = Result<Self::Controller, BusError>> + Send;

    /// A node's side, with the key [`World::user`] tells. Asked for once a plan with that key is asserted, and again when
    /// an agent starts again.
    fn node(&self, node: &NodeName) -> impl Future<Output = Result<Self::Node, BusError>> + Send;

    /// A joiner's side, with the key [`World::user`] tells.
    fn joiner(
        &self,
        token: &TokenId,
    ) -> impl Future<Output = Result<Self::Joiner, BusError>> + Send;

    /// A module's side, with the credential last minted for the instance.
    fn module(
        &self,
        instance: &InstanceRef,
    ) -> impl Future<Output = Result<Self::Module, BusError>> + Send;

    /// How many messages the bus holds of a stream; for `CONTROL` those waiting and those out unsettled.
    fn stored(&self, stream: &StreamName) -> impl Future<Output = Result<usize, BusError>> + Send;

    /// How many messages a consumer has not settled: out with its owner, or still to be sent.
    fn unsettled(
        &self,
        consumer: &ConsumerRef,
    ) -> impl Future<Output = Result<usize, BusError>> + Send;

    /// From here on no controller may settle what comes from `EVENTS`, whatever is derived for it. Answers false where
    /// this world cannot arrange it, and then the claim about it does not hold: nobody has looked.
    fn withhold_event_acks(&self) -> impl Future<Output = Result<bool, BusError>> + Send;

    /// Deletes a consumer, behind the controller's back. Answers false where this world cannot.
    fn delete_consumer(
        &self,
        consumer: &ConsumerRef,
    ) -> impl Future<Output = Result<bool, BusError>> + Send;

    /// Deletes a stream with all it holds, behind the controller's back. Answers false where this world cannot.
    fn delete_stream(
        &self,
        stream: &StreamName,
    ) -> impl Future<Output = Result<bool, BusError>> + Send;
}

/// A claim that did not hold: what, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

impl From<BusError> for Broken {
    fn from(error: BusError) -> Self {
        Self(format!("the bus did not do what the claim needs: {error}"))
    }
}
