//! One stream: what it stores, and where each of its consumers stands. Time comes as an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_model::{ConsumerSpec, DeliverPolicy, Discard, Retention, Selects, StreamSpec, Subject};
use tokio::time::Instant;

use crate::backlog::Backlog;

/// A message as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) subject: Subject,
    pub(super) body: Vec<u8>,
    /// What its publisher calls it: the same message published again is stored once.
    pub(super) id: Option<String>,
    /// Why it is kept, if it is a copy of what was let go.
    pub(super) why: Option<String>,
}

#[derive(Debug)]
pub(super) struct Stream {
    spec: StreamSpec,
    last: u64,
    messages: BTreeMap<u64, (Instant, Stored)>,
    /// Ids lately stored, whatever has become of the messages.
    known: BTreeMap<(Subject, String), (Instant, u64)>,
    consumers: BTreeMap<String, Consumer>,
}

#[derive(Debug)]
struct Consumer {
    spec: ConsumerSpec,
    /// The first sequence it has not looked at.
    next: u64,
    /// What is out unsettled, and when it is sent again.
    out: BTreeMap<u64, Instant>,
}

/// How a message that is out is settled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Settled {
    Done,
    Working,
    Again(Duration),
}

/// The stream takes no more, or no more on that subject.
#[derive(Debug)]
pub(super) struct Full;

impl Stream {
    pub(super) fn new(spec: StreamSpec) -> Self {
        Self {
            spec,
            last: 0,
            messages: BTreeMap::new(),
            known: BTreeMap::new(),
            consumers: BTreeMap::new(),
        }
    }

    /// This stream, beginning above what one before it came to.
    pub(super) fn after(mut self, last: u64) -> Self {
        self.last = last;
        self
    }

    /// The last sequence it came to.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn stores(&self, subject: &Subject) -> bool {
        self.spec.subjects.iter().any(|own| own.matches(subject))
    }

    /// Answers whether the definition was another one.
    pub(super) fn define(&mut self, spec: &StreamSpec) -> bool {
        let differs = self.spec != *spec;
        self.spec.clone_from(spec);
        differs
    }

    /// Answers what became of a consumer's definition, in a word; nothing when it was as it is.
    pub(super) fn define_consumer(&mut self, spec: &ConsumerSpec) -> Option<&'static str> {
        if let Some(consumer) = self.consumers.get_mut(spec.consumer.name()) {
            // Who owns it is the grants' affair and stands in no definition.
            let owner = consumer.spec.owner.clone();
            let there = ConsumerSpec {
                owner,
                ..spec.clone()
            };
            let differs = consumer.spec != there;
            consumer.spec = spec.clone();
            return differs.then_some("changed");
        }
        let next = match spec.deliver_policy {
            DeliverPolicy::All => 0,
            DeliverPolicy::New => self.last + 1,
        };
        let consumer = Consumer {
            spec: spec.clone(),
            next,
            out: BTreeMap::new(),
        };
        self.consumers
            .insert(spec.consumer.name().to_owned(), consumer);
        Some("made")
    }

    pub(super) fn delete_consumer(&mut self, name: &str) -> bool {
        self.consumers.remove(name).is_some()
    }

    pub(super) fn has_consumer(&self, name: &str) -> bool {
        self.consumers.contains_key(name)
    }

    pub(super) fn consumers(&self) -> impl Iterator<Item = &ConsumerSpec> {
        self.consumers.values().map(|consumer| &consumer.spec)
    }

    /// Stores a message, and answers its sequence.
    pub(super) fn publish(&mut self, message: Stored, now: Instant) -> Result<u64, Full> {
        self.expire(now);
        self.known
            .retain(|_, (at, _)| now.duration_since(*at) < SAME_WITHIN);
        let known = message.id.clone().map(|id| (message.subject.clone(), id));
        if let Some(id) = &known
            && let Some((_, before)) = self.known.get(id)
        {
            return Ok(*before);
        }
        self.append(message, now)?;
        if let Some(id) = known {
            self.known.insert(id, (now, self.last));
        }
        Ok(self.last)
    }

    /// Stores a message that was on another bus before. It may have been here even earlier, under its id, and be new
    /// all the same.
    pub(super) fn bring(&mut self, message: Stored, now: Instant) -> Result<u64, Full> {
        self.expire(now);
        self.append(message, now)
    }

    fn append(&mut self, message: Stored, now: Instant) -> Result<u64, Full> {
        self.make_room(&message)?;
        self.last += 1;
        self.messages.insert(self.last, (now, message));
        Ok(self.last)
    }

    fn make_room(&mut self, message: &Stored) -> Result<(), Full> {
        let same: Vec<u64> = self.of_subject(&message.subject).collect();
        let most = self.spec.max_per_subject.map_or(usize::MAX, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        });
        if same.len() >= most {
            if self.spec.discard != Discard::Old {
                return Err(Full);
            }
            for sequence in same.iter().take(same.len() + 1 - most) {
                self.messages.remove(sequence);
            }
        }
        let Some(most) = self.spec.max_bytes else {
            return Ok(());
        };
        while self.bytes() + size(message) > most {
            if self.spec.discard != Discard::Old || self.messages.pop_first().is_none() {
                return Err(Full);
            }
        }
        Ok(())
    }

    fn expire(&mut self, now: Instant) {
        if let Some(age) = self.spec.max_age_secs {
            let age = Duration::from_secs(age);
            self.messages
                .retain(|_, (at, _)| now.duration_since(*at) < age);
        }
    }

    fn bytes(&self) -> u64 {
        self.messages.values().map(|(_, stored)| size(stored)).sum()
    }

    fn of_subject<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = u64> + 'a {
        self.messages
            .iter()
            .filter(move |(_, (_, stored))| stored.subject == *subject)
            .map(|(sequence, _)| *sequence)
    }

    /// The newest message on a subject.
    pub(super) fn newest(&self, subject: &Subject) -> Option<(u64, &Stored)> {
        let mut all = self.messages.iter().rev();
        all.find(|(_, (_, stored))| stored.subject == *subject)
            .map(|(sequence, (_, stored))| (*sequence, stored))
    }

    pub(super) fn stored(&self) -> impl Iterator<Item = &Stored> {
        self.messages.values().map(|(_, stored)| stored)
    }

    /// The next message for a consumer: one to be sent again before one never sent.
    pub(super) fn deliver(&mut self, name: &str, now: Instant) -> Option<(u64, Stored)> {
        self.expire(now);
        let messages = &self.messages;
        let consumer = self.consumers.get_mut(name)?;
        consumer
            .out
            .retain(|sequence, _| messages.contains_key(sequence));
        let wait = Duration::from_secs(u64::from(consumer.spec.ack_wait_secs));
        let again = consumer.out.iter().find(|(_, at)| **at <= now);
        let sequence = match again {
            Some((sequence, _)) => *sequence,
            None if consumer.out.len() >= consumer.spec.max_ack_pending as usize => return None,
            None => {
                let selects = &consumer.spec.selects;
                let mut unseen = messages.range(consumer.next..);
                let (sequence, _) = unseen.find(|(_, (_, stored))| selected(selects, stored))?;
                consumer.next = sequence + 1;
                *sequence
            }
        };
        consumer.out.insert(sequence, now + wait);
        let (_, stored) = messages.get(&sequence)?;
        Some((sequence, stored.clone()))
    }

    /// When a consumer has something to send again.
    pub(super) fn wakes(&self, name: &str) -> Option<Instant> {
        self.consumers.get(name)?.out.values().min().copied()
    }

    /// What is out comes again at once: who has it may settle it no more.
    pub(super) fn give_back(&mut self, name: &str, now: Instant) {
        let out = self.consumers.get_mut(name);
        let out = out.into_iter().flat_map(|it| it.out.values_mut());
        out.for_each(|again| *again = now);
    }

    /// How many messages there are, and for how long the oldest has been.
    pub(super) fn backlog(&self, now: Instant) -> Backlog {
        let oldest = self.messages.values().next();
        let age = oldest.map(|(at, _)| now.duration_since(*at).as_millis());
        Backlog {
            messages: self.messages.len() as u64,
            oldest: age.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
        }
    }

    /// How many messages a consumer has out, or has still to send.
    pub(super) fn unsettled(&self, name: &str) -> usize {
        self.consumers.get(name).map_or(0, |consumer| {
            let selects = &consumer.spec.selects;
            let unseen = self.messages.range(consumer.next..);
            let waits = unseen.filter(|(_, (_, stored))| selected(selects, stored));
            waits.count() + consumer.out.len()
        })
    }

    pub(super) fn settle(&mut self, name: &str, sequence: u64, how: Settled, now: Instant) {
        let Some(consumer) = self.consumers.get_mut(name) else {
            return;
        };
        let wait = Duration::from_secs(u64::from(consumer.spec.ack_wait_secs));
        let Some(again) = consumer.out.get_mut(&sequence) else {
            return;
        };
        match how {
            Settled::Working => *again = now + wait,
            Settled::Again(delay) => *again = now + delay,
            Settled::Done => {
                consumer.out.remove(&sequence);
                if self.spec.retention == Retention::WorkQueue {
                    self.messages.remove(&sequence);
                }
            }
        }
    }
}

fn selected(selects: &Selects, stored: &Stored) -> bool {
    match selects {
        Selects::Everything => true,
        Selects::Only(filters) => filters.iter().any(|filter| filter.matches(&stored.subject)),
    }
}

fn size(message: &Stored) -> u64 {
    (message.subject.as_str().len() + message.body.len()) as u64
}

/// For how long a message published again under its id is known for the same, as on a server.
const SAME_WITHIN: Duration = Duration::from_mins(2);

#[cfg(test)]
mod tests;
