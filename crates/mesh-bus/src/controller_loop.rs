//! The controller's loop: carries out what the core decides, over any bus and any store, and decides nothing itself.

mod carry;
mod handle;
mod note;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use mesh_control::{
    Change, CommandError, CommandId, Controller, Effect, Kept, MessageKey, Mint, Settings, Start,
    StoreRefusal, Ticket,
};
use mesh_derive::own_streams;
use mesh_model::{Generation, NodeName, Revision, StreamSpec, Subject, Timestamp};
use mesh_wire::Mark;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::ended::came_to_its_end;
use crate::ledger::Ledger;
use crate::seam::{Asserted, BusError, ControllerBus, Delivery, Disturbance, Link};
use crate::signing::Signer;
use crate::understand;

use handle::Request;
pub use handle::{ControllerHandle, Gone};

/// Why a controller's loop ended.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// Another controller has taken over, or the bus is not one the mesh can use.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// Going on would lose or overwrite something.
    #[error("{0}")]
    Store(String),
}

/// What the loop is given.
pub struct ControllerParts<B, L, M> {
    /// The bus.
    pub bus: Arc<B>,
    /// The store.
    pub ledger: Arc<L>,
    /// What the store held when it was opened; nothing for a new mesh.
    pub kept: Option<Kept>,
    /// Whether that goes on where it ended.
    pub start: Start,
    /// The core's settings.
    pub settings: Settings,
    /// Makes credentials.
    pub mint: M,
    /// Signs declarations and answers.
    pub signer: Signer,
    /// What time it is.
    pub clock: fn() -> Timestamp,
}

/// The loop.
pub struct ControllerLoop<B: ControllerBus, L: Ledger, M: Mint> {
    core: Controller<M>,
    bus: Arc<B>,
    signer: Signer,
    clock: fn() -> Timestamp,
    /// What is carried out once this controller has taken over.
    first: Vec<Effect>,
    took_over: bool,
    /// The mesh's own streams, which taking over needs.
    own: Vec<StreamSpec>,
    commits: mpsc::UnboundedSender<(Ticket, Vec<Change>)>,
    ledger: Arc<L>,
    happenings: JoinSet<Happening<B::Receipt>>,
    /// What goes on beside the loop, and ends with it: commits, and marks of them.
    beside: JoinSet<Result<(), BusError>>,
    committed: mpsc::UnboundedReceiver<(Ticket, Result<Mark, StoreRefusal>)>,
    marks: watch::Sender<Option<Mark>>,
    in_hand: BTreeMap<MessageKey, Held<B::Receipt>>,
    taking: Taking,
    requests: mpsc::Receiver<Request<M>>,
    replies: BTreeMap<CommandId, oneshot::Sender<Result<Revision, CommandError>>>,
    next_command: u64,
    declaring: Arc<Semaphore>,
}

/// A message in hand, until it is settled.
struct Held<R> {
    receipt: R,
    subject: Subject,
    body: Vec<u8>,
}

enum Taking {
    Idle,
    Running,
    Again(Instant),
}

/// Something that was begun and has ended.
enum Happening<R> {
    TookOver(Result<(), BusError>),
    Reopened(Result<Vec<mesh_control::Fact>, StoreRefusal>),
    Parked(MessageKey, Result<(), String>),
    Asserted(u64, Result<Asserted, BusError>),
    Declared(NodeName, Generation, Result<(), BusError>),
    Taken(Result<Vec<Delivery<R>>, BusError>),
    Nothing,
}

/// Messages worked on at once; what is above waits with the bus.
const IN_HAND: usize = 512;
/// Declarations on their way at once.
const DECLARING: usize = 256;
/// How often the core is told that time has passed.
const TICK: Duration = Duration::from_millis(100);
/// How long after a failed attempt messages are asked for again, or the bus is taken over.
const TAKE_AGAIN: Duration = Duration::from_millis(500);

impl<B, L, M> ControllerLoop<B, L, M>
where
    B: ControllerBus,
    L: Ledger,
    M: Mint + Send + 'static,
{
    /// A loop that is ready to run, and what it is spoken to through.
    pub fn new(parts: ControllerParts<B, L, M>) -> (Self, ControllerHandle<M>) {
        let now = (parts.clock)();
        let own = own_streams(&parts.settings.bounds).to_vec();
        let (core, first) =
            Controller::start(parts.kept, parts.start, parts.settings, parts.mint, now);
        let (handle, requests) = handle::pair();
        let (commits, committing) = mpsc::unbounded_channel();
        let (results, committed) = mpsc::unbounded_channel();
        let (marks, marked) = watch::channel(None);
        let mut beside = JoinSet::new();
        let ledger = Arc::clone(&parts.ledger);
        beside.spawn(async move {
            commit_in_order(ledger, committing, results).await;
            Ok(())
        });
        beside.spawn(carry::leave_marks(Arc::clone(&parts.bus), marked));
        let this = Self {
            core,
            bus: parts.bus,
            signer: parts.signer,
            clock: parts.clock,
            first,
            took_over: false,
            own,
            commits,
            ledger: parts.ledger,
            happenings: JoinSet::new(),
            beside,
            committed,
            marks,
            in_hand: BTreeMap::new(),
            taking: Taking::Idle,
            requests,
            replies: BTreeMap::new(),
            next_command: 0,
            declaring: Arc::new(Semaphore::new(DECLARING)),
        };
        (this, handle)
    }

    /// Runs until `stop` is ready, or until going on would lose or overwrite something.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), LoopError> {
        let (bus, own) = (Arc::clone(&self.bus), std::mem::take(&mut self.own));
        let take_over = async move { Happening::TookOver(carry::take_over(&*bus, &own).await) };
        self.happenings.spawn(take_over);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let bus = Arc::clone(&self.bus);
        let mut link = bus.link();
        link.mark_changed();
        let disturbed = bus.disturbed();
        tokio::pin!(stop, disturbed);
        loop {
            self.take_more();
            tokio::select! {
                () = &mut stop => return Ok(()),
                Some((ticket, result)) = self.committed.recv() => self.commit_ended(ticket, result)?,
                Some(ended) = self.beside.join_next() => {
                    came_to_its_end(ended).unwrap_or(Ok(()))?;
                    return Err(LoopError::Store(NO_COMMITTER.to_owned()));
                }
                Some(ended) = self.happenings.join_next() => {
                    if let Some(happening) = came_to_its_end(ended) {
                        self.happened(happening)?;
                    }
                }
                Some(request) = self.requests.recv() => self.requested(request)?,
                (subject, body) = bus.heartbeat() => {
                    match understand::heartbeat(&subject, &body) {
                        Ok(heartbeat) => {
                            let effects = self.core.handle_heartbeat(heartbeat, (self.clock)());
                            self.carry_out(effects)?;
                        }
                        Err(why) => tracing::debug!(%why, "a heartbeat was ignored"),
                    }
                }
                Ok(()) = link.changed() => {
                    let (link, now) = (*link.borrow_and_update(), (self.clock)());
                    let effects = match link {
                        Link::Up => self.core.handle_link(true, now),
                        Link::Without(away) => self.core.handle_link_without(away, now),
                        Link::Down => self.core.handle_link(false, now),
                    };
                    self.carry_out(effects)?;
                }
                what = &mut disturbed => {
                    disturbed.set(bus.disturbed());
                    let now = (self.clock)();
                    let effects = match what {
                        Disturbance::Definitions => self.core.handle_touched(now),
                        Disturbance::Declarations => self.core.handle_disturbed(now),
                    };
                    self.carry_out(effects)?;
                }
                _ = ticks.tick() => {
                    let effects = self.core.tick((self.clock)());
                    self.carry_out(effects)?;
                }
            }
        }
    }

    /// Asks the bus for messages, while there are hands for them.
    fn take_more(&mut self) {
        let room = IN_HAND.saturating_sub(self.in_hand.len());
        let due = match self.taking {
            Taking::Idle => true,
            Taking::Running => false,
            Taking::Again(at) => Instant::now() >= at,
        };
        if due && room > 0 && self.took_over {
            self.taking = Taking::Running;
            let bus = Arc::clone(&self.bus);
            let take = async move { Happening::Taken(bus.take(room).await) };
            self.happenings.spawn(take);
        }
    }

    fn commit_ended(
        &mut self,
        ticket: Ticket,
        result: Result<Mark, StoreRefusal>,
    ) -> Result<(), LoopError> {
        if let Ok(mark) = &result {
            self.marks.send_replace(Some(*mark));
        }
        let result = result.map(|_| ());
        let effects = self.core.handle_stored(ticket, result, (self.clock)());
        self.carry_out(effects)
    }

    fn happened(&mut self, happening: Happening<B::Receipt>) -> Result<(), LoopError> {
        let now = (self.clock)();
        let effects = match happening {
            Happening::Nothing => return Ok(()),
            Happening::TookOver(result) => {
                result?;
                self.took_over = true;
                std::mem::take(&mut self.first)
            }
            Happening::Taken(Ok(deliveries)) => {
                self.taking = Taking::Idle;
                return self.taken(deliveries);
            }
            Happening::Taken(Err(error)) => {
                if error.is_final() {
                    return Err(error.into());
                }
                tracing::debug!(%error, "no messages could be taken");
                self.taking = Taking::Again(Instant::now() + TAKE_AGAIN);
                return Ok(());
            }
            Happening::Reopened(result) => {
                let bus = self.bus.facts();
                let kept = result.map(|facts| Kept::assemble(facts, bus));
                self.core.handle_reopened(kept, now)
            }
            Happening::Parked(key, result) => self.core.handle_parked(key, result),
            Happening::Asserted(_, Err(error)) | Happening::Declared(_, _, Err(error))
                if error.is_final() =>
            {
                return Err(error.into());
            }
            Happening::Asserted(version, result) => {
                let result = match result {
                    Ok(asserted) => {
                        note::asserted(&asserted);
                        // The newest mark may have been lost with its stream, or refused before this.
                        self.marks.send_modify(|_same| {});
                        Ok(())
                    }
                    Err(error) => Err(error.to_string()),
                };
                self.core.handle_asserted(version, result, now)
            }
            Happening::Declared(node, generation, result) => {
                let result = result.map_err(|error| error.to_string());
                self.core.handle_declared(&node, generation, result, now)
            }
        };
        self.carry_out(effects)
    }

    fn taken(&mut self, deliveries: Vec<Delivery<B::Receipt>>) -> Result<(), LoopError> {
        for delivery in deliveries {
            let message = understand::message(&delivery.subject, &delivery.body);
            let held = Held {
                receipt: delivery.receipt,
                subject: delivery.subject,
                body: delivery.body,
            };
            // One that came again while it is worked on is settled by its newer receipt.
            self.in_hand.insert(delivery.key, held);
            let now = (self.clock)();
            let effects = self.core.handle_message(delivery.key, message, now);
            self.carry_out(effects)?;
        }
        Ok(())
    }

    fn requested(&mut self, request: Request<M>) -> Result<(), LoopError> {
        match request {
            Request::Look(look) => {
                look(&self.core, (self.clock)());
                Ok(())
            }
            Request::Command {
                command,
                who,
                answer,
            } => {
                self.next_command += 1;
                let id = CommandId(self.next_command);
                self.replies.insert(id, answer);
                let now = (self.clock)();
                let effects = self.core.handle_command(id, command, who, now);
                self.carry_out(effects)
            }
        }
    }
}

impl<B: ControllerBus, L: Ledger, M: Mint> std::fmt::Debug for ControllerLoop<B, L, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerLoop")
            .field("in_hand", &self.in_hand.len())
            .finish_non_exhaustive()
    }
}

impl<B, L, M> std::fmt::Debug for ControllerParts<B, L, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerParts")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

const NO_COMMITTER: &str = "the store's task has ended";

/// Hands commits to the store in the order they were decided, as many at once as there are.
async fn commit_in_order<L: Ledger>(
    ledger: Arc<L>,
    mut commits: mpsc::UnboundedReceiver<(Ticket, Vec<Change>)>,
    results: mpsc::UnboundedSender<(Ticket, Result<Mark, StoreRefusal>)>,
) {
    let mut running = FuturesOrdered::new();
    loop {
        tokio::select! {
            biased;
            next = commits.recv() => match next {
                Some((ticket, changes)) => {
                    let ledger = &ledger;
                    running.push_back(async move { (ticket, ledger.commit(changes).await) });
                }
                None => return,
            },
            Some(ended) = running.next(), if !running.is_empty() => {
                if results.send(ended).is_err() {
                    return;
                }
            }
        }
    }
}
