//! What can be wrong with a topology: each says what, about which, and what to do.

use mesh_model::{ModuleName, Principal};

use super::broker::BrokerVersion;
use super::exchange::Exchange;
use super::queue::{Queue, QueueClass};
use super::rights::Key;

/// Something a broker takes without an error and does otherwise than was meant, or does not take.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum TopologyFault {
    /// A permission is longer than brokers read: the principal could do nothing it needs it for.
    #[error(
        "{principal}: what it may {right} makes a pattern of {bytes} bytes, and RabbitMQ reads at most {limit}; give it \
         fewer or shorter names, or divide it"
    )]
    PatternTooLong {
        /// Whose.
        principal: Principal,
        /// What it would allow.
        right: String,
        /// Its bytes.
        bytes: usize,
        /// The bytes a broker reads.
        limit: usize,
    },
    /// A name or key is empty, or longer than the protocol carries.
    #[error("{what} {name:?} has {} bytes, and AMQP carries 1 to {limit}; choose another name", name.len())]
    NameLength {
        /// What is called so.
        what: &'static str,
        /// The name.
        name: String,
        /// The bytes one may have.
        limit: usize,
    },
    /// A setting that this broker refuses, and with it the rest of what is imported.
    #[error(
        "policy {}: RabbitMQ {version} takes no {setting}; leave it out, or use {} or newer",
        class.policy_name(),
        BrokerVersion::UNLIMITED
    )]
    RefusedSetting {
        /// Of which policy.
        class: QueueClass,
        /// Which.
        setting: &'static str,
        /// The broker.
        version: BrokerVersion,
    },
    /// Nothing limits the queue.
    #[error("queue {queue}: no policy is about it, so nothing limits it; give its class one")]
    NoPolicy {
        /// The queue.
        queue: Queue,
    },
    /// A binding to nothing.
    #[error(
        "binding {exchange} {key}: there is no queue {queue}; add the queue, or take the binding away"
    )]
    BindsNothing {
        /// From where.
        exchange: Exchange,
        /// Which key.
        key: String,
        /// To where.
        queue: Queue,
    },
    /// A queue nothing comes into.
    #[error("queue {queue}: no binding brings anything into it; bind what its reader is to hear")]
    Unbound {
        /// The queue.
        queue: Queue,
    },
    /// A queue whose only writer may not write.
    #[error(
        "queue {queue}: the controller may not write {key} to {exchange}, so it stays empty; let it write that there"
    )]
    NeverFilled {
        /// The queue.
        queue: Queue,
        /// From where it would be filled.
        exchange: Exchange,
        /// Under which key.
        key: Key,
    },
    /// A queue that does not get what its reader was declared to hear.
    #[error(
        "queue {queue}: its reader is to hear {exchange} {key}, which is not bound to it; bind it"
    )]
    Misses {
        /// The queue.
        queue: Queue,
        /// From where.
        exchange: Exchange,
        /// Which key.
        key: String,
    },
    /// A queue that gets what is for another.
    #[error("queue {queue}: {exchange} {key} is not for it; bind its own only")]
    HearsAnothers {
        /// The queue.
        queue: Queue,
        /// From where.
        exchange: Exchange,
        /// Which key.
        key: String,
    },
    /// A user may read a queue that is not there: it is refused as if it were not granted.
    #[error(
        "{principal}: may read {queue}, which is not there; add the queue, or take the right away"
    )]
    NoQueue {
        /// Who.
        principal: Principal,
        /// What.
        queue: Queue,
    },
    /// A user may read what waits for another, and empty it.
    #[error("{principal}: may read {queue}, which is not its own; grant its own only")]
    ReadsAnothers {
        /// Who.
        principal: Principal,
        /// What.
        queue: Queue,
    },
    /// A user may read whatever waits for others of a kind, and empty it.
    #[error(
        "{principal}: may read every queue {}*, and so what is not its own; grant its own only",
        class.root()
    )]
    ReadsAll {
        /// Who.
        principal: Principal,
        /// Queues of which class.
        class: QueueClass,
    },
    /// Two modules take turns at one queue.
    #[error(
        "queue {queue}: both {one} and {other} read it, so each gets a part; only instances of one module share a queue"
    )]
    Shared {
        /// The queue.
        queue: Queue,
        /// A module.
        one: ModuleName,
        /// Another.
        other: ModuleName,
    },
    /// A topic exchange without a list of keys: the broker allows every key.
    #[error(
        "{principal}: may write to {exchange} and no keys are listed, so it may write every key; list its own"
    )]
    AnyKey {
        /// Who.
        principal: Principal,
        /// Where.
        exchange: Exchange,
    },
    /// Keys of an exchange that may not be written to.
    #[error(
        "{principal}: has keys on {exchange}, where it may not write; let it write there, or take the keys away"
    )]
    NoWrite {
        /// Who.
        principal: Principal,
        /// Where.
        exchange: Exchange,
    },
    /// Who publishes there is somebody else: whoever reads it believes the key.
    #[error(
        "{principal}: may write {key} to {exchange}, and so speak as somebody else; grant only what is its own to say"
    )]
    SpeaksAsAnother {
        /// Who.
        principal: Principal,
        /// Where.
        exchange: Exchange,
        /// Under which key.
        key: Key,
    },
    /// An exchange on which keys prove nothing, so that it is the controller's alone.
    #[error(
        "{principal}: may write to {exchange}, where a broker holds keys against nothing; that is the controller's alone"
    )]
    SpeaksAsController {
        /// Who.
        principal: Principal,
        /// Where.
        exchange: Exchange,
    },
    /// What is written there is dropped.
    #[error("{principal}: {key} on {exchange} goes into no queue; bind it, or take the right away")]
    Unheard {
        /// Who.
        principal: Principal,
        /// Where.
        exchange: Exchange,
        /// Under which key.
        key: Key,
    },
}
