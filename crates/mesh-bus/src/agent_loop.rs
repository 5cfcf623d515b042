//! The agent's loop: carries out what its core decides, over any bus and any runtime, and decides nothing itself.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mesh_control::{Agent, AgentEffect, AgentSettings, InHand, Remembered};
use mesh_model::{Declaration, Generation, ModuleName, ModuleReport, Seq, Timestamp};
use mesh_wire::{SignedKind, decode_declaration, encode_heartbeat, encode_report};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::ended::came_to_its_end;
use crate::seam::{Link, NodeBus, NodeEvent};
use crate::signing::Verifier;

/// What every module of a node does.
pub type States = BTreeMap<ModuleName, ModuleReport>;

/// How far a node is with what takes long: a line for each module.
pub type Doing = BTreeMap<ModuleName, String>;

/// The runtime as the agent's loop needs it.
pub trait Workloads: Send + Sync + 'static {
    /// Makes this run and nothing else, as far as it can. A newer declaration takes the place of one that is under way;
    /// calls are tasks, and of two given at once the newer may begin first. The error says why nothing could be done at
    /// all.
    fn carry_out(
        &self,
        declaration: Declaration,
    ) -> impl Future<Output = Result<States, String>> + Send;

    /// What runs, and each change of it: when a call of [`Workloads::carry_out`] has ended, no older than what it said.
    fn states(&self) -> watch::Receiver<States>;

    /// How far it is with what takes long, and each change of it; nothing where nothing does.
    fn doing(&self) -> watch::Receiver<Doing> {
        watch::Sender::default().subscribe()
    }
}

/// The agent's disk as its loop needs it.
pub trait Memory: Send + Sync + 'static {
    /// Puts this on disk, in place of what was there.
    fn keep(&self, remembered: &Remembered) -> impl Future<Output = Result<(), String>> + Send;
}

/// What the loop is given.
pub struct AgentParts<B, W, D> {
    /// The bus.
    pub bus: B,
    /// The runtime.
    pub workloads: W,
    /// The disk.
    pub memory: D,
    /// What was found on it.
    pub remembered: Remembered,
    /// The core's settings.
    pub settings: AgentSettings,
    /// Knows the controller's signature.
    pub verifier: Verifier,
    /// What time it is.
    pub clock: fn() -> Timestamp,
}

/// The loop.
pub struct AgentLoop<B: NodeBus, W, D> {
    core: Agent,
    first: Vec<AgentEffect>,
    bus: Arc<B>,
    workloads: Arc<W>,
    states: watch::Receiver<States>,
    doing: watch::Receiver<Doing>,
    memory: D,
    verifier: Verifier,
    clock: fn() -> Timestamp,
    happenings: JoinSet<Happening>,
    in_hand: BTreeMap<InHand, B::Receipt>,
    next: u64,
    seen: watch::Sender<Seen>,
}

/// What can be seen of a running agent from outside its loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// The newest declaration that runs.
    pub applied: Option<Generation>,
    /// The newest declaration it took.
    pub newest: Option<Generation>,
    /// Whether the bus is reached.
    pub up: bool,
}

enum Happening {
    CarriedOut(Generation, Result<States, String>),
    Reported(Seq, Result<(), String>),
    Nothing,
}

/// How often the core is told that time has passed.
const TICK: Duration = Duration::from_millis(100);

impl<B: NodeBus, W: Workloads, D: Memory> AgentLoop<B, W, D> {
    /// A loop that is ready to run.
    pub fn new(parts: AgentParts<B, W, D>) -> Self {
        let mut settings = parts.settings;
        settings.idle = parts.bus.idle_heartbeat();
        let (core, first) = Agent::start(settings, parts.remembered, (parts.clock)());
        Self {
            core,
            first,
            bus: Arc::new(parts.bus),
            states: parts.workloads.states(),
            doing: parts.workloads.doing(),
            workloads: Arc::new(parts.workloads),
            memory: parts.memory,
            verifier: parts.verifier,
            clock: parts.clock,
            happenings: JoinSet::new(),
            in_hand: BTreeMap::new(),
            next: 0,
            seen: watch::Sender::default(),
        }
    }

    /// What can be seen of it while it runs.
    pub fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// Runs until `stop` is ready. What it started goes on running.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) {
        let first = std::mem::take(&mut self.first);
        self.carry_out(first).await;
        // What runs already is there to be said, however long the first work takes.
        let found = self.states_changed();
        self.carry_out(found).await;
        let bus = Arc::clone(&self.bus);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(stop);
        loop {
            let effects = tokio::select! {
                () = &mut stop => return,
                event = bus.next() => self.heard(event),
                Some(ended) = self.happenings.join_next() => {
                    let happening = came_to_its_end(ended).unwrap_or(Happening::Nothing);
                    self.happened(happening)
                }
                Ok(()) = self.states.changed() => self.states_changed(),
                Ok(()) = self.doing.changed() => self.doing_changed(),
                _ = ticks.tick() => self.ticked(),
            };
            self.carry_out(effects).await;
            self.show();
        }
    }

    fn show(&self) {
        self.seen.send_if_modified(|seen| {
            let now = Seen {
                applied: self.core.applied(),
                newest: self.core.declaration().map(|d| d.generation),
                up: self.core.is_up(),
            };
            std::mem::replace(seen, now) != now
        });
    }

    fn ticked(&mut self) -> Vec<AgentEffect> {
        let now = (self.clock)();
        self.core.handle_ear(self.bus.idle_heartbeat(), now);
        self.core.tick(now)
    }

    fn heard(&mut self, event: NodeEvent<B::Receipt>) -> Vec<AgentEffect> {
        let now = (self.clock)();
        self.core.handle_ear(self.bus.idle_heartbeat(), now);
        match event {
            NodeEvent::Declared { body, receipt } => self.declared(&body, receipt, now),
            NodeEvent::Idle => {
                self.core.handle_idle(now);
                Vec::new()
            }
            NodeEvent::Link(link) => self.core.handle_link(link == Link::Up, now),
            NodeEvent::Denied(why) => self.core.handle_denied(&why, now),
        }
    }

    /// Only what the controller signed is acted upon; anything else is left unsettled, and changes nothing.
    fn declared(&mut self, body: &[u8], receipt: B::Receipt, now: Timestamp) -> Vec<AgentEffect> {
        let declaration = match self.verifier.open(SignedKind::Declaration, body) {
            Ok(body) => decode_declaration(&body).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match declaration {
            Ok(declaration) => {
                self.bus.believed(&receipt, &declaration);
                self.next += 1;
                let in_hand = InHand(self.next);
                self.in_hand.insert(in_hand, receipt);
                self.core.handle_declaration(in_hand, declaration, now)
            }
            Err(why) => {
                tracing::error!(why, "a declaration was refused; nothing changes");
                Vec::new()
            }
        }
    }

    fn happened(&mut self, happening: Happening) -> Vec<AgentEffect> {
        let now = (self.clock)();
        match happening {
            Happening::Nothing => Vec::new(),
            Happening::Reported(seq, result) => self.core.handle_reported(seq, result, now),
            Happening::CarriedOut(generation, result) => {
                let mut effects = self.core.handle_carried_out(generation, result, now);
                // What changed after the runtime looked was said while it did not count yet.
                effects.extend(self.states_changed());
                effects
            }
        }
    }

    fn states_changed(&mut self) -> Vec<AgentEffect> {
        let states = self.states.borrow_and_update().clone();
        self.core.handle_states(states, (self.clock)())
    }

    fn doing_changed(&mut self) -> Vec<AgentEffect> {
        let doing = self.doing.borrow_and_update();
        self.core.handle_doing(&doing, (self.clock)())
    }

    async fn carry_out(&mut self, effects: Vec<AgentEffect>) {
        let mut waiting = std::collections::VecDeque::from(effects);
        while let Some(effect) = waiting.pop_front() {
            if let AgentEffect::Keep(remembered) = effect {
                let result = self.memory.keep(&remembered).await;
                // What follows from it comes before what was decided beside it.
                for effect in self
                    .core
                    .handle_kept(result, (self.clock)())
                    .into_iter()
                    .rev()
                {
                    waiting.push_front(effect);
                }
            } else {
                self.begin(effect);
            }
        }
    }

    fn begin(&mut self, effect: AgentEffect) {
        let bus = Arc::clone(&self.bus);
        match effect {
            AgentEffect::Keep(_) => {}
            AgentEffect::Note(what) => tracing::warn!(what, "agent"),
            AgentEffect::CarryOut(declaration) => {
                let workloads = Arc::clone(&self.workloads);
                self.happenings.spawn(async move {
                    let generation = declaration.generation;
                    let result = match bus.settle_in(&declaration).await {
                        Ok(()) => workloads.carry_out(declaration).await,
                        Err(why) => Err(why),
                    };
                    Happening::CarriedOut(generation, result)
                });
            }
            AgentEffect::Settle(in_hand, how) => {
                let receipt = match how {
                    mesh_control::NodeSettlement::Done => self.in_hand.remove(&in_hand),
                    mesh_control::NodeSettlement::Working => self.in_hand.get(&in_hand).cloned(),
                };
                if let Some(receipt) = receipt {
                    self.happenings.spawn(async move {
                        log_failure(bus.settle(&receipt, how).await, "settle")
                    });
                }
            }
            AgentEffect::Report(report) => {
                self.happenings.spawn(async move {
                    let result = bus.report(encode_report(&report)).await;
                    Happening::Reported(report.id.seq, result.map_err(|error| error.to_string()))
                });
            }
            AgentEffect::Heartbeat(heartbeat) => {
                let body = encode_heartbeat(&heartbeat);
                self.happenings
                    .spawn(async move { log_failure(bus.heartbeat(body).await, "heartbeat") });
            }
            AgentEffect::ListenAgain => {
                self.happenings
                    .spawn(async move { log_failure(bus.listen_again().await, "listen again") });
            }
            AgentEffect::Reconnect => {
                self.happenings
                    .spawn(async move { log_failure(bus.reconnect().await, "reconnect") });
            }
        }
    }
}

fn log_failure(result: Result<(), crate::seam::BusError>, what: &str) -> Happening {
    if let Err(error) = result {
        tracing::debug!(%error, what, "the bus did not take it");
    }
    Happening::Nothing
}

impl<B: NodeBus, W, D> std::fmt::Debug for AgentLoop<B, W, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentLoop").finish_non_exhaustive()
    }
}

impl<B, W, D> std::fmt::Debug for AgentParts<B, W, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentParts")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
