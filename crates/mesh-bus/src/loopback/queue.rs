//! One stream: what it stores, and where each of its consumers stands. Time comes as an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_model::{ConsumerSpec, DeliverPolicy, Discard, Retention, Selects, StreamSpec, Subject};
use tokio::time::Instant;

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
        self.make_room(&message)?;
        self.last += 1;
        if let Some(id) = known {
            self.known.insert(id, (now, self.last));
        }
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
mod tests {
    use mesh_derive::{Bounds, node_consumer, own_streams};
    use mesh_model::{AckPolicy, ConsumerKind, ConsumerRef};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn stream(name: &str) -> Stream {
        let bounds = Bounds {
            control_per_subject: 2,
            control_bytes: 100,
            ..Bounds::default()
        };
        let mut specs = own_streams(&bounds).into_iter();
        let spec = specs.find(|spec| spec.name.as_str() == name);
        Stream::new(spec.unwrap())
    }

    fn consumer(stream: &Stream, selects: Selects, deliver_policy: DeliverPolicy) -> ConsumerSpec {
        ConsumerSpec {
            consumer: ConsumerRef::new(stream.spec.name.clone(), "c").unwrap(),
            owner: None,
            selects,
            kind: ConsumerKind::Pull,
            ack: AckPolicy::Explicit,
            ack_wait_secs: 60,
            max_ack_pending: 2,
            deliver_policy,
        }
    }

    fn message(subject: &str, body: &str) -> Stored {
        Stored {
            subject: subject.parse().unwrap(),
            body: body.into(),
            id: None,
            why: None,
        }
    }

    fn body(delivered: Option<(u64, Stored)>) -> Option<String> {
        delivered.map(|(_, stored)| String::from_utf8(stored.body).unwrap())
    }

    #[test]
    fn what_is_not_settled_comes_again_after_the_ack_wait_and_not_before() {
        let (mut stream, now) = (stream("CONTROL"), Instant::now());
        stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
        stream
            .publish(message("mesh.control.report.a", "1"), now)
            .unwrap();
        let (sequence, _) = stream.deliver("c", now).unwrap();
        let almost = now + MINUTE - Duration::from_millis(1);
        assert!(stream.deliver("c", almost).is_none());
        stream.settle("c", sequence, Settled::Working, almost);
        assert!(stream.deliver("c", now + MINUTE).is_none());
        assert_eq!(stream.wakes("c"), Some(almost + MINUTE));
        assert_eq!(
            body(stream.deliver("c", almost + MINUTE)).as_deref(),
            Some("1")
        );
    }

    #[test]
    fn what_is_put_off_comes_again_after_its_pause_and_stays_stored() {
        let (mut stream, now) = (stream("CONTROL"), Instant::now());
        stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
        stream
            .publish(message("mesh.control.report.a", "1"), now)
            .unwrap();
        let (sequence, _) = stream.deliver("c", now).unwrap();
        stream.settle("c", sequence, Settled::Again(MINUTE * 5), now);
        assert!(stream.deliver("c", now + MINUTE * 4).is_none());
        assert_eq!((stream.stored().count(), stream.unsettled("c")), (1, 1));
        let (again, _) = stream.deliver("c", now + MINUTE * 5).unwrap();
        assert_eq!(again, sequence);
        stream.settle("c", again, Settled::Done, now);
        assert_eq!((stream.stored().count(), stream.unsettled("c")), (0, 0));
    }

    #[test]
    fn no_more_is_out_than_may_be() {
        let (mut stream, now) = (stream("CONTROL"), Instant::now());
        stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
        for node in ["a", "b", "c"] {
            let subject = format!("mesh.control.report.{node}");
            stream.publish(message(&subject, node), now).unwrap();
        }
        let (first, _) = stream.deliver("c", now).unwrap();
        assert!(stream.deliver("c", now).is_some());
        assert!(stream.deliver("c", now).is_none());
        stream.settle("c", first, Settled::Done, now);
        assert_eq!(body(stream.deliver("c", now)).as_deref(), Some("c"));
    }

    #[test]
    fn one_sender_cannot_fill_a_queue_for_all_and_nothing_stored_is_dropped_for_it() {
        let (mut stream, now) = (stream("CONTROL"), Instant::now());
        for _ in 0..2 {
            stream
                .publish(message("mesh.control.report.a", "1"), now)
                .unwrap();
        }
        assert!(
            stream
                .publish(message("mesh.control.report.a", "1"), now)
                .is_err()
        );
        stream
            .publish(message("mesh.control.report.b", "1"), now)
            .unwrap();
        let large = "x".repeat(60);
        assert!(
            stream
                .publish(message("mesh.control.report.c", &large), now)
                .is_err()
        );
        assert_eq!(stream.stored().count(), 3);
    }

    #[test]
    fn the_newest_takes_the_place_of_the_one_before_even_while_that_is_out() {
        let (mut stream, now) = (stream("NODES"), Instant::now());
        let node = "a".parse().unwrap();
        stream.define_consumer(&node_consumer(&node, &Bounds::default()));
        stream
            .publish(message("mesh.node.a.declare", "1"), now)
            .unwrap();
        stream
            .publish(message("mesh.node.b.declare", "x"), now)
            .unwrap();
        assert_eq!(body(stream.deliver("a", now)).as_deref(), Some("1"));
        stream
            .publish(message("mesh.node.a.declare", "2"), now)
            .unwrap();
        assert_eq!(stream.stored().count(), 2);
        assert_eq!(body(stream.deliver("a", now)).as_deref(), Some("2"));
        assert_eq!(stream.unsettled("a"), 1);
    }

    #[test]
    fn a_new_consumer_of_new_messages_hears_nothing_said_before_it_nor_by_others() {
        let (mut stream, now) = (stream("EVENTS"), Instant::now());
        stream
            .publish(message("mesh.mod.m.said", "before"), now)
            .unwrap();
        let said = Selects::Only(["mesh.mod.m.said".parse().unwrap()].into());
        let spec = consumer(&stream, said, DeliverPolicy::New);
        assert_eq!(stream.define_consumer(&spec), Some("made"));
        assert_eq!(stream.define_consumer(&spec), None);
        stream
            .publish(message("mesh.mod.other.said", "other"), now)
            .unwrap();
        stream
            .publish(message("mesh.mod.m.said", "after"), now)
            .unwrap();
        assert_eq!(body(stream.deliver("c", now)).as_deref(), Some("after"));
        assert!(stream.deliver("c", now).is_none());
        let wider = Selects::Only(["mesh.mod.*.said".parse().unwrap()].into());
        let spec = consumer(&stream, wider, DeliverPolicy::New);
        assert_eq!(stream.define_consumer(&spec), Some("changed"));
        stream
            .publish(message("mesh.mod.other.said", "later"), now)
            .unwrap();
        assert_eq!(body(stream.deliver("c", now)).as_deref(), Some("later"));
    }

    #[test]
    fn a_message_published_again_under_its_id_is_stored_once_even_when_it_is_done_with() {
        let (mut stream, now) = (stream("CONTROL"), Instant::now());
        stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
        let named = |subject: &str| Stored {
            id: Some("1".to_owned()),
            ..message(subject, "x")
        };
        let first = stream.publish(named("mesh.control.report.a"), now).unwrap();
        let (sequence, _) = stream.deliver("c", now).unwrap();
        stream.settle("c", sequence, Settled::Done, now);
        let again = stream.publish(named("mesh.control.report.a"), now).unwrap();
        assert_eq!((again, stream.stored().count()), (first, 0));
        stream.publish(named("mesh.control.report.b"), now).unwrap();
        stream
            .publish(named("mesh.control.report.a"), now + SAME_WITHIN)
            .unwrap();
        assert_eq!(stream.stored().count(), 2);
    }

    #[test]
    fn what_is_too_old_is_gone() {
        let (mut stream, now) = (stream("PARKED"), Instant::now());
        let age = Duration::from_secs(Bounds::default().parked_age_secs);
        stream
            .publish(message("mesh.parked.a", "old"), now)
            .unwrap();
        stream
            .publish(message("mesh.parked.a", "new"), now + age)
            .unwrap();
        let stored: Vec<_> = stream.stored().map(|stored| stored.body.clone()).collect();
        assert_eq!(stored, [b"new".to_vec()]);
    }
}
