//! A world in this process, in time that passes only while all wait.

use std::sync::OnceLock;

use mesh_bus::BusError;
use mesh_bus::conformance::World;
use mesh_bus::loopback::{
    Loopback, LoopbackController, LoopbackJoiner, LoopbackModule, LoopbackNode,
};
use mesh_control::{Mint, MintError, Minted};
use mesh_derive::{ack_filters, subject};
use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, ConsumerRef, InstanceRef, NodeName, Principal, PublicKey,
    Sealed, StreamName, Timestamp, TokenId,
};
use tokio::time::Instant;

pub(crate) struct InProcess {
    pub(crate) bus: Loopback,
    facts: BusFacts,
}

impl InProcess {
    pub(crate) fn new() -> Self {
        let facts = BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        };
        let bus = Loopback::new(facts.clone());
        Self { bus, facts }
    }
}

impl World for InProcess {
    type Controller = LoopbackController;
    type Node = LoopbackNode;
    type Joiner = LoopbackJoiner;
    type Module = LoopbackModule;
    type Mint = Keys;

    fn clock(&self) -> fn() -> Timestamp {
        now
    }

    fn user(&self, who: &Principal) -> PublicKey {
        PublicKey::from_raw(raw(&who.to_string()))
    }

    fn box_key(&self, node: &NodeName) -> BoxPublicKey {
        BoxPublicKey::from_raw(raw(node.as_str()))
    }

    fn mint(&self) -> Keys {
        Keys(0)
    }

    async fn controller(&self) -> Result<LoopbackController, BusError> {
        Ok(self.bus.controller())
    }

    async fn node(&self, node: &NodeName) -> Result<LoopbackNode, BusError> {
        let key = self.user(&Principal::Node(node.clone()));
        Ok(self.bus.node(node.clone(), key))
    }

    async fn joiner(&self, token: &TokenId) -> Result<LoopbackJoiner, BusError> {
        self.bus.joiner(token.clone())
    }

    async fn module(&self, instance: &InstanceRef) -> Result<LoopbackModule, BusError> {
        self.bus.module(instance.clone())
    }

    async fn stored(&self, stream: &StreamName) -> Result<usize, BusError> {
        Ok(self.bus.stored(stream))
    }

    async fn unsettled(&self, consumer: &ConsumerRef) -> Result<usize, BusError> {
        Ok(self.bus.unsettled(consumer))
    }

    async fn withhold_event_acks(&self) -> Result<bool, BusError> {
        let consumer = ConsumerRef::new(subject::events_stream(), "controller").unwrap();
        for entry in ack_filters(&consumer, &self.facts) {
            self.bus.withhold(Principal::Controller, entry);
        }
        Ok(true)
    }

    async fn delete_consumer(&self, consumer: &ConsumerRef) -> Result<bool, BusError> {
        Ok(self.bus.delete_consumer(consumer))
    }

    async fn delete_stream(&self, stream: &StreamName) -> Result<bool, BusError> {
        Ok(self.bus.delete_stream(stream))
    }
}

pub(crate) struct Keys(u64);

impl Mint for Keys {
    fn mint(&mut self, of: &Principal, _: BusKind, _: &BoxPublicKey) -> Result<Minted, MintError> {
        self.0 += 1;
        Ok(Minted {
            key: PublicKey::from_raw(raw(&format!("{of} {}", self.0))),
            credential: Sealed(vec![0; 8]),
        })
    }

    fn reseal(
        &mut self,
        whom: &Principal,
        _: &Sealed,
        _: &BoxPublicKey,
    ) -> Result<Sealed, MintError> {
        let (whom, why) = (whom.clone(), "it holds no secret".to_owned());
        Err(MintError { whom, why })
    }
}

/// The bytes of a key, others for each name.
fn raw(of: &str) -> [u8; 32] {
    let mut state = 7_u64;
    for byte in of.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    std::array::from_fn(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    })
}

/// The time of the runtime, which a test may pause.
pub(crate) fn now() -> Timestamp {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let (first, now) = (*FIRST.get_or_init(Instant::now), Instant::now());
    let after = u64::try_from((now - first).as_millis()).unwrap();
    let before = u64::try_from((first - now).as_millis()).unwrap();
    Timestamp::from_millis(1_800_000_000_000 + after - before)
}
