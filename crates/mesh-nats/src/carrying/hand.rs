//! What was read to be carried: waiting, in somebody's hands, or known to be on the other bus.
//!
//! A server sends again what is not settled within the ack wait, however long the other bus is away. What is here already
//! is not taken in twice, so all that is here is what consumers may have out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mesh_bus::Carried;
use mesh_model::{ConsumerRef, Subject};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ack::message;
use crate::pull::Receipt;

/// A message to be carried.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) consumer: ConsumerRef,
    pub(super) to: Subject,
    pub(super) id: String,
    pub(super) body: Vec<u8>,
    pub(super) receipt: Receipt,
}

/// What settling what is carried takes.
#[derive(Debug, Clone)]
pub struct NatsLoad(Arc<Load>);

impl NatsLoad {
    pub(super) fn load(&self) -> &Load {
        &self.0
    }

    pub(super) fn carried(self) -> Carried<Self> {
        Carried {
            to: self.0.to.clone(),
            id: self.0.id.clone(),
            body: self.0.body.clone(),
            load: self,
        }
    }
}

/// Which message of which consumer: its sequence, and when it was stored, since a stream made anew counts anew.
type Key = (ConsumerRef, u64, u64);

#[derive(Debug, Default)]
pub(super) struct Hand {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Arc<Load>>,
    known: BTreeMap<Key, Known>,
    /// When those that are done with may be forgotten.
    forget: VecDeque<(Instant, Key)>,
}

#[derive(Debug)]
enum Known {
    /// While somebody has it.
    Out(Weak<Load>),
    Done,
}

/// What became of a message that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It waits to be carried.
    In,
    /// It is here already.
    Known,
    /// It was carried: it is to be settled.
    Settled,
}

impl Taken {
    pub(super) fn is_settled(self) -> bool {
        self == Self::Settled
    }
}

impl Hand {
    /// Takes one in.
    pub(super) fn take(&self, load: Load) -> Taken {
        let mut inner = self.inner();
        inner.forget_what_is_long_done();
        if let Some(key) = load.key() {
            match inner.known.get(&key) {
                Some(Known::Done) => return Taken::Settled,
                Some(Known::Out(out)) if out.strong_count() > 0 => return Taken::Known,
                Some(Known::Out(_)) | None => {}
            }
            let load = Arc::new(load);
            inner.known.insert(key, Known::Out(Arc::downgrade(&load)));
            inner.waiting.push_back(load);
        } else {
            inner.waiting.push_back(Arc::new(load));
        }
        drop(inner);
        self.changed.notify_one();
        Taken::In
    }

    /// Waits for the next, or until it is to be looked at the readers. May be dropped.
    pub(super) async fn next(&self) -> Option<NatsLoad> {
        let (first, more) = {
            let mut inner = self.inner();
            (inner.waiting.pop_front(), !inner.waiting.is_empty())
        };
        if first.is_none() {
            self.changed.notified().await;
        } else if more {
            // Of several who wait, each is woken by the one before.
            self.changed.notify_one();
        }
        first.map(NatsLoad)
    }

    /// Whoever waits looks again.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// The other bus has it. Should it come again, that is known.
    pub(super) fn done(&self, load: &Load) {
        if let Some(key) = load.key() {
            let mut inner = self.inner();
            let at = Instant::now() + KNOWN_FOR;
            inner.forget.push_back((at, key.clone()));
            inner.known.insert(key, Known::Done);
        }
    }

    /// It is to come again.
    pub(super) fn forget(&self, load: &Load) {
        if let Some(key) = load.key() {
            self.inner().known.remove(&key);
        }
    }

    /// What waits of a consumer, which is no longer read.
    pub(super) fn give_back(&self, consumer: &ConsumerRef) -> Vec<Arc<Load>> {
        let mut inner = self.inner();
        let waiting = std::mem::take(&mut inner.waiting);
        let of_it = |load: &Arc<Load>| load.consumer == *consumer;
        let (left, kept): (Vec<_>, Vec<_>) = waiting.into_iter().partition(of_it);
        inner.waiting = kept.into();
        for key in left.iter().filter_map(|load| load.key()) {
            inner.known.remove(&key);
        }
        left
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    fn key(&self) -> Option<Key> {
        let (sequence, stored) = message(&self.receipt.0)?;
        Some((self.consumer.clone(), sequence, stored))
    }
}

impl Inner {
    fn forget_what_is_long_done(&mut self) {
        let now = Instant::now();
        while let Some((at, _)) = self.forget.front()
            && *at <= now
        {
            if let Some((_, key)) = self.forget.pop_front() {
                self.known.remove(&key);
            }
        }
        if self.known.len() > self.forget.len() + self.waiting.len() + LET_GO {
            self.known.retain(|_, known| match known {
                Known::Out(out) => out.strong_count() > 0,
                Known::Done => true,
            });
        }
    }
}

/// For so long what was carried is known to have been: longer than any consumer's ack wait.
const KNOWN_FOR: Duration = Duration::from_mins(2);
/// At most so many are out, or were let go by somebody who did not say what became of them, before those are looked for.
const LET_GO: usize = 4096;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn load(consumer: &str, sequence: u64, delivered: u64) -> Load {
        let (stream, name) = consumer.split_once('/').unwrap();
        let consumer = ConsumerRef::new(stream.parse().unwrap(), name).unwrap();
        Load {
            to: Subject::new("mesh.seat.desk.shop").unwrap(),
            id: sequence.to_string(),
            body: Vec::new(),
            receipt: Receipt(format!(
                "$JS.ACK.{stream}.{name}.{delivered}.{sequence}.9.1700000000000000000.0"
            )),
            consumer,
        }
    }

    fn next(hand: &Hand) -> Option<NatsLoad> {
        hand.next().now_or_never().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_again_while_it_is_here_or_after_it_was_carried_is_not_carried_twice() {
        let hand = Hand::default();
        assert_eq!(hand.take(load("SEAT-desk/desk", 1, 1)), Taken::In);
        assert_eq!(hand.take(load("SEAT-desk/desk", 1, 2)), Taken::Known);
        assert_eq!(hand.take(load("SEAT-post/post", 1, 1)), Taken::In);
        let first = next(&hand).unwrap();
        assert_eq!(hand.take(load("SEAT-desk/desk", 1, 3)), Taken::Known);
        hand.done(first.load());
        assert_eq!(hand.take(load("SEAT-desk/desk", 1, 4)), Taken::Settled);
        tokio::time::advance(KNOWN_FOR).await;
        assert_eq!(hand.take(load("SEAT-desk/desk", 1, 5)), Taken::In);
    }

    #[test]
    fn what_is_to_come_again_or_was_let_go_is_taken_when_it_comes() {
        let hand = Hand::default();
        hand.take(load("SEAT-desk/desk", 1, 1));
        hand.take(load("SEAT-desk/desk", 2, 1));
        let again = next(&hand).unwrap();
        hand.forget(again.load());
        assert_eq!(hand.take(load("SEAT-desk/desk", 1, 2)), Taken::In);
        drop(next(&hand).unwrap());
        assert_eq!(hand.take(load("SEAT-desk/desk", 2, 2)), Taken::In);
    }

    #[test]
    fn what_is_given_back_is_of_that_consumer_and_may_come_again() {
        let hand = Hand::default();
        hand.take(load("SEAT-desk/desk", 1, 1));
        hand.take(load("SEAT-post/post", 1, 1));
        let desk = load("SEAT-desk/desk", 0, 0).consumer;
        let back = hand.give_back(&desk);
        assert_eq!(back.len(), 1);
        assert_eq!(hand.take(load("SEAT-desk/desk", 1, 2)), Taken::In);
        assert_eq!(next(&hand).unwrap().load().consumer.name(), "post");
        assert_eq!(next(&hand).unwrap().load().consumer.name(), "desk");
        assert!(next(&hand).is_none());
    }
}
