//! What can be wrong with a stream or a consumer, whoever it serves.

use mesh_model::{ConsumerRef, Filter, StreamName, Subject};

/// A definition that a server takes for another, or takes with a consequence nobody asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum DefinitionFault {
    /// A stream that stores what begins with anything.
    #[error(
        "stream {stream}: {subject} begins with a wildcard, and so takes everybody's; begin it with a literal token"
    )]
    LeadingWildcard {
        /// The stream.
        stream: StreamName,
        /// What it stores.
        subject: Filter,
    },
    /// Where case is not told apart, the two are one.
    #[error("{name} and {other} differ in case alone; call one of them otherwise")]
    EqualButForCase {
        /// One of the two.
        name: String,
        /// The other, in lower case where it is a consumer.
        other: String,
    },
    /// A number that a server takes for its own default, or with which nothing goes on for long.
    #[error("consumer {consumer}: {what} is {found}; make it {least} to {most}")]
    OutOfBounds {
        /// The consumer.
        consumer: ConsumerRef,
        /// Which number.
        what: &'static str,
        /// As it is.
        found: u32,
        /// The least it may be.
        least: u32,
        /// The most it may be.
        most: u32,
    },
    /// A node that could not tell silence from being deaf.
    #[error(
        "consumer {consumer}: has no idle heartbeat, so its node never learns that it hears nothing; give it one, which takes \
         making it anew"
    )]
    NoHeartbeat {
        /// The consumer.
        consumer: ConsumerRef,
    },
    /// The members of a group share the heartbeats, so none of them can tell anything by one that is missing.
    #[error(
        "consumer {consumer}: has an idle heartbeat and a group, whose members share it; leave it out, which takes making \
         it anew"
    )]
    HeartbeatInGroup {
        /// The consumer.
        consumer: ConsumerRef,
    },
    /// Two consumers speak at once to whoever listens there.
    #[error(
        "consumer {consumer}: delivers to {deliver}, and so does {with}; deliver each to a subject of its own"
    )]
    DeliverTwice {
        /// The consumer.
        consumer: ConsumerRef,
        /// The other.
        with: ConsumerRef,
        /// Where both deliver.
        deliver: Subject,
    },
    /// A server publishes there with its own rights, whoever may.
    #[error(
        "consumer {consumer}: delivers to {deliver}, which is not below mesh.deliver; a server asks nobody whether it may, \
         so deliver there only"
    )]
    DeliversElsewhere {
        /// The consumer.
        consumer: ConsumerRef,
        /// Where it delivers.
        deliver: Subject,
    },
    /// A reader of a work queue that leaves what waits there.
    #[error(
        "consumer {consumer}: begins with what is new, and its stream is a work queue; begin with the first"
    )]
    NotFromTheFirst {
        /// The consumer.
        consumer: ConsumerRef,
    },
}
