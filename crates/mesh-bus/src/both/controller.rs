//! What the one bus of the two does: each call goes to the bus it is about, or to both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join;
use mesh_control::Settlement;
use mesh_derive::Plan;
use mesh_derive::proof::Act;
use mesh_model::{BusFacts, BusKind, NodeName, Principal, SeatName, StreamSpec, Subject};
use tokio::sync::watch;

use super::withdrawal::{Parts, Step, steps};
use super::{Both, BothReceipt};
use crate::backlog::Backlog;
use crate::carrier::Carrier;
use crate::ended::came_to_its_end;
use crate::proof::{Attempted, Prober, Proven, UnprovenError};
use crate::seam::{Asserted, BusError, ControllerBus, Delivery, Disturbance, Finding, Link};

/// What a node was told last, and which buses have it.
#[derive(Debug, Default)]
pub(super) struct Telling {
    body: Vec<u8>,
    on: BTreeSet<BusKind>,
}

impl<N, A> Both<N, A>
where
    N: ControllerBus + Carrier,
    A: ControllerBus + Carrier,
{
    fn places(&self, who: &Principal) -> Vec<BusKind> {
        locked(&self.known).places(who)
    }

    /// Where a node hears; an error while it is on neither bus.
    fn places_of(&self, node: &NodeName) -> Result<Vec<BusKind>, BusError> {
        let places = self.places(&Principal::Node(node.clone()));
        if places.is_empty() {
            let what = format!("node {node} is on no bus yet");
            return Err(BusError::Away(what));
        }
        Ok(places)
    }

    /// Nobody would know that nothing is carried any more.
    fn is_carried(&self) {
        if let Some(ended) = locked(&self.beside).try_join_next() {
            came_to_its_end(ended);
        }
    }

    async fn step(&self, step: Step) -> Result<Asserted, BusError> {
        for (bus, plan) in &step {
            locked(&self.known).begin(*bus, plan);
        }
        let (nats, amqp) = (step.get(&BusKind::Nats), step.get(&BusKind::Amqp));
        let ended = join(
            asserted_on(&*self.nats, nats),
            asserted_on(&*self.amqp, amqp),
        )
        .await;
        let ended = BTreeMap::from([(BusKind::Nats, ended.0), (BusKind::Amqp, ended.1)]);
        let (mut asserted, mut errors) = (Asserted::default(), Vec::new());
        let mut step = step;
        for (bus, ended) in ended {
            match ended {
                Ok(on_bus) => {
                    if let Some(plan) = step.remove(&bus) {
                        locked(&self.known).shows(bus, plan);
                    }
                    let said = |what: String| format!("{bus}: {what}");
                    asserted
                        .written
                        .extend(on_bus.written.into_iter().map(said));
                    asserted.strays.extend(on_bus.strays.into_iter().map(said));
                }
                Err(error) => errors.push(error),
            }
        }
        worst(errors).map_or(Ok(asserted), Err)
    }

    async fn declare_on(
        &self,
        bus: BusKind,
        node: &NodeName,
        body: Vec<u8>,
    ) -> Result<(), BusError> {
        match bus {
            BusKind::Nats => self.nats.declare(node, body).await,
            BusKind::Amqp => self.amqp.declare(node, body).await,
        }
    }

    async fn declared_on(
        &self,
        bus: BusKind,
        node: &NodeName,
    ) -> Result<Option<Vec<u8>>, BusError> {
        match bus {
            BusKind::Nats => self.nats.declared(node).await,
            BusKind::Amqp => self.amqp.declared(node).await,
        }
    }

    fn probers_on(&self, bus: BusKind, probers: &[Prober]) -> Vec<Prober> {
        let is_on = |prober: &&Prober| self.places(prober.principal()).contains(&bus);
        probers.iter().filter(is_on).cloned().collect()
    }
}

impl<N, A> ControllerBus for Both<N, A>
where
    N: ControllerBus + Carrier,
    A: ControllerBus + Carrier,
{
    type Receipt = BothReceipt<N::Receipt, A::Receipt>;

    /// Those of NATS: what stands in subjects of RabbitMQ is nothing of the server's.
    fn facts(&self) -> BusFacts {
        self.nats.facts()
    }

    /// Which of both can be reached, said again when one can be that could not.
    fn link(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    async fn make_streams(&self, streams: &[StreamSpec]) -> Result<(), BusError> {
        let made = join(
            self.nats.make_streams(streams),
            self.amqp.make_streams(streams),
        );
        both(made.await)
    }

    /// Takes over each once, however often it is tried until both are.
    async fn take_over(&self) -> Result<(), BusError> {
        let mut taken_over = self.taken_over.lock().await;
        let [nats, amqp] = &mut *taken_over;
        if *nats && *amqp {
            (*nats, *amqp) = (false, false);
        }
        if !*nats {
            self.nats.take_over().await?;
            *nats = true;
        }
        if !*amqp {
            self.amqp.take_over().await?;
            *amqp = true;
        }
        Ok(())
    }

    async fn assert(&self, plan: &Plan) -> Result<Asserted, BusError> {
        let parts = in_two(plan)?;
        let _turn = self.asserting.lock().await;
        let links = [self.nats.link(), self.amqp.link()];
        let away = links.iter().any(|link| *link.borrow() == Link::Down);
        if away && locked(&self.known).held().is_empty() {
            // To begin with, holders on one make way until the other is brought to the plan: not for one that is away.
            let what = "one of the two buses; neither is changed before both are there";
            return Err(BusError::Away(what.to_owned()));
        }
        let steps = steps(locked(&self.known).held(), parts);
        let (mut written, mut strays) = (Vec::new(), BTreeSet::new());
        for step in steps {
            let asserted = self.step(step).await?;
            written.extend(asserted.written);
            strays.extend(asserted.strays);
        }
        locked(&self.known).complete(plan);
        let here = |node: &NodeName| !self.places(&Principal::Node(node.clone())).is_empty();
        locked(&self.telling).retain(|node, _| here(node));
        Ok(Asserted {
            written,
            strays: strays.into_iter().collect(),
        })
    }

    async fn disturbed(&self) -> Disturbance {
        either(self.nats.disturbed(), self.amqp.disturbed()).await
    }

    async fn take(&self, max: usize) -> Result<Vec<Delivery<Self::Receipt>>, BusError> {
        self.is_carried();
        let mut taking = self.taking.lock().await;
        taking.take(&self.nats, &self.amqp, max).await
    }

    async fn settle(&self, receipt: &Self::Receipt, how: Settlement) -> Result<(), BusError> {
        match receipt {
            BothReceipt::Nats(receipt) => self.nats.settle(receipt, how).await,
            BothReceipt::Amqp(receipt) => self.amqp.settle(receipt, how).await,
        }
    }

    async fn heartbeat(&self) -> (Subject, Vec<u8>) {
        either(self.nats.heartbeat(), self.amqp.heartbeat()).await
    }

    /// Wherever the node hears: it takes what it is asked twice for once.
    async fn ask(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        let places = self.places_of(node)?;
        let on = |bus| places.contains(&bus);
        let over_nats = async {
            if on(BusKind::Nats) {
                self.nats.ask(node, body.clone()).await
            } else {
                Ok(())
            }
        };
        let over_amqp = async {
            if on(BusKind::Amqp) {
                self.amqp.ask(node, body.clone()).await
            } else {
                Ok(())
            }
        };
        let (nats, amqp) = join(over_nats, over_amqp).await;
        match places.as_slice() {
            [BusKind::Nats] => nats,
            [BusKind::Amqp] => amqp,
            _ => nats.or(amqp),
        }
    }

    async fn log(&self) -> (Subject, Vec<u8>) {
        either(self.nats.log(), self.amqp.log()).await
    }

    /// What each bus has where the node hears, if that is the same.
    async fn declared(&self, node: &NodeName) -> Result<Option<Vec<u8>>, BusError> {
        let mut all = Vec::new();
        for bus in self.places_of(node)? {
            all.push(self.declared_on(bus, node).await?);
        }
        let newest = all.pop().flatten();
        Ok(newest.filter(|newest| all.iter().all(|other| other.as_ref() == Some(newest))))
    }

    /// Wherever the node hears, at home first. Tried again, it is told where it was not told yet.
    async fn declare(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        let places = self.places_of(node)?;
        let told = locked(&self.telling).remove(node);
        let told = told.filter(|told| told.body == body);
        let mut told = told.unwrap_or_default();
        told.body = body;
        for bus in places {
            if told.on.contains(&bus) {
                continue;
            }
            if let Err(error) = self.declare_on(bus, node, told.body.clone()).await {
                locked(&self.telling).insert(node.clone(), told);
                return Err(error);
            }
            told.on.insert(bus);
        }
        Ok(())
    }

    /// On both: whoever asks is on one of them, and nobody listens on the other.
    async fn answer(&self, to: &Subject, body: Vec<u8>) -> Result<(), BusError> {
        let (nats, amqp) = join(
            self.nats.answer(to, body.clone()),
            self.amqp.answer(to, body),
        )
        .await;
        nats.or(amqp)
    }

    /// On NATS; on the other while that cannot be.
    async fn park(&self, of: &Subject, body: Vec<u8>, why: &str) -> Result<(), BusError> {
        match self.nats.park(of, body.clone(), why).await {
            Err(error) if error.is_passing() => self.amqp.park(of, body, why).await,
            ended => ended,
        }
    }

    async fn mark(&self) -> Result<Option<Vec<u8>>, BusError> {
        self.nats.mark().await
    }

    async fn leave_mark(&self, mark: Vec<u8>) -> Result<(), BusError> {
        self.nats.leave_mark(mark).await
    }

    /// Work for a seat waits on either.
    async fn backlogs(&self) -> Result<BTreeMap<SeatName, Backlog>, BusError> {
        let (nats, amqp) = join(self.nats.backlogs(), self.amqp.backlogs()).await;
        let mut both = nats?;
        for (seat, on_amqp) in amqp? {
            let sum = both.entry(seat).or_default();
            *sum = sum.and(on_amqp);
        }
        Ok(both)
    }

    async fn findings(&self) -> Result<Vec<Finding>, BusError> {
        let (nats, amqp) = join(self.nats.findings(), self.amqp.findings()).await;
        if let (Err(error), Err(_)) = (&nats, &amqp) {
            return Err(error.clone());
        }
        let both = [(BusKind::Nats, nats), (BusKind::Amqp, amqp)].into_iter();
        let said = both.flat_map(|(bus, found)| {
            let found = found.unwrap_or_else(|error| {
                vec![Finding {
                    warning: true,
                    text: error.to_string(),
                }]
            });
            found.into_iter().map(move |finding| Finding {
                text: format!("{bus}: {}", finding.text),
                ..finding
            })
        });
        Ok(said.collect())
    }

    /// Each where it is, and who is on both on both.
    async fn prove(&self, plan: &Plan, probers: &[Prober]) -> Result<Vec<Proven>, UnprovenError> {
        in_two(plan)?;
        let mut proven = Vec::new();
        for bus in BusKind::ALL {
            let (part, probers) = (plan.on(bus), self.probers_on(bus, probers));
            let on_bus = match bus {
                _ if probers.is_empty() => Vec::new(),
                BusKind::Nats => self.nats.prove(part, &probers).await?,
                BusKind::Amqp => self.amqp.prove(part, &probers).await?,
            };
            proven.extend(on_bus.into_iter().map(|mut proven| {
                for difference in &mut proven.differences {
                    *difference = format!("{bus}: {difference}");
                }
                proven
            }));
        }
        Ok(proven)
    }

    /// Where it is at home; as the controller, on NATS.
    async fn attempt(
        &self,
        plan: &Plan,
        prober: &Prober,
        act: &Act,
    ) -> Result<Attempted, UnprovenError> {
        in_two(plan)?;
        match self.places(prober.principal()).first() {
            None => Err(UnprovenError::Changed),
            Some(bus @ BusKind::Nats) => self.nats.attempt(plan.on(*bus), prober, act).await,
            Some(bus @ BusKind::Amqp) => self.amqp.attempt(plan.on(*bus), prober, act).await,
        }
    }
}

/// What each bus holds of a plan for two.
fn in_two(plan: &Plan) -> Result<&Parts, BusError> {
    if BusKind::ALL.iter().all(|bus| plan.parts.contains_key(bus)) {
        return Ok(&plan.parts);
    }
    Err(BusError::Refused {
        what: "a plan of one bus".to_owned(),
        why: "this mesh has two: say how hosts reach each of them".to_owned(),
    })
}

async fn asserted_on<B: ControllerBus>(bus: &B, plan: Option<&Plan>) -> Result<Asserted, BusError> {
    match plan {
        Some(plan) => bus.assert(plan).await,
        None => Ok(Asserted::default()),
    }
}

/// Both, or what went wrong.
fn both((nats, amqp): (Result<(), BusError>, Result<(), BusError>)) -> Result<(), BusError> {
    let errors = [nats, amqp].into_iter().filter_map(Result::err);
    worst(errors.collect()).map_or(Ok(()), Err)
}

/// The one a controller must stop for, if there is one; then one that does not pass by itself.
fn worst(errors: Vec<BusError>) -> Option<BusError> {
    let rank = |error: &BusError| (error.is_final(), !error.is_passing());
    errors.into_iter().max_by_key(rank)
}

/// Whichever is ready first; either, if both are. The other is dropped.
async fn either<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    tokio::select! {
        ready = one => ready,
        ready = other => ready,
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
