//! How a message is published so that nothing comes of it, even where a server lets somebody publish who may not.

use mesh_model::{BusFacts, ConsumerRef, StreamName, Subject};

use crate::plan::Plan;
use crate::proof::harmless::is_harmless;
use crate::subject::{heartbeats, logs};

/// How to publish on a subject in a proof.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// With the header `Nats-Expected-Stream` and a name no stream has: the stream that would store it answers that it
    /// is another, and stores nothing.
    Stored(StreamName),
    /// As `+WPI` of a message that was never delivered: the consumer, where there is one, answers and does nothing.
    Settling(Option<ConsumerRef>),
    /// With a body that begins like JSON and is none: [`BROKEN_JSON`]. Where no JSON begins, a purge and a pause read
    /// no body at all, and go on to purge everything and to resume.
    Api,
    /// As a sign of life or a part of a log, with no body, which no controller reads.
    Heartbeat,
    /// With no body.
    Plain,
    /// Not at all: what the server would do of it cannot be ruled out.
    Never,
}

/// What every verb that is tried, and that changes anything, refuses to read.
pub const BROKEN_JSON: &str = "{mesh-probe";

/// How a message on a subject is published in a proof of this plan.
pub fn manner(plan: &Plan, subject: &Subject) -> Manner {
    if !is_harmless(subject) {
        return Manner::Never;
    }
    let mut tokens = subject.tokens();
    match (tokens.next(), tokens.next(), tokens.next()) {
        (Some("$JS"), Some("ACK"), _) => return Manner::Settling(settled(plan, subject)),
        (Some("$JS"), Some("API"), _) | (Some("$JS"), _, Some("API")) => return Manner::Api,
        _ => {}
    }
    if heartbeats().matches(subject) || logs().matches(subject) {
        return Manner::Heartbeat;
    }
    let stores = |stream: &&mesh_model::StreamSpec| {
        stream.subjects.iter().any(|filter| filter.matches(subject))
    };
    match plan.streams.values().find(stores) {
        Some(stream) => Manner::Stored(stream.name.clone()),
        None => Manner::Plain,
    }
}

/// The consumer of the plan whose message an ack subject names, in either form.
fn settled(plan: &Plan, subject: &Subject) -> Option<ConsumerRef> {
    let tokens: Vec<&str> = subject.tokens().collect();
    let at = match tokens.len() {
        9 => 2,
        11.. => 4,
        _ => return None,
    };
    let stream = StreamName::new(*tokens.get(at)?).ok()?;
    let consumer = ConsumerRef::new(stream, *tokens.get(at + 1)?).ok()?;
    plan.consumers.contains_key(&consumer).then_some(consumer)
}

/// The ack subjects of a message that no consumer was ever delivered, in both forms.
pub(super) fn acks(consumer: &ConsumerRef, bus: &BusFacts) -> [Subject; 2] {
    crate::ack::ack_filters(consumer, bus)
        .map(|filter| crate::subject::subject(filter.as_str().replace('>', NEVER_DELIVERED)))
}

/// Delivered, stream sequence, consumer sequence, time, pending: of a message further on than any stream gets.
pub(super) const NEVER_DELIVERED: &str = "1.4611686018427387903.4611686018427387903.1.0";
