//! What the controller has of the broker: waiting to be taken, in its hands, or held for a while. All of it is out
//! unacknowledged, within the prefetch, and goes back with the channel it came on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::Acker;
use lapin::message::Delivery as Message;
use lapin::options::BasicAckOptions;
use lapin::types::ShortString;
use mesh_bus::{BusError, Delivery, MessageKey, Queue};
use mesh_derive::topology::Address;
use mesh_model::Subject;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::ear::Heard;
use crate::sender::proven;

/// What settling a message takes.
#[derive(Debug, Clone)]
pub struct Receipt(Arc<Entry>);

#[derive(Debug)]
struct Entry {
    key: MessageKey,
    /// The queue it lay in.
    from: String,
    subject: Subject,
    body: Vec<u8>,
    acker: Acker,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Intake {
    /// What the names of the mesh's users begin with.
    users: String,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    control: VecDeque<Arc<Entry>>,
    events: VecDeque<Arc<Entry>>,
    held: BTreeMap<(Instant, MessageKey), Arc<Entry>>,
    /// Everything that is out, by what it is.
    out: BTreeMap<MessageKey, Arc<Entry>>,
    /// Why a queue is not listened to, by its name.
    deaf: BTreeMap<String, BusError>,
    /// How long the broker lets a message be held, if it ever ended a channel for that.
    timeout: Option<Duration>,
    forged: u64,
}

impl Intake {
    pub(crate) fn new(users: String) -> Self {
        Self {
            users,
            inner: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Takes in what an ear on a queue hears, and answers with what is to be acknowledged at once.
    pub(crate) fn heard(&self, queue: Queue, name: &str, heard: Heard) -> Option<Acker> {
        let acker = match heard {
            Heard::Listening => {
                self.inner().deaf.remove(name);
                None
            }
            Heard::Refused(error) => {
                self.inner().deaf.insert(name.to_owned(), error);
                None
            }
            Heard::Ended(held_too_long) => {
                let mut inner = self.inner();
                inner.forget_what_came_from(name);
                inner.timeout = held_too_long.or(inner.timeout);
                let error = BusError::Away(format!("{name} is no longer read"));
                inner.deaf.insert(name.to_owned(), error);
                None
            }
            Heard::Delivered(message) => self.delivered(queue, name, *message),
        };
        self.changed.notify_one();
        acker
    }

    fn delivered(&self, queue: Queue, name: &str, message: Message) -> Option<Acker> {
        let at = address(&message);
        let subject = at.as_ref().and_then(Address::subject);
        let (Some(at), Some(subject)) = (at, subject) else {
            return Some(message.acker);
        };
        let user = message.properties.user_id().as_ref();
        let mut inner = self.inner();
        if !proven(&subject, user.map(ShortString::as_str), &self.users) {
            inner.forged += 1;
            if inner.forged.is_power_of_two() {
                tracing::warn!(%at, user = ?user, forged = inner.forged, "dropped a message whose sender is not whom its key names");
            }
            return Some(message.acker);
        }
        let key = key_of(queue, &at, &message);
        if inner.out.get(&key).is_some_and(|out| out.acker.usable()) {
            // Published twice, since it was not known whether it had arrived. The one that is out stands for both.
            return Some(message.acker);
        }
        let entry = Arc::new(Entry {
            key,
            from: name.to_owned(),
            subject,
            body: message.data,
            acker: message.acker,
        });
        inner.out.insert(key, Arc::clone(&entry));
        match queue {
            Queue::Control => inner.control.push_back(entry),
            Queue::Events => inner.events.push_back(entry),
        }
        None
    }

    /// Waits for something to take, until then at most.
    pub(crate) async fn take(&self, max: usize, until: Instant) -> Vec<Delivery<Receipt>> {
        loop {
            let (taken, due) = self.inner().take(max);
            if !taken.is_empty() || max == 0 {
                return taken;
            }
            let wake = due.map_or(until, |due| due.min(until));
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(wake) => {
                    if wake >= until {
                        return self.inner().take(max).0;
                    }
                }
            }
        }
    }

    /// Acknowledges. One that can no longer be comes again, and is then known.
    pub(crate) async fn done(&self, receipt: &Receipt) -> Result<(), BusError> {
        let entry = &receipt.0;
        {
            let mut inner = self.inner();
            if inner
                .out
                .get(&entry.key)
                .is_some_and(|out| Arc::ptr_eq(out, entry))
            {
                inner.out.remove(&entry.key);
            }
        }
        match entry.acker.ack(BasicAckOptions::default()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(BusError::Away("its channel has ended".to_owned())),
            Err(error) => Err(BusError::Away(error.to_string())),
        }
    }

    /// Keeps it for a while, and lets it be taken again.
    pub(crate) fn hold(&self, receipt: &Receipt, delay: Duration) {
        let entry = &receipt.0;
        let mut inner = self.inner();
        if entry.acker.usable() {
            let at = Instant::now() + delay;
            inner.held.insert((at, entry.key), Arc::clone(entry));
        } else if inner
            .out
            .get(&entry.key)
            .is_some_and(|out| Arc::ptr_eq(out, entry))
        {
            inner.out.remove(&entry.key);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Why a queue is not listened to.
    pub(crate) fn deaf(&self) -> Option<BusError> {
        self.inner().deaf.values().next().cloned()
    }

    /// How long the broker lets a message be held, if one was held for longer.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.inner().timeout
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What was held and is due, then one of each queue by turns: a flood of one must not keep the other out. And when
    /// the next is due.
    fn take(&mut self, max: usize) -> (Vec<Delivery<Receipt>>, Option<Instant>) {
        let now = Instant::now();
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some(first) = self.held.first_entry()
            && first.key().0 <= now
        {
            taken.extend(delivery(first.remove()));
        }
        loop {
            let mut nothing = true;
            for queue in [&mut self.control, &mut self.events] {
                let next = (taken.len() < max).then(|| queue.pop_front()).flatten();
                if let Some(entry) = next {
                    taken.extend(delivery(entry));
                    nothing = false;
                }
            }
            if nothing {
                break;
            }
        }
        let due = self.held.first_key_value().map(|((at, _), _)| *at);
        (taken, due)
    }

    /// What came on a channel that has ended is the broker's again. Kept here as well, it would be more with each time, and
    /// where the end of the channel was not answered its copy would be taken for one that was published twice.
    fn forget_what_came_from(&mut self, queue: &str) {
        let stays = |entry: &Arc<Entry>| entry.from != queue && entry.acker.usable();
        self.control.retain(stays);
        self.events.retain(stays);
        self.held.retain(|_, entry| stays(entry));
        self.out.retain(|_, entry| stays(entry));
    }
}

fn delivery(entry: Arc<Entry>) -> Option<Delivery<Receipt>> {
    entry.acker.usable().then(|| Delivery {
        key: entry.key,
        subject: entry.subject.clone(),
        body: entry.body.clone(),
        receipt: Receipt(entry),
    })
}

/// Where a message was published, if that is one of the mesh's exchanges.
pub(crate) fn address(message: &Message) -> Option<Address> {
    Some(Address {
        exchange: mesh_derive::topology::Exchange::named(message.exchange.as_str())?,
        key: message.routing_key.as_str().to_owned(),
    })
}

/// What a message is known by: the same each time it is delivered, on whatever channel to whichever controller. There is
/// no number a broker gives it, so it is known by what it says.
fn key_of(queue: Queue, at: &Address, message: &Message) -> MessageKey {
    let id = message.properties.message_id().as_ref();
    let digest = Sha256::new()
        .chain_update(at.to_string())
        .chain_update([0])
        .chain_update(id.map(ShortString::as_str).unwrap_or_default())
        .chain_update([0])
        .chain_update(&message.data)
        .finalize();
    let first: [u8; 8] = std::array::from_fn(|nth| digest.get(nth).copied().unwrap_or_default());
    MessageKey {
        bus: mesh_model::BusKind::Amqp,
        queue,
        sequence: u64::from_be_bytes(first),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use lapin::BasicProperties;

    use super::*;

    fn message(exchange: &str, key: &str, user: &str, body: &str) -> Heard {
        let mut message = Message::mock(1, exchange.into(), key.into(), false, body.into());
        message.properties = BasicProperties::default().with_user_id(user.into());
        Heard::Delivered(Box::new(message))
    }

    fn report(body: &str) -> Heard {
        message("mesh.ctl", "report.a", "h.node.a", body)
    }

    fn bodies(taken: &[Delivery<Receipt>]) -> Vec<&str> {
        let bodies = taken.iter().map(|it| std::str::from_utf8(&it.body));
        bodies.map(Result::unwrap).collect()
    }

    fn ready(intake: &Intake, max: usize) -> Vec<Delivery<Receipt>> {
        intake.inner().take(max).0
    }

    #[test]
    fn a_copy_of_what_is_out_is_acknowledged_and_one_that_comes_after_is_known_by_the_same_key() {
        let intake = Intake::new("h.".to_owned());
        assert!(intake.heard(Queue::Control, "q", report("one")).is_none());
        assert!(intake.heard(Queue::Control, "q", report("one")).is_some());
        assert!(intake.heard(Queue::Control, "q", report("two")).is_none());
        let taken = ready(&intake, 9);
        assert_eq!(bodies(&taken), ["one", "two"]);
        assert!(intake.heard(Queue::Control, "q", report("one")).is_some());
        let done = intake.done(&taken[0].receipt).now_or_never();
        assert_eq!(done, Some(Ok(())));
        assert!(intake.heard(Queue::Control, "q", report("one")).is_none());
        assert_eq!(ready(&intake, 9)[0].key, taken[0].key);
    }

    #[test]
    fn what_came_on_a_channel_that_ended_comes_again_though_nobody_answered_that_it_ended() {
        let intake = Intake::new("h.".to_owned());
        for (queue, body) in [("q", "taken"), ("q", "waits"), ("other", "stays")] {
            let copy = intake.heard(Queue::Control, queue, report(body));
            assert!(copy.is_none(), "{body}");
        }
        let taken = ready(&intake, 1);
        intake.hold(&taken[0].receipt, Duration::ZERO);
        intake.heard(Queue::Control, "q", Heard::Ended(None));
        for body in ["taken", "waits"] {
            let copy = intake.heard(Queue::Control, "q", report(body));
            assert!(copy.is_none(), "{body} was taken for a copy, and is lost");
        }
        assert_eq!(bodies(&ready(&intake, 9)), ["stays", "taken", "waits"]);
    }

    #[test]
    fn what_its_sender_did_not_send_is_acknowledged_and_not_taken() {
        let intake = Intake::new("h.".to_owned());
        for (exchange, key, user) in [
            ("mesh.ctl", "report.a", "h.node.b"),
            ("mesh.ctl", "report.a", "node.a"),
            ("mesh.ev", "m.announced", "h.node.a"),
            ("amq.topic", "report.a", "h.node.a"),
            ("mesh.ctl", "mark", "h.controller.7f"),
        ] {
            let heard = message(exchange, key, user, "said");
            assert!(intake.heard(Queue::Control, "q", heard).is_some(), "{key}");
        }
        assert_eq!(bodies(&ready(&intake, 9)), [""; 0]);
    }

    #[test]
    fn neither_queue_keeps_the_other_out() {
        let intake = Intake::new("h.".to_owned());
        for body in ["r1", "r2", "r3"] {
            intake.heard(Queue::Control, "q", report(body));
        }
        let event = message("mesh.ev", "m.announced", "h.module.m.a", "e1");
        intake.heard(Queue::Events, "q", event);
        assert_eq!(bodies(&ready(&intake, 3)), ["r1", "e1", "r2"]);
        assert_eq!(bodies(&ready(&intake, 3)), ["r3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_taken_again_when_it_is_due_and_not_before() {
        let intake = Intake::new("h.".to_owned());
        intake.heard(Queue::Control, "q", report("held"));
        let began = Instant::now();
        let taken = intake.take(9, began).await;
        intake.hold(&taken[0].receipt, Duration::from_secs(5));
        intake.heard(Queue::Control, "q", report("next"));
        let until = began + Duration::from_mins(1);
        assert_eq!(bodies(&intake.take(9, until).await), ["next"]);
        assert_eq!(bodies(&intake.take(9, until).await), ["held"]);
        assert_eq!(began.elapsed().as_secs(), 5);
        assert!(
            intake
                .take(9, began + Duration::from_secs(9))
                .await
                .is_empty()
        );
    }
}
