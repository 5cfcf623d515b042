//! The loopback, held to everything a bus promises, in time that passes only while all wait.

use std::sync::OnceLock;

use mesh_bus::BusError;
use mesh_bus::conformance::{self, Broken, World};
use mesh_bus::loopback::{
    Loopback, LoopbackController, LoopbackJoiner, LoopbackModule, LoopbackNode,
};
use mesh_control::{Mint, MintError, Minted};
use mesh_derive::{ack_filters, subject};
use mesh_model::{
    BoxPublicKey, BusFacts, ConsumerRef, InstanceRef, NodeName, Principal, PublicKey, Sealed,
    StreamName, Timestamp, TokenId,
};
use tokio::time::Instant;

struct InProcess {
    bus: Loopback,
    facts: BusFacts,
}

impl InProcess {
    fn new() -> Self {
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
        PublicKey::new(key('U', &who.to_string())).unwrap()
    }

    fn box_key(&self, node: &NodeName) -> BoxPublicKey {
        BoxPublicKey::new(key('X', node.as_str())).unwrap()
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

struct Keys(u64);

impl Mint for Keys {
    fn mint(&mut self, of: &InstanceRef, _: &BoxPublicKey) -> Result<Minted, MintError> {
        self.0 += 1;
        Ok(Minted {
            key: PublicKey::new(key('U', &format!("{of} {}", self.0))).unwrap(),
            credential: Sealed(vec![0; 8]),
        })
    }
}

/// A text of a key's form, another one for each name.
fn key(kind: char, of: &str) -> String {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut state = 7_u64;
    for byte in of.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let digits = (0..55).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(DIGITS[(state >> 59) as usize])
    });
    std::iter::once(kind).chain(digits).collect()
}

/// The time of the runtime, which a test may pause.
fn now() -> Timestamp {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let (first, now) = (*FIRST.get_or_init(Instant::now), Instant::now());
    let after = u64::try_from((now - first).as_millis()).unwrap();
    let before = u64::try_from((first - now).as_millis()).unwrap();
    Timestamp::from_millis(1_800_000_000_000 + after - before)
}

macro_rules! claims {
    ($($claim:ident)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $claim() -> Result<(), Broken> {
            conformance::$claim(&InProcess::new()).await
        }
    )*};
}

claims! {
    a_report_is_heard_recorded_and_leaves_the_queue
    a_report_the_store_cannot_take_is_held_with_a_delay_and_stays_with_the_broker
    a_held_report_is_recorded_when_the_store_returns
    a_held_report_outlives_the_controller
    a_report_about_a_superseded_declaration_is_settled_without_being_acted_on
    a_report_the_store_never_takes_is_let_go_once_the_bound_passes
    a_report_that_was_let_go_is_asked_for_again
    a_message_that_cannot_be_read_is_parked_at_once
    a_report_the_store_refuses_for_ever_does_not_block_the_rest
    a_full_queue_is_heard_by_its_publisher_and_by_nobody_else
    a_heartbeat_is_heard_and_nothing_is_persisted
    the_enrolment_answer_reaches_the_address_the_request_carried_in_its_payload
    an_enrolment_is_never_answered_into_a_foreign_inbox
    an_announcement_is_heard_and_settled_once_under_its_derived_grant
    without_its_events_ack_authority_the_controller_hears_an_announcement_again
    a_declaration_reaches_its_node_and_is_acknowledged_only_after_the_report
    a_node_that_was_away_hears_only_the_newest_declaration
    a_stale_controller_is_fenced
    an_equal_generation_declared_again_makes_the_node_report_again
    an_unsigned_declaration_changes_nothing
    a_deleted_consumer_is_made_again_and_its_node_hears_what_it_missed
    a_deleted_stream_of_declarations_is_made_again_and_filled
    events_reach_their_followers_only
    one_modules_message_id_does_not_silence_anothers
    what_no_grant_allows_is_refused
    seat_work_sent_before_there_is_a_holder_is_worked_after_assignment
    a_module_that_gave_up_a_seat_gets_no_more_of_its_work
    work_put_off_comes_again
}
