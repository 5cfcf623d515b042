//! One mesh on two buses: the controller's side of both, as one.
//!
//! Each holds its part of the plan, and what waits on one for readers on the other is carried there. Definitions are
//! asserted so that nobody gains on one bus what another is still to lose on the other ([`withdrawal`]).

mod carrying;
mod controller;
mod held;
mod taking;
mod withdrawal;

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_model::{BusKind, NodeName};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::carrier::Carrier;
use crate::seam::{ControllerBus, Link};
use controller::Telling;
use held::Known;
use taking::Taking;

/// A NATS and a RabbitMQ, as the one bus of a controller. Carries between them until it is dropped.
pub struct Both<N: ControllerBus, A: ControllerBus> {
    nats: Arc<N>,
    amqp: Arc<A>,
    link: watch::Sender<Link>,
    /// Which of them this controller took over, while that is not so of both.
    taken_over: Mutex<[bool; 2]>,
    taking: Mutex<Taking<N::Receipt, A::Receipt>>,
    /// What each may hold, and who is where. Locked while a plan is asserted, of which there is one at a time.
    asserting: Mutex<()>,
    known: std::sync::Mutex<Known>,
    /// Nodes told something on one bus and not yet on the other.
    telling: std::sync::Mutex<BTreeMap<NodeName, Telling>>,
    /// What goes on beside. Looked at when something is taken: a panic there is not to go unheard.
    beside: std::sync::Mutex<JoinSet<()>>,
}

/// What settling a message takes: its bus's.
#[derive(Debug, Clone)]
pub enum BothReceipt<N, A> {
    /// It came over NATS.
    Nats(N),
    /// It came over AMQP.
    Amqp(A),
}

impl<N, A> Both<N, A>
where
    N: ControllerBus + Carrier,
    A: ControllerBus + Carrier,
{
    /// Both of them. To be made in a runtime: what is carried is carried from here on.
    pub fn new(nats: N, amqp: A) -> Self {
        let (nats, amqp) = (Arc::new(nats), Arc::new(amqp));
        let link = watch::Sender::new(Link::Up);
        let mut beside = JoinSet::new();
        beside.spawn(carrying::links(nats.link(), amqp.link(), link.clone()));
        beside.spawn(carrying::carry(
            BusKind::Nats,
            Arc::clone(&nats),
            Arc::clone(&amqp),
        ));
        beside.spawn(carrying::carry(
            BusKind::Amqp,
            Arc::clone(&amqp),
            Arc::clone(&nats),
        ));
        Self {
            nats,
            amqp,
            link,
            taken_over: Mutex::default(),
            taking: Mutex::default(),
            asserting: Mutex::default(),
            known: std::sync::Mutex::default(),
            telling: std::sync::Mutex::default(),
            beside: std::sync::Mutex::new(beside),
        }
    }
}

impl<N: ControllerBus, A: ControllerBus> Both<N, A> {
    /// The RabbitMQ: a connection to it is ended before the program is.
    pub fn amqp(&self) -> &A {
        &self.amqp
    }
}

impl<N: ControllerBus, A: ControllerBus> std::fmt::Debug for Both<N, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Both")
            .field("link", &*self.link.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt;
    use mesh_model::BusFacts;

    use super::*;
    use crate::loopback::Loopback;

    #[tokio::test]
    async fn a_panic_while_something_is_carried_ends_who_takes() {
        let [nats, amqp] =
            BusKind::ALL.map(|kind| Loopback::standing_for(kind, BusFacts::default()).controller());
        let both = Both::new(nats, amqp);
        let end = both
            .beside
            .lock()
            .unwrap()
            .spawn(async { panic!("carried") });
        while !end.is_finished() {
            tokio::task::yield_now().await;
        }
        let taken = AssertUnwindSafe(both.take(1)).catch_unwind().await;
        let said = taken.unwrap_err();
        assert_eq!(said.downcast_ref(), Some(&"carried"));
    }
}
