//! What a stream and a consumer on the bus are to be.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::texts;
use crate::{Filter, Principal, Subject};

/// A name the bus would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no stream or consumer name: 1 to 255 bytes of A-Z, a-z, 0-9, '-' and '_'")]
pub struct InvalidBusName(pub String);

texts! {
    /// The name of a stream: one subject token, since it stands in ack subjects.
    StreamName or InvalidBusName;
}

fn bus_name(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

impl StreamName {
    /// Takes a text as a stream name.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidBusName> {
        let text = text.into();
        if bus_name(&text) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidBusName(text))
        }
    }
}

/// How long a stream keeps a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retention {
    /// Until a limit is reached.
    Limits,
    /// Until it is acknowledged.
    WorkQueue,
}

/// What a stream does when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discard {
    /// Drops the oldest.
    Old,
    /// Refuses the new one, which its publisher hears.
    New,
    /// The same, and for each subject by itself, so that one publisher cannot fill it for all.
    NewPerSubject,
}

/// What a stream is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSpec {
    /// Its name.
    pub name: StreamName,
    /// What it stores.
    pub subjects: BTreeSet<Filter>,
    /// How long it keeps a message.
    pub retention: Retention,
    /// What it does when full.
    pub discard: Discard,
    /// Messages kept for each subject.
    pub max_per_subject: Option<u64>,
    /// Bytes kept in all.
    pub max_bytes: Option<u64>,
    /// Seconds a message is kept.
    pub max_age_secs: Option<u64>,
    /// Consumers it may have. Always stated: a server that is not told caps a stream at 1,000 and shows no cap.
    pub max_consumers: u32,
}

/// A consumer: which stream, which name. Its name and its ack subjects are two things.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConsumerRef {
    stream: StreamName,
    name: String,
}

impl ConsumerRef {
    /// A consumer of a stream.
    pub fn new(stream: StreamName, name: impl Into<String>) -> Result<Self, InvalidBusName> {
        let name = name.into();
        if bus_name(&name) {
            Ok(Self { stream, name })
        } else {
            Err(InvalidBusName(name))
        }
    }

    /// The stream it reads.
    pub fn stream(&self) -> &StreamName {
        &self.stream
    }

    /// Its durable name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ConsumerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.name)
    }
}

/// How messages reach the consumer's owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsumerKind {
    /// The owner asks, which takes authority over the stream's API.
    Pull,
    /// The server sends to a subject, which takes none.
    Push {
        /// Where to.
        deliver: Subject,
        /// The group its readers form.
        group: Option<String>,
        /// Seconds of silence after which the server says it is there. Settable only when the consumer is made.
        idle_heartbeat_secs: Option<u32>,
    },
}

/// What of its stream a consumer reads. To a server an empty list of filters is everything, so the two are kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selects {
    /// The whole stream.
    Everything,
    /// Exactly these subjects.
    Only(BTreeSet<Filter>),
}

impl Selects {
    /// The filters, none for the whole stream.
    pub fn filters(&self) -> impl Iterator<Item = &Filter> {
        match self {
            Self::Everything => None,
            Self::Only(filters) => Some(filters),
        }
        .into_iter()
        .flatten()
    }
}

/// From where a new consumer reads. Immutable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliverPolicy {
    /// Everything stored.
    All,
    /// Only what is stored from now on.
    New,
}

/// How a consumer settles messages. One way only: nothing is settled that was not said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckPolicy {
    /// Each message by itself.
    Explicit,
}

/// What a consumer is to be. There is no limit to deliveries: a server that gave up first would lose what the consumer
/// exists to bring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerSpec {
    /// Which consumer.
    pub consumer: ConsumerRef,
    /// Whose grant must cover it; nobody's while a seat is not held.
    pub owner: Option<Principal>,
    /// What it reads of the stream.
    pub selects: Selects,
    /// How messages reach the owner.
    pub kind: ConsumerKind,
    /// How they are settled.
    pub ack: AckPolicy,
    /// Seconds until an unsettled message is sent again.
    pub ack_wait_secs: u32,
    /// Messages that may be out unsettled.
    pub max_ack_pending: u32,
    /// From where it starts.
    pub deliver_policy: DeliverPolicy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_two_subject_tokens_is_no_stream_name() {
        for text in ["", "a.b", "a b", "*", ">", "a/b", "ä"] {
            assert!(StreamName::new(text).is_err(), "{text:?}");
            let stream = StreamName::new("NODES").unwrap();
            assert!(ConsumerRef::new(stream, text).is_err(), "{text:?}");
        }
    }
}
