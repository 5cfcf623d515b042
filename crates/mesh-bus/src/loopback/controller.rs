//! The controller's side of the loopback.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mesh_control::{MessageKey, Queue, Settlement};
use mesh_derive::{Plan, subject};
use mesh_model::{
    BusFacts, BusKind, ConsumerRef, Filter, NodeName, Principal, SeatName, StreamSpec, Subject,
};
use tokio::sync::{Mutex, broadcast, watch};
use tokio::time::Instant;

use super::queue::{Settled, Stored};
use super::state::{Shared, State, change_or};
use super::{Receipt, consumer};
use crate::backlog::Backlog;
use crate::disturbed::Disturbed;
use crate::seam::{Asserted, BusError, ControllerBus, Delivery, Disturbance, Finding, Link};

/// A controller, over the loopback.
#[derive(Debug)]
pub struct LoopbackController {
    pub(super) shared: Arc<Shared>,
    /// What this controller's epoch says, and no other's does.
    epoch: Vec<u8>,
    took_over: AtomicBool,
    disturbed: Arc<Disturbed>,
    said: Mutex<broadcast::Receiver<(Subject, Vec<u8>)>>,
    logs: Mutex<broadcast::Receiver<(Subject, Vec<u8>)>>,
    /// What was carried last.
    pub(super) carried: std::sync::Mutex<Option<ConsumerRef>>,
}

impl LoopbackController {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            epoch: shared.next_name().to_be_bytes().to_vec(),
            took_over: AtomicBool::new(false),
            disturbed: shared.hears_disturbances(),
            said: Mutex::new(shared.said.subscribe()),
            logs: Mutex::new(shared.said.subscribe()),
            carried: std::sync::Mutex::default(),
            shared,
        }
    }

    fn store(&self, subject: Subject, body: Vec<u8>, why: Option<&str>) -> Result<u64, BusError> {
        let message = Stored {
            subject,
            body,
            id: None,
            why: why.map(str::to_owned),
        };
        self.shared.publish(&Principal::Controller, message)
    }

    fn begin_epoch(&self, state: &mut State) -> Result<(), BusError> {
        let message = Stored {
            subject: subject::epoch(),
            body: self.epoch.clone(),
            id: None,
            why: None,
        };
        state.publish(&Principal::Controller, message)?;
        self.took_over.store(true, Ordering::Release);
        Ok(())
    }

    fn newest(&self, on: &Subject) -> Result<Option<Vec<u8>>, BusError> {
        let state = self.shared.state();
        state.require_up()?;
        let stream = state.streams.get(&subject::nodes_stream());
        let newest = stream.and_then(|stream| stream.newest(on));
        Ok(newest.map(|(_, stored)| stored.body.clone()))
    }

    /// Whether this controller's epoch is the last that began.
    fn require_epoch(&self, state: &State) -> Result<(), BusError> {
        if !self.took_over.load(Ordering::Acquire) {
            return Err(BusError::Refused {
                what: "to declare, or to leave a mark".to_owned(),
                why: "this controller has not taken over".to_owned(),
            });
        }
        let stream = state.streams.get(&subject::nodes_stream());
        match stream.and_then(|stream| stream.newest(&subject::epoch())) {
            Some((_, last)) if last.body == self.epoch => Ok(()),
            Some((last, _)) => Err(BusError::Fenced(format!("sequence {last}"))),
            None => Err(BusError::Away(
                "the stream of declarations was made anew".to_owned(),
            )),
        }
    }

    /// Waits for what is said there next.
    async fn hear(
        &self,
        said: &Mutex<broadcast::Receiver<(Subject, Vec<u8>)>>,
        on: &Filter,
    ) -> (Subject, Vec<u8>) {
        let mut said = said.lock().await;
        loop {
            match said.recv().await {
                Ok((subject, body)) if on.matches(&subject) => return (subject, body),
                // Those missed are gone, as they would be with a server.
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
            }
        }
    }

    /// An error once another controller has taken over.
    pub(super) fn require_not_over(&self, state: &State) -> Result<(), BusError> {
        match self.require_epoch(state) {
            Err(error) if error.is_final() => Err(error),
            _ => Ok(()),
        }
    }

    /// Stores in the stream of declarations, unless another controller has taken over.
    fn store_while_last(&self, subject: Subject, body: Vec<u8>) -> Result<(), BusError> {
        let message = Stored {
            subject,
            body,
            id: None,
            why: None,
        };
        self.shared.change(|state| {
            state.require_up()?;
            self.require_epoch(state)?;
            state.publish(&Principal::Controller, message).map(drop)
        })
    }

    /// Begins this controller's epoch once more, where a stream made anew holds none.
    fn keep_epoch(&self, state: &mut State) -> Result<(), BusError> {
        match self.require_epoch(state) {
            Err(BusError::Away(_)) => {
                // With the epoch before, what nodes were told is gone too.
                self.disturbed.tell(Disturbance::Declarations);
                self.begin_epoch(state)
            }
            Err(BusError::Refused { .. }) => Ok(()),
            held => held,
        }
    }
}

impl ControllerBus for LoopbackController {
    type Receipt = Receipt;

    fn facts(&self) -> BusFacts {
        self.shared.state().facts.clone()
    }

    fn link(&self) -> watch::Receiver<Link> {
        self.shared.link.subscribe()
    }

    async fn make_streams(&self, streams: &[StreamSpec]) -> Result<(), BusError> {
        self.shared.change(|state| {
            state.require_up()?;
            for spec in streams {
                state.make_stream(spec);
            }
            Ok(())
        })
    }

    async fn take_over(&self) -> Result<(), BusError> {
        self.shared.change(|state| self.begin_epoch(state))
    }

    async fn assert(&self, plan: &Plan) -> Result<Asserted, BusError> {
        self.shared.change(|state| {
            self.require_not_over(state)?;
            let asserted = state.assert(plan)?;
            self.keep_epoch(state)?;
            Ok(asserted)
        })
    }

    async fn disturbed(&self) -> Disturbance {
        self.disturbed.heard().await
    }

    async fn take(&self, max: usize) -> Result<Vec<Delivery<Receipt>>, BusError> {
        let until = Instant::now() + TAKE_WAIT;
        let control = consumer(subject::control_stream(), CONTROLLER)?;
        let events = consumer(subject::events_stream(), CONTROLLER)?;
        let queues = [(Queue::Control, &control), (Queue::Events, &events)];
        let mut changed = self.shared.changed.subscribe();
        loop {
            let taken = {
                let mut state = self.shared.state();
                self.require_not_over(&state)?;
                take_ready(&mut state, &queues, max)
            };
            if !taken.is_empty() {
                return Ok(taken);
            }
            let now = Instant::now();
            if now >= until {
                self.shared.state().require_consumer(&control)?;
                return Ok(taken);
            }
            let wakes = {
                let state = self.shared.state();
                [state.wakes(&control), state.wakes(&events), Some(until)]
            };
            // While it is down or the hands are full, what is due waits.
            let later = wakes.into_iter().flatten().filter(|at| *at > now);
            change_or(&mut changed, later.min()).await;
        }
    }

    async fn settle(&self, receipt: &Receipt, how: Settlement) -> Result<(), BusError> {
        let how = match how {
            Settlement::Done => Settled::Done,
            Settlement::Hold(delay) => Settled::Again(delay),
        };
        self.shared.settle(&Principal::Controller, receipt, how)
    }

    async fn heartbeat(&self) -> (Subject, Vec<u8>) {
        self.hear(&self.said, &subject::heartbeats()).await
    }

    async fn ask(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        let ask = subject::ask(node);
        self.shared.say(&Principal::Controller, &ask, body)
    }

    async fn log(&self) -> (Subject, Vec<u8>) {
        self.hear(&self.logs, &subject::logs()).await
    }

    async fn declared(&self, node: &NodeName) -> Result<Option<Vec<u8>>, BusError> {
        self.newest(&subject::declare(node))
    }

    async fn declare(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        self.store_while_last(subject::declare(node), body)
    }

    async fn answer(&self, to: &Subject, body: Vec<u8>) -> Result<(), BusError> {
        self.shared.say(&Principal::Controller, to, body)
    }

    async fn park(&self, of: &Subject, body: Vec<u8>, why: &str) -> Result<(), BusError> {
        self.store(subject::parked(of), body, Some(why)).map(drop)
    }

    async fn mark(&self) -> Result<Option<Vec<u8>>, BusError> {
        self.newest(&subject::mark())
    }

    async fn leave_mark(&self, mark: Vec<u8>) -> Result<(), BusError> {
        self.store_while_last(subject::mark(), mark)
    }

    async fn backlogs(&self) -> Result<BTreeMap<SeatName, Backlog>, BusError> {
        let state = self.shared.state();
        state.require_up()?;
        Ok(state.backlogs())
    }

    async fn findings(&self) -> Result<Vec<Finding>, BusError> {
        Ok(vec![Finding {
            warning: true,
            text: "the bus is inside this process: nothing on it outlives the process".to_owned(),
        }])
    }
}

/// One of each by turns: a flood of one must not keep the other out.
fn take_ready(
    state: &mut State,
    queues: &[(Queue, &ConsumerRef)],
    max: usize,
) -> Vec<Delivery<Receipt>> {
    let (mut taken, kind) = (Vec::new(), state.kind);
    if !state.is_up() {
        return taken;
    }
    loop {
        let before = taken.len();
        for (queue, consumer) in queues {
            let next = (taken.len() < max).then(|| state.deliver(consumer));
            taken.extend(next.flatten().map(|next| delivery(kind, *queue, next)));
        }
        if taken.len() == before {
            return taken;
        }
    }
}

fn delivery(bus: BusKind, queue: Queue, (receipt, stored): (Receipt, Stored)) -> Delivery<Receipt> {
    Delivery {
        key: MessageKey {
            bus,
            queue,
            sequence: receipt.sequence,
        },
        subject: stored.subject,
        body: stored.body,
        receipt,
    }
}

/// The durable name of the controller's consumers, as they are derived.
pub(super) const CONTROLLER: &str = "controller";
/// After this long a `take` comes back empty-handed.
const TAKE_WAIT: Duration = Duration::from_secs(2);
