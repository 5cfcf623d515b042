//! Modules as containers of an engine that speaks as Docker's does.

mod choice;
mod engine;
mod fault;
mod follow;
mod keeper;
mod label;
mod mark;
mod notes;
mod ports;
mod progress;
mod sorted;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mesh_model::{ModuleName, ModuleReport, ModuleState, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::board::{Board, idle};
use crate::ended::came_to_its_end;
use crate::gate::Gate;
use crate::{Desired, Doing, Logs, Pace, RuntimeError, States, Tail};
use choice::Chosen;
use engine::{Engine, State};
use follow::Follow;
use keeper::{Goal, Keeper};

pub use choice::EngineChoice;

/// What the runtime of containers is told.
#[derive(Debug, Clone)]
pub struct ContainersConfig {
    /// Which engine.
    pub engine: EngineChoice,
    /// What no other agent's containers are labelled with; the same for as long as the node is the same.
    pub owner: String,
    /// Where it keeps counts, and which engine it found; made if missing. Lost, nothing that runs is.
    pub dir: PathBuf,
    /// How long a pull may stand still.
    pub stall: Duration,
    /// How long the engine has to answer.
    pub deadline: Duration,
    /// How often a container is looked at of which nothing is heard.
    pub sweep: Duration,
    /// How long it waits.
    pub pace: Pace,
    /// What tells this host's waits from another's.
    pub seed: u64,
    /// The wall clock.
    pub now: fn() -> Timestamp,
}

/// How long a pull may stand still, where nothing else is said.
pub const STALL: Duration = Duration::from_mins(1);
/// How long an engine has to answer, where nothing else is said.
pub const ENGINE_DEADLINE: Duration = Duration::from_secs(30);
/// How often a container is looked at, where nothing else is said.
pub const SWEEP: Duration = Duration::from_secs(5);

/// What every module's keeper shares.
#[derive(Debug)]
struct Shared {
    engine: Engine,
    owner: String,
    dir: PathBuf,
    board: Board,
    doing: watch::Sender<Doing>,
    gate: Gate,
    stall: Duration,
    sweep: Duration,
    pace: Pace,
    seed: u64,
    now: fn() -> Timestamp,
}

impl Shared {
    /// Says how far a module is with what takes long.
    fn doing(&self, module: &ModuleName, line: Option<String>) {
        self.doing.send_if_modified(|doing| {
            let new = doing.get(module) != line.as_ref();
            match line {
                Some(line) => drop(doing.insert(module.clone(), line)),
                None => drop(doing.remove(module)),
            }
            new
        });
    }
}

/// Runs modules as containers.
///
/// What it made it knows by labels, wherever its files are; what has none of its labels is never touched. Dropping it ends
/// nothing.
#[derive(Debug)]
pub(crate) struct ContainerRuntime {
    shared: Arc<Shared>,
    orders: watch::Sender<Order>,
    done: watch::Receiver<u64>,
    /// The loop; aborted when this is dropped.
    _loop: JoinSet<()>,
}

#[derive(Debug, Clone, Default)]
struct Order {
    number: u64,
    desired: Arc<Vec<Desired>>,
}

impl ContainerRuntime {
    /// Touches nothing, and asks no engine, until the first [`apply`](Self::apply).
    pub(crate) fn open(config: ContainersConfig, gate: Gate) -> Result<Self, RuntimeError> {
        let dir = config.dir;
        std::fs::create_dir_all(&dir).map_err(|e| RuntimeError::file(&dir, "created", e))?;
        let chosen = Chosen::new(config.engine, dir.join("engine"));
        let shared = Arc::new(Shared {
            engine: Engine::new(chosen, config.deadline),
            owner: config.owner,
            dir,
            board: Board::new(),
            doing: watch::Sender::default(),
            gate,
            stall: config.stall,
            sweep: config.sweep,
            pace: config.pace,
            seed: config.seed,
            now: config.now,
        });
        let (orders, taken) = watch::channel(Order::default());
        let (tell, done) = watch::channel(0);
        let keepers = Keepers {
            shared: Arc::clone(&shared),
            known: BTreeMap::new(),
            tasks: JoinSet::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(keepers.run(taken, tell));
        Ok(Self {
            shared,
            orders,
            done,
            _loop: tasks,
        })
    }

    /// Makes the engine run exactly `desired` of what is this agent's; returns when all of it was tried. What cannot be
    /// done is said by its module's report, and tried again. May be dropped, as an order of processes.
    pub(crate) async fn apply(&self, desired: Vec<Desired>) -> Result<(), RuntimeError> {
        let mut number = 0;
        self.orders.send_modify(|order| {
            order.number = order.number.saturating_add(1);
            order.desired = Arc::new(desired);
            number = order.number;
        });
        let mut done = self.done.clone();
        let waited = done.wait_for(|done| *done >= number).await;
        waited.map(drop).map_err(|_| RuntimeError::Closed)
    }

    /// Looks once for what an earlier agent left, and says that it is there: a module that is another kind by now waits for
    /// it to be gone. To be called before the first order; an engine that does not answer holds up nothing for long.
    pub(crate) async fn find(&self) {
        let Shared {
            engine,
            owner,
            board,
            ..
        } = &*self.shared;
        let Ok(Ok(seen)) = timeout(FIRST_LOOK, engine.list(owner, None)).await else {
            return;
        };
        for one in seen {
            let Some(module) = one.module.and_then(|it| it.parse().ok()) else {
                continue;
            };
            let state = match one.state {
                State::Running => ModuleState::Running,
                State::Ended(_) => ModuleState::Ended,
                State::Created | State::Paused | State::Leaving => ModuleState::Starting,
            };
            let release = one.workload.map(|it| it.release).unwrap_or_default();
            let report = ModuleReport {
                pid: one.pid,
                ..idle(&release, state)
            };
            board.set(&module, report);
        }
    }

    pub(crate) fn states(&self) -> States {
        self.shared.board.states()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<States> {
        self.shared.board.subscribe()
    }

    pub(crate) fn doing(&self) -> watch::Receiver<Doing> {
        self.shared.doing.subscribe()
    }

    /// What a module said, as its engine keeps it: of several containers of a module the youngest that was started. Where
    /// it is followed it goes on with what the module runs as next.
    pub(crate) async fn logs(&self, module: &ModuleName, tail: Tail) -> Result<Logs, RuntimeError> {
        let shared = &self.shared;
        let refused = |fault: fault::Fault| RuntimeError::Engine {
            module: module.clone(),
            why: fault.to_string(),
        };
        let seen = shared
            .engine
            .list(&shared.owner, Some(module.as_str()))
            .await
            .map_err(refused)?;
        let started = seen.iter().rfind(|it| it.state != State::Created);
        let Some(newest) = started.or_else(|| seen.last()) else {
            return Err(RuntimeError::NoLog {
                module: module.clone(),
            });
        };
        if tail.follow {
            let follow = Follow::new(Arc::clone(shared), module.clone(), &seen);
            let newest = newest.clone();
            return Ok(Logs::of(move |lines| follow.run(newest, tail.lines, lines)));
        }
        let logs = shared.engine.logs(&newest.id, tail.lines).await;
        logs.map_err(refused)
    }
}

/// The one loop that gives every module's keeper its goal.
#[derive(Debug)]
struct Keepers {
    shared: Arc<Shared>,
    known: BTreeMap<ModuleName, Known>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Known {
    goal: watch::Sender<Goal>,
    tried: watch::Receiver<u64>,
}

impl Keepers {
    async fn run(mut self, mut orders: watch::Receiver<Order>, done: watch::Sender<u64>) {
        if orders.changed().await.is_err() {
            return;
        }
        loop {
            let order = orders.borrow_and_update().clone();
            let mut looked = self.begin(&order).await;
            tokio::select! {
                biased;
                changed = orders.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = self.tried(order.number) => {}
            }
            self.forget_gone();
            done.send_replace(order.number);
            // Until there is another order.
            loop {
                let next = if looked { LOOK_AGAIN } else { LOOK_SOON };
                tokio::select! {
                    changed = orders.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    Some(ended) = self.tasks.join_next() => {
                        came_to_its_end(ended);
                        continue;
                    }
                    () = sleep(next) => {}
                }
                looked = self.reap(order.number).await;
                self.forget_gone();
            }
        }
    }

    /// Tells every keeper what is wanted; the answer is whether what nobody wants any more was looked for.
    async fn begin(&mut self, order: &Order) -> bool {
        let mut wanted = BTreeSet::new();
        for desired in order.desired.iter() {
            wanted.insert(desired.module().clone());
            self.turn(desired.module(), order.number, Some(desired));
        }
        let others: Vec<_> = self.known.keys().cloned().collect();
        for module in others.iter().filter(|module| !wanted.contains(*module)) {
            self.turn(module, order.number, None);
        }
        self.reap(order.number).await
    }

    /// Looks for containers of this agent whose module nobody speaks of: it was declared away while no agent was there,
    /// or an engine finished what it had been asked for too long ago.
    async fn reap(&mut self, number: u64) -> bool {
        let seen = match self.shared.engine.list(&self.shared.owner, None).await {
            Ok(seen) => seen,
            Err(fault) => {
                if !matches!(fault, fault::Fault::NoEngine(_)) {
                    warn!(%fault, "what is no longer wanted is looked for later");
                }
                return false;
            }
        };
        let seen = seen.into_iter().filter_map(|seen| seen.module);
        let seen: BTreeSet<ModuleName> = seen.filter_map(|it| it.parse().ok()).collect();
        // What was found before the first order, and went before anybody looked after it.
        for module in self.shared.board.states().keys() {
            if !self.known.contains_key(module) && !seen.contains(module) {
                self.shared.board.remove(module);
            }
        }
        for module in seen {
            if !self.known.contains_key(&module) {
                info!(%module, "a container of a module that is not declared is there");
                self.turn(&module, number, None);
            }
        }
        true
    }

    fn turn(&mut self, module: &ModuleName, number: u64, desired: Option<&Desired>) {
        let goal = Goal {
            number,
            desired: desired.cloned().map(Arc::new),
        };
        if let Some(known) = self.known.get(module) {
            known.goal.send_replace(goal);
            return;
        }
        let (goal, wanted) = watch::channel(goal);
        let (tell, tried) = watch::channel(0);
        let keeper = Keeper::new(Arc::clone(&self.shared), module.clone(), wanted, tell);
        self.tasks.spawn(keeper.live());
        self.known.insert(module.clone(), Known { goal, tried });
    }

    /// Returns when every keeper has tried what this order says.
    async fn tried(&self, number: u64) {
        for known in self.known.values() {
            let mut tried = known.tried.clone();
            // A keeper ends only with its sender of goals, which is held here.
            drop(tried.wait_for(|tried| *tried >= number).await);
        }
    }

    /// Lets the keepers go of what is gone.
    fn forget_gone(&mut self) {
        let board = self.shared.board.states();
        self.known.retain(|module, known| {
            let goal = known.goal.borrow();
            goal.desired.is_some()
                || *known.tried.borrow() < goal.number
                || board.contains_key(module)
        });
        while let Some(ended) = self.tasks.try_join_next() {
            came_to_its_end(ended);
        }
    }
}

/// How long the engine has to say what there is, before anything is started.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// How often it is looked for what nobody wants, and how soon when the engine did not answer.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
const LOOK_SOON: Duration = Duration::from_secs(5);
