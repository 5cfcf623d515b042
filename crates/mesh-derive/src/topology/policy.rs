//! The limits of queues. They are a policy's, since those of a queue itself can never be changed.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_model::TokenRecord;
use serde_json::{Value, json};

use super::broker::{BrokerFacts, BrokerVersion, QueueKind};
use super::queue::QueueClass;
use crate::derive::Bounds;

/// The limits of one class of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What happens to a message too many.
    pub overflow: Overflow,
    /// Messages held.
    pub max_length: Option<u64>,
    /// Bytes held.
    pub max_bytes: Option<u64>,
    /// Seconds a message is kept.
    pub max_age_secs: Option<u64>,
    /// Seconds after which a queue nobody uses is removed.
    pub expires_secs: Option<u64>,
    /// Whether it says that a message may come back any number of times. A quorum queue that is not told drops what came
    /// back twenty times, and a controller that stops while it holds a message counts.
    pub unlimited_deliveries: bool,
    /// Seconds a reader may hold a message.
    pub held_secs: Option<u64>,
}

/// What a full queue does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Drops the oldest.
    DropHead,
    /// Refuses the new one, which its publisher hears.
    RejectPublish,
}

impl Overflow {
    /// The broker's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DropHead => "drop-head",
            Self::RejectPublish => "reject-publish",
        }
    }
}

impl Policy {
    /// The limits as the broker knows them.
    pub fn settings(&self) -> BTreeMap<&'static str, Value> {
        let millis = |secs: Option<u64>| secs.map(|secs| secs.saturating_mul(1000));
        let numbers = [
            ("max-length", self.max_length),
            ("max-length-bytes", self.max_bytes),
            ("message-ttl", millis(self.max_age_secs)),
            ("expires", millis(self.expires_secs)),
            ("consumer-timeout", millis(self.held_secs)),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(name, number)| Some((name, json!(number?))));
        let unlimited = self
            .unlimited_deliveries
            .then(|| ("delivery-limit", json!(-1)));
        numbers
            .chain(unlimited)
            .chain([("overflow", json!(self.overflow.as_str()))])
            .collect()
    }

    /// What of it a broker of this version does not take.
    pub(super) fn refused_by(&self, version: BrokerVersion) -> Option<&'static str> {
        if version >= BrokerVersion::UNLIMITED {
            return None;
        }
        if self.unlimited_deliveries {
            return Some("delivery-limit");
        }
        self.held_secs.map(|_| "consumer-timeout")
    }
}

impl QueueClass {
    /// What kind of queue the class has on this broker. What is said and kept nowhere is not worth a majority.
    pub(super) fn kind(self, broker: &BrokerFacts) -> QueueKind {
        match self {
            Self::Heartbeats | Self::Ask | Self::Logs => QueueKind::Classic,
            _ => broker.queues,
        }
    }

    /// The limits of the class on this broker.
    pub(super) fn policy(self, bounds: &Bounds, broker: &BrokerFacts) -> Policy {
        let bare = Policy {
            overflow: Overflow::DropHead,
            max_length: None,
            max_bytes: None,
            max_age_secs: None,
            expires_secs: None,
            unlimited_deliveries: false,
            held_secs: None,
        };
        let policy = match self {
            Self::Node | Self::Mark => Policy {
                max_length: Some(1),
                ..bare
            },
            Self::Heartbeats => Policy {
                max_length: Some(HEARTBEATS),
                ..bare
            },
            Self::Ask => Policy {
                max_length: Some(ASKS),
                max_age_secs: Some(SAID_SECS),
                ..bare
            },
            Self::Logs => Policy {
                max_bytes: Some(LOG_BYTES),
                max_age_secs: Some(SAID_SECS),
                ..bare
            },
            Self::Answer => Policy {
                max_length: Some(ANSWERS),
                expires_secs: Some(ANSWER_IDLE_SECS),
                ..bare
            },
            Self::Reports | Self::Enrolments => Policy {
                overflow: Overflow::RejectPublish,
                max_bytes: Some(bounds.control_bytes),
                ..bare
            },
            Self::Seat => Policy {
                overflow: Overflow::RejectPublish,
                max_bytes: Some(bounds.seat_bytes),
                ..bare
            },
            Self::Module | Self::Announcements => Policy {
                max_bytes: Some(bounds.events_bytes),
                max_age_secs: Some(bounds.events_age_secs),
                ..bare
            },
            Self::Parked => Policy {
                max_bytes: Some(bounds.parked_bytes),
                max_age_secs: Some(bounds.parked_age_secs),
                ..bare
            },
        };
        let newer = broker.version >= BrokerVersion::UNLIMITED;
        Policy {
            unlimited_deliveries: newer && self.kind(broker) == QueueKind::Quorum,
            held_secs: newer.then_some(HELD_SECS),
            ..policy
        }
    }
}

/// Signs of life a controller that is away finds at most.
const HEARTBEATS: u64 = 10_000;
/// Asks a node that is away finds at most.
const ASKS: u64 = 256;
/// Bytes of logs that wait for the controller, whatever nodes say.
const LOG_BYTES: u64 = 8 << 20;
/// Seconds after which nobody wants any more what was said for now.
const SAID_SECS: u64 = 10;
/// Answers one token has at most: several hosts may hold it, each asking again.
const ANSWERS: u64 = 64;
/// A token's queue that nobody has read from for so long is left over: its token may be used no more.
const ANSWER_IDLE_SECS: u64 = TokenRecord::LONGEST_SECS + 24 * 3600;
/// Well above the longest anything of the mesh's holds a message: the window's bound, a module's work.
const HELD_SECS: u64 = 3600;
/// What a broker that is told nothing allows, as one before [`BrokerVersion::UNLIMITED`] is.
const HELD_UNTOLD_SECS: u64 = 1800;
/// The longest a controller may hold a report over AMQP: a broker closes the channel of whoever holds one for longer than
/// it allows, and everything in hand there comes again.
pub const LONGEST_HELD: Duration = Duration::from_mins(25);

const _: () = assert!(LONGEST_HELD.as_secs() < HELD_UNTOLD_SECS && HELD_UNTOLD_SECS <= HELD_SECS);
