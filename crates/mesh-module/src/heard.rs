//! What a module hears: events of others, and the work of a seat.

use std::sync::Arc;
use std::time::Duration;

use mesh_bus::{Incoming, ModuleBus, ModuleSettlement};
use mesh_derive::subject::{self, Heard};
use mesh_model::{EventName, EventRef, ModuleName};

use crate::bus::HandedBus;
use crate::ear::Ear;
use crate::error::SettleError;
use crate::hand::InHand;
use crate::term::Term;

/// The events a module follows. Instances of one module share them: each event goes to one of them.
#[derive(Debug)]
pub struct Follower<B: ModuleBus = HandedBus> {
    ear: Ear<Event<B>>,
}

/// An event in hand, until it is settled or dropped. One that is dropped comes again after the ack wait of 30 s.
#[derive(Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "an event's name is called `event` wherever the mesh has one"
)]
#[must_use = "an event that is dropped comes again; settle it with `done` or `again`"]
pub struct Event<B: ModuleBus = HandedBus> {
    /// Who emitted it; proven by its grant.
    pub module: ModuleName,
    /// What happened.
    pub event: EventName,
    /// Its id, the same each time it comes.
    pub id: String,
    /// What its author wrote.
    pub body: Vec<u8>,
    hand: InHand<B>,
}

/// The work of one seat. It arrives while the module holds the seat, at one of its instances.
#[derive(Debug)]
pub struct Worker<B: ModuleBus = HandedBus> {
    ear: Ear<Work<B>>,
}

/// Work in hand, until it is settled or dropped. What is dropped comes again after the ack wait of 60 s.
#[derive(Debug)]
#[must_use = "work that is dropped comes again; settle it with `done` or `again`"]
pub struct Work<B: ModuleBus = HandedBus> {
    /// Who sent it; proven by its grant.
    pub sender: ModuleName,
    /// Its id, the same each time it comes.
    pub id: String,
    /// What its sender wrote.
    pub body: Vec<u8>,
    hand: InHand<B>,
}

impl<B: ModuleBus> Follower<B> {
    pub(crate) fn new(bus: Arc<B>, listener: B::Listener) -> Self {
        Self {
            ear: Ear::new(bus, listener, Event::read),
        }
    }

    /// Waits for the next event. May be dropped: no event is lost by it.
    pub async fn next(&mut self) -> Event<B> {
        self.ear.next().await
    }
}

impl<B: ModuleBus> Event<B> {
    fn read(incoming: Incoming<B::Receipt>, bus: Arc<B>, term: Term) -> Option<Self> {
        let Some(Heard::Event(EventRef { module, event })) = subject::heard(&incoming.subject)
        else {
            return None;
        };
        Some(Self {
            module,
            event,
            id: incoming.id,
            body: incoming.body,
            hand: InHand::new(bus, incoming.receipt, term),
        })
    }

    /// Done with; it does not come again.
    pub async fn done(self) -> Result<(), SettleError> {
        self.hand.settle(self.id, ModuleSettlement::Done).await
    }

    /// Not done: it comes again after this long, to this instance or another.
    pub async fn again(self, after: Duration) -> Result<(), SettleError> {
        let how = ModuleSettlement::Again(after);
        self.hand.settle(self.id, how).await
    }
}

impl<B: ModuleBus> Worker<B> {
    pub(crate) fn new(bus: Arc<B>, listener: B::Listener) -> Self {
        Self {
            ear: Ear::new(bus, listener, Work::read),
        }
    }

    /// Waits for the next piece of work, for as long as the module does not hold the seat too. May be dropped: no work
    /// is lost by it. What came while it held the seat and was not taken from here is dropped with the seat.
    pub async fn next(&mut self) -> Work<B> {
        self.ear.next().await
    }
}

impl<B: ModuleBus> Work<B> {
    fn read(incoming: Incoming<B::Receipt>, bus: Arc<B>, term: Term) -> Option<Self> {
        let Some(Heard::Work(_, sender)) = subject::heard(&incoming.subject) else {
            return None;
        };
        Some(Self {
            sender,
            id: incoming.id,
            body: incoming.body,
            hand: InHand::new(bus, incoming.receipt, term),
        })
    }

    /// Whether the seat was taken away since this came, or the connection it came over ended: then it goes to whoever
    /// holds the seat, and what is done about it here is done twice.
    pub fn is_lost(&self) -> bool {
        self.hand.term().is_over()
    }

    /// Waits until [`Work::is_lost`]: to stop what takes long. May be dropped.
    pub async fn lost(&self) {
        self.hand.term().over().await;
    }

    /// Done with; it leaves the seat's queue. An error where the seat was taken away meanwhile.
    pub async fn done(self) -> Result<(), SettleError> {
        self.hand.settle(self.id, ModuleSettlement::Done).await
    }

    /// Not done: it comes again after this long, to whoever holds the seat then.
    pub async fn again(self, after: Duration) -> Result<(), SettleError> {
        let how = ModuleSettlement::Again(after);
        self.hand.settle(self.id, how).await
    }
}
