//! Who did what in which order: the loops' own sides of the bus, written down as they are used.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_control::{Change, MessageKey, NodeSettlement, Settlement};
use mesh_derive::Plan;
use mesh_model::{BusFacts, NodeName, SeatName, StreamSpec, Subject};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backlog::Backlog;
use crate::seam::{
    Asserted, BusError, ControllerBus, Delivery, Disturbance, Finding, Link, NodeBus, NodeEvent,
};

/// What was done.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// The store took this.
    Committed(Vec<Change>),
    /// The controller has this in hand.
    Took(MessageKey, Subject),
    /// The controller is about to settle this so.
    Settling(MessageKey, Settlement),
    /// The bus has a copy.
    Parked(Subject),
    /// The bus has a declaration.
    Declared(NodeName),
    /// A node heard a declaration.
    Heard,
    /// The bus has a node's report.
    Reported,
    /// A node is about to settle a declaration so.
    SettlingDeclaration(NodeSettlement),
}

/// All of it, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal(Arc<Mutex<Vec<(Instant, Entry)>>>);

impl Journal {
    pub(super) fn push(&self, entry: Entry) {
        self.entries().push((Instant::now(), entry));
    }

    pub(super) fn all(&self) -> Vec<(Instant, Entry)> {
        self.entries().clone()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(Instant, Entry)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often something was done.
    pub(super) fn count(&self, is: impl Fn(&Entry) -> bool) -> usize {
        self.entries().iter().filter(|(_, entry)| is(entry)).count()
    }

    /// Where something was first done, in the order of all.
    pub(super) fn first(&self, is: impl Fn(&Entry) -> bool) -> Option<usize> {
        self.entries().iter().position(|(_, entry)| is(entry))
    }

    /// The messages taken from a subject, each once, in order.
    pub(super) fn keys(&self, of: &Subject) -> Vec<MessageKey> {
        let mut keys = Vec::new();
        for (_, entry) in self.entries().iter() {
            if let Entry::Took(key, subject) = entry
                && subject == of
                && !keys.contains(key)
            {
                keys.push(*key);
            }
        }
        keys
    }

    /// When a message was taken, each time.
    pub(super) fn taken_at(&self, key: MessageKey) -> Vec<Instant> {
        let took = |entry: &Entry| matches!(entry, Entry::Took(it, _) if *it == key);
        let entries = self.entries();
        let taken = entries.iter().filter(|(_, entry)| took(entry));
        taken.map(|(at, _)| *at).collect()
    }

    /// How a message was settled, each time, and when.
    pub(super) fn settlings(&self, key: MessageKey) -> Vec<(Instant, Settlement)> {
        let entries = self.entries();
        let settlings = entries.iter().filter_map(|(at, entry)| match entry {
            Entry::Settling(it, how) if *it == key => Some((*at, *how)),
            _ => None,
        });
        settlings.collect()
    }
}

/// A side of the bus that is written down as it is used.
#[derive(Debug)]
pub(super) struct Watched<B> {
    pub(super) bus: B,
    pub(super) journal: Journal,
}

impl<B: ControllerBus> ControllerBus for Watched<B> {
    type Receipt = (MessageKey, B::Receipt);

    fn facts(&self) -> BusFacts {
        self.bus.facts()
    }

    fn link(&self) -> watch::Receiver<Link> {
        self.bus.link()
    }

    async fn make_streams(&self, streams: &[StreamSpec]) -> Result<(), BusError> {
        self.bus.make_streams(streams).await
    }

    async fn take_over(&self) -> Result<(), BusError> {
        self.bus.take_over().await
    }

    async fn assert(&self, plan: &Plan) -> Result<Asserted, BusError> {
        self.bus.assert(plan).await
    }

    async fn disturbed(&self) -> Disturbance {
        self.bus.disturbed().await
    }

    async fn take(&self, max: usize) -> Result<Vec<Delivery<Self::Receipt>>, BusError> {
        let taken = self.bus.take(max).await?;
        let watched = taken.into_iter().map(|delivery| {
            let entry = Entry::Took(delivery.key, delivery.subject.clone());
            self.journal.push(entry);
            Delivery {
                key: delivery.key,
                subject: delivery.subject,
                body: delivery.body,
                receipt: (delivery.key, delivery.receipt),
            }
        });
        Ok(watched.collect())
    }

    async fn settle(&self, receipt: &Self::Receipt, how: Settlement) -> Result<(), BusError> {
        let (key, receipt) = receipt;
        self.journal.push(Entry::Settling(*key, how));
        self.bus.settle(receipt, how).await
    }

    async fn heartbeat(&self) -> (Subject, Vec<u8>) {
        self.bus.heartbeat().await
    }

    async fn ask(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        self.bus.ask(node, body).await
    }

    async fn log(&self) -> (Subject, Vec<u8>) {
        self.bus.log().await
    }

    async fn declared(&self, node: &NodeName) -> Result<Option<Vec<u8>>, BusError> {
        self.bus.declared(node).await
    }

    async fn declare(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        self.bus.declare(node, body).await?;
        self.journal.push(Entry::Declared(node.clone()));
        Ok(())
    }

    async fn answer(&self, to: &Subject, body: Vec<u8>) -> Result<(), BusError> {
        self.bus.answer(to, body).await
    }

    async fn park(&self, of: &Subject, body: Vec<u8>, why: &str) -> Result<(), BusError> {
        self.bus.park(of, body, why).await?;
        self.journal.push(Entry::Parked(of.clone()));
        Ok(())
    }

    async fn mark(&self) -> Result<Option<Vec<u8>>, BusError> {
        self.bus.mark().await
    }

    async fn leave_mark(&self, mark: Vec<u8>) -> Result<(), BusError> {
        self.bus.leave_mark(mark).await
    }

    async fn backlogs(&self) -> Result<BTreeMap<SeatName, Backlog>, BusError> {
        self.bus.backlogs().await
    }

    async fn findings(&self) -> Result<Vec<Finding>, BusError> {
        self.bus.findings().await
    }
}

impl<B: NodeBus> NodeBus for Watched<B> {
    type Receipt = B::Receipt;

    fn idle_heartbeat(&self) -> Option<Duration> {
        self.bus.idle_heartbeat()
    }

    async fn next(&self) -> NodeEvent<Self::Receipt> {
        let event = self.bus.next().await;
        if matches!(event, NodeEvent::Declared { .. }) {
            self.journal.push(Entry::Heard);
        }
        event
    }

    async fn settle(&self, receipt: &Self::Receipt, how: NodeSettlement) -> Result<(), BusError> {
        self.journal.push(Entry::SettlingDeclaration(how));
        self.bus.settle(receipt, how).await
    }

    async fn report(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.bus.report(body).await?;
        self.journal.push(Entry::Reported);
        Ok(())
    }

    async fn heartbeat(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.bus.heartbeat(body).await
    }

    async fn asked(&self) -> Vec<u8> {
        self.bus.asked().await
    }

    async fn say_log(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.bus.say_log(body).await
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        self.bus.listen_again().await
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        self.bus.reconnect().await
    }
}
