//! What all who are on one loopback share: streams, who is who, who may do what, and whether it can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mesh_derive::{Plan, ack_filters, controller_grant, subject};
use mesh_model::{
    BusFacts, BusKind, ConsumerKind, ConsumerRef, Filter, Grant, Principal, PublicKey, SeatName,
    StreamName, StreamSpec, Subject,
};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};

use super::Receipt;
use super::queue::{Full, Settled, Stored, Stream};
use crate::backlog::Backlog;
use crate::disturbed::Disturbed;
use crate::handover::{Readers, SeatAuthority, hand_over};
use crate::seam::{Asserted, BusError, Disturbance, Link};

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Turns over with every change of the state.
    pub(super) changed: watch::Sender<u64>,
    /// Where each controller hears of definitions that none asked for.
    disturbed: Mutex<Vec<Weak<Disturbed>>>,
    pub(super) link: watch::Sender<Link>,
    /// What is said to whoever listens, and kept for nobody.
    pub(super) said: broadcast::Sender<(Subject, Vec<u8>)>,
    names: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) kind: BusKind,
    pub(super) facts: BusFacts,
    pub(super) streams: BTreeMap<StreamName, Stream>,
    /// The last sequences of streams that were deleted.
    ended: BTreeMap<StreamName, u64>,
    up: bool,
    grants: BTreeMap<Principal, Grant>,
    users: BTreeMap<PublicKey, Principal>,
    /// What the controller reads for the other bus.
    pub(super) carried: BTreeSet<ConsumerRef>,
    withheld: BTreeSet<(Principal, Filter)>,
    /// Bytes a message may have.
    pub(super) largest: usize,
}

impl Shared {
    pub(super) fn new(kind: BusKind, facts: BusFacts) -> Self {
        Self {
            state: Mutex::new(State {
                kind,
                facts,
                streams: BTreeMap::new(),
                ended: BTreeMap::new(),
                up: true,
                grants: BTreeMap::new(),
                users: BTreeMap::new(),
                carried: BTreeSet::new(),
                withheld: BTreeSet::new(),
                largest: usize::MAX,
            }),
            changed: watch::Sender::new(0),
            disturbed: Mutex::default(),
            link: watch::Sender::new(Link::Up),
            said: broadcast::Sender::new(SAID_AHEAD),
            names: AtomicU64::new(1),
        }
    }

    /// Another one each time.
    pub(super) fn next_name(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes whoever waits for it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.send_modify(|turn| *turn += 1);
        result
    }

    pub(super) fn set_up(&self, up: bool) {
        self.change(|state| state.up = up);
        self.link
            .send_replace(if up { Link::Up } else { Link::Down });
        if up {
            self.disturb(Disturbance::Declarations);
        }
    }

    pub(super) fn disturb(&self, what: Disturbance) {
        let mut all = self
            .disturbed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| {
            one.upgrade().is_some_and(|one| {
                one.tell(what);
                true
            })
        });
    }

    /// Where a controller hears of disturbances from now on.
    pub(super) fn hears_disturbances(&self) -> Arc<Disturbed> {
        let one = Arc::new(Disturbed::default());
        let mut all = self
            .disturbed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::downgrade(&one));
        one
    }

    /// Says something to whoever listens now.
    pub(super) fn say(
        &self,
        who: &Principal,
        subject: &Subject,
        body: Vec<u8>,
    ) -> Result<(), BusError> {
        let state = self.state();
        state.require_up()?;
        state.require_publish(who, subject)?;
        drop(state);
        // Nobody may be listening; then nobody hears it.
        let _unheard = self.said.send((subject.clone(), body));
        Ok(())
    }

    pub(super) fn publish(&self, who: &Principal, message: Stored) -> Result<u64, BusError> {
        self.change(|state| state.publish(who, message))
    }

    pub(super) fn settle(
        &self,
        who: &Principal,
        receipt: &Receipt,
        how: Settled,
    ) -> Result<(), BusError> {
        self.change(|state| state.settle(who, receipt, how))
    }
}

impl State {
    pub(super) fn require_up(&self) -> Result<(), BusError> {
        if self.up {
            Ok(())
        } else {
            Err(BusError::Away("the loopback is down".to_owned()))
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// What somebody may do: nothing before a plan says so, but for the controller.
    fn grant(&self, who: &Principal) -> Grant {
        let mut grant = match (self.grants.get(who), who) {
            (Some(grant), _) => grant.clone(),
            (None, Principal::Controller) => controller_grant(&self.facts),
            (None, _) => Grant::default(),
        };
        let withheld = |filter: &Filter| self.withheld.contains(&(who.clone(), filter.clone()));
        grant.publish.retain(|filter| !withheld(filter));
        grant.subscribe.retain(|filter| !withheld(filter));
        grant.queues.retain(|allowed| !withheld(&allowed.filter));
        grant
    }

    pub(super) fn withhold(&mut self, who: Principal, filter: Filter) {
        self.withheld.insert((who, filter));
    }

    /// Whether this key is this principal's.
    pub(super) fn is_user(&self, key: &PublicKey, who: &Principal) -> bool {
        self.users.get(key) == Some(who)
    }

    /// Whether somebody has a credential at all.
    pub(super) fn require_user(&self, who: &Principal) -> Result<(), BusError> {
        self.require_up()?;
        if self.users.values().any(|user| user == who) {
            Ok(())
        } else {
            Err(refused(format!("{who} to connect")))
        }
    }

    fn require_publish(&self, who: &Principal, subject: &Subject) -> Result<(), BusError> {
        if self.grant(who).publishes(subject) {
            Ok(())
        } else {
            Err(refused(format!("{who} to publish on {subject}")))
        }
    }

    pub(super) fn may_hear(&self, who: &Principal, deliver: &Subject, group: Option<&str>) -> bool {
        self.grant(who).subscribes(&deliver.into(), group)
    }

    pub(super) fn publish(&mut self, who: &Principal, message: Stored) -> Result<u64, BusError> {
        self.require_up()?;
        self.require_publish(who, &message.subject)?;
        self.store(message)
    }

    /// Stores a message in the stream of its subject, whoever sends it.
    pub(super) fn store(&mut self, message: Stored) -> Result<u64, BusError> {
        let subject = message.subject.clone();
        self.require_size(&message)?;
        let stored = self.taker(&subject)?.publish(message, Instant::now());
        stored.map_err(|Full| BusError::Full(subject.to_string()))
    }

    /// Stores what comes from the other bus.
    pub(super) fn bring(&mut self, message: Stored) -> Result<u64, BusError> {
        self.require_up()?;
        self.require_publish(&Principal::Controller, &message.subject)?;
        let subject = message.subject.clone();
        self.require_size(&message)?;
        let stored = self.taker(&subject)?.bring(message, Instant::now());
        stored.map_err(|Full| BusError::Full(subject.to_string()))
    }

    fn require_size(&self, message: &Stored) -> Result<(), BusError> {
        if message.body.len() <= self.largest {
            return Ok(());
        }
        Err(BusError::TooLarge {
            what: message.subject.to_string(),
            why: format!("the loopback takes {} bytes at most", self.largest),
        })
    }

    /// The stream of a subject.
    fn taker(&mut self, subject: &Subject) -> Result<&mut Stream, BusError> {
        let mut streams = self.streams.values_mut();
        let taker = streams.find(|stream| stream.stores(subject));
        taker.ok_or_else(|| BusError::Away(format!("{subject}: no stream takes it")))
    }

    /// Where a consumer delivers.
    pub(super) fn delivers_to(&self, consumer: &ConsumerRef) -> Option<Subject> {
        let stream = self.streams.get(consumer.stream())?;
        let mut consumers = stream.consumers();
        let spec = consumers.find(|spec| spec.consumer == *consumer)?;
        match &spec.kind {
            ConsumerKind::Push { deliver, .. } => Some(deliver.clone()),
            ConsumerKind::Pull => None,
        }
    }

    pub(super) fn settle(
        &mut self,
        who: &Principal,
        receipt: &Receipt,
        how: Settled,
    ) -> Result<(), BusError> {
        self.require_up()?;
        let consumer = &receipt.consumer;
        let grant = self.grant(who);
        let granted = |ack: &Filter| {
            grant
                .publish
                .iter()
                .any(|allowed| ack.is_subset_of(allowed))
        };
        if !ack_filters(consumer, &self.facts).iter().any(granted) {
            return Err(refused(format!(
                "{who} to settle what comes from {consumer}"
            )));
        }
        if let Some(stream) = self.streams.get_mut(consumer.stream()) {
            stream.settle(consumer.name(), receipt.sequence, how, Instant::now());
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self, consumer: &ConsumerRef) -> Option<(Receipt, Stored)> {
        let stream = self.streams.get_mut(consumer.stream())?;
        let (sequence, stored) = stream.deliver(consumer.name(), Instant::now())?;
        let consumer = consumer.clone();
        Some((Receipt { consumer, sequence }, stored))
    }

    pub(super) fn has(&self, consumer: &ConsumerRef) -> bool {
        let stream = self.streams.get(consumer.stream());
        stream.is_some_and(|stream| stream.has_consumer(consumer.name()))
    }

    pub(super) fn require_consumer(&self, consumer: &ConsumerRef) -> Result<(), BusError> {
        self.require_up()?;
        if self.has(consumer) {
            Ok(())
        } else {
            Err(BusError::Away(format!("consumer {consumer} is not there")))
        }
    }

    pub(super) fn wakes(&self, consumer: &ConsumerRef) -> Option<Instant> {
        self.streams.get(consumer.stream())?.wakes(consumer.name())
    }

    /// Makes a stream that is not there.
    pub(super) fn make_stream(&mut self, spec: &StreamSpec) {
        let last = self.ended.get(&spec.name).copied().unwrap_or(0);
        let stream = self.streams.entry(spec.name.clone());
        stream.or_insert_with(|| Stream::new(spec.clone()).after(last));
    }

    /// Deletes a stream. One of its name that is made later goes on counting: nobody is to take its messages for those
    /// of this one.
    pub(super) fn delete_stream(&mut self, name: &StreamName) -> bool {
        let ended = self.streams.remove(name);
        let was = ended.is_some();
        self.ended
            .extend(ended.map(|stream| (name.clone(), stream.last())));
        was
    }

    /// Brings everything to the plan. Grants come last: what may be said is said only once those who follow can hear it.
    pub(super) fn assert(&mut self, plan: &Plan) -> Result<Asserted, BusError> {
        self.require_up()?;
        let plan = plan.parts.get(&self.kind).unwrap_or(plan);
        let mut asserted = Asserted::default();
        for (name, spec) in &plan.streams {
            if let Some(stream) = self.streams.get_mut(name) {
                if stream.define(spec) {
                    asserted.written.push(format!("stream {name}: changed"));
                }
            } else {
                self.make_stream(spec);
                asserted.written.push(format!("stream {name}: made"));
            }
        }
        for (consumer, spec) in &plan.consumers {
            let stream = self.streams.get_mut(consumer.stream());
            if let Some(what) = stream.and_then(|stream| stream.define_consumer(spec)) {
                asserted
                    .written
                    .push(format!("consumer {consumer}: {what}"));
            }
        }
        for (name, stream) in &self.streams {
            if !plan.streams.contains_key(name) {
                asserted.strays.push(format!("stream {name}"));
            }
            let consumers = stream.consumers().map(|spec| &spec.consumer);
            let strays = consumers.filter(|consumer| !plan.consumers.contains_key(consumer));
            asserted
                .strays
                .extend(strays.map(|stray| format!("consumer {stray}")));
        }
        let mut users = plan.users.clone();
        users.extend(plan.retiring.clone());
        let held = (&self.grants, &self.users, &self.carried);
        if held != (&plan.grants, &users, &plan.carried) {
            // Nobody does anything in between, so that one step is as good as two.
            let given = self.hand_over(plan);
            self.grants.clone_from(&plan.grants);
            self.users = users;
            self.carried.clone_from(&plan.carried);
            for seat in given {
                if let Some(stream) = self.streams.get_mut(seat.stream()) {
                    stream.give_back(seat.name(), Instant::now());
                }
            }
            asserted.written.push("users".to_owned());
        }
        Ok(asserted)
    }
}

impl State {
    /// The seats that somebody begins to read, and nobody goes on reading.
    fn hand_over(&self, plan: &Plan) -> BTreeSet<ConsumerRef> {
        let readers = |seat: &ConsumerRef| {
            let users = self.users.values();
            let able = users.filter(|who| {
                let authority = SeatAuthority::of(seat, &self.facts);
                let grant = self.grants.get(who);
                grant.zip(authority).is_some_and(|(of, it)| it.is_in(of))
            });
            Readers {
                known: able.cloned().collect(),
                others: false,
            }
        };
        let mut given = hand_over(plan, &self.facts, readers).given;
        let carried = plan.carried.difference(&self.carried);
        let seats = carried.filter(|of| subject::seat_of(of.stream()).is_some());
        given.extend(seats.cloned());
        given
    }

    /// What waits in each seat's queue.
    pub(super) fn backlogs(&self) -> BTreeMap<SeatName, Backlog> {
        let seats = self.streams.iter().filter_map(|(name, stream)| {
            let seat = subject::seat_of(name)?;
            Some((seat, stream.backlog(Instant::now())))
        });
        seats.collect()
    }
}

fn refused(what: String) -> BusError {
    BusError::Refused {
        what,
        why: "no grant allows it".to_owned(),
    }
}

/// Waits for a change, or until it is time to look again.
pub(super) async fn change_or(changed: &mut watch::Receiver<u64>, at: Option<Instant>) {
    tokio::select! {
        // The sender lives as long as whoever waits here.
        _ = changed.changed() => {}
        () = sleep_until(at.unwrap_or_else(Instant::now)), if at.is_some() => {}
    }
}

/// Said and not yet heard, before the slowest listener misses some.
const SAID_AHEAD: usize = 4096;
