//! A host that runs modules in both ways: as processes and as containers, in one order of starts.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use mesh_model::{ModuleName, Workload};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;

use crate::container::ContainerRuntime;
use crate::gate::Gate;
use crate::{
    Adopted, ContainersConfig, Desired, Doing, HostConfig, Logs, ProcessRuntime, RuntimeError,
    States, Tail,
};

/// Runs each module as what it is declared as: a process, or a container.
///
/// What runs as either goes on when this is dropped, and neither waits for the other, but where a module comes `after`
/// one of the other kind, or was the other kind itself.
#[derive(Debug)]
pub struct HostRuntime {
    kinds: Arc<Kinds>,
    orders: watch::Sender<Order>,
    done: watch::Receiver<Done>,
    states: watch::Receiver<States>,
    /// The loops; aborted when this is dropped.
    _loops: JoinSet<()>,
}

#[derive(Debug)]
struct Kinds {
    processes: ProcessRuntime,
    containers: ContainerRuntime,
    gate: Gate,
    /// What an earlier agent left was looked for.
    found: OnceCell<()>,
}

#[derive(Debug, Clone, Default)]
struct Order {
    number: u64,
    desired: Arc<Vec<Desired>>,
}

#[derive(Debug, Clone, Default)]
struct Done {
    number: u64,
    refused: Option<RuntimeError>,
}

impl HostRuntime {
    /// Takes the host's directories and finds which processes still run; containers are looked for with the first order.
    pub async fn open(
        processes: HostConfig,
        containers: ContainersConfig,
    ) -> Result<(Self, Vec<Adopted>), RuntimeError> {
        let gate = Gate::new();
        let (processes, adopted) = ProcessRuntime::open_at(processes, gate.clone()).await?;
        let containers = ContainerRuntime::open(containers, gate.clone())?;
        let kinds = Arc::new(Kinds {
            processes,
            containers,
            gate,
            found: OnceCell::new(),
        });
        let (orders, taken) = watch::channel(Order::default());
        let (tell, done) = watch::channel(Done::default());
        let (show, states) = watch::channel(kinds.states());
        let mut loops = JoinSet::new();
        loops.spawn(Arc::clone(&kinds).run(taken, tell));
        loops.spawn(Arc::clone(&kinds).show(show));
        let runtime = Self {
            kinds,
            orders,
            done,
            states,
            _loops: loops,
        };
        Ok((runtime, adopted))
    }

    /// Makes the host run exactly `desired`; see [`ProcessRuntime::apply`], and of containers it holds alike.
    pub async fn apply(&self, desired: Vec<Desired>) -> Result<States, RuntimeError> {
        let mut number = 0;
        self.orders.send_modify(|order| {
            order.number = order.number.saturating_add(1);
            order.desired = Arc::new(desired);
            number = order.number;
        });
        let refused = self
            .done
            .clone()
            .wait_for(|done| done.number >= number)
            .await
            .map_err(|_| RuntimeError::Closed)?
            .refused
            .clone();
        refused.map_or_else(|| Ok(self.states()), Err)
    }

    /// What every module is doing now.
    pub fn states(&self) -> States {
        self.kinds.states()
    }

    /// The states as they change; each change wakes.
    pub fn changes(&self) -> watch::Receiver<States> {
        self.states.clone()
    }

    /// How far it is with what takes long.
    pub fn doing(&self) -> watch::Receiver<Doing> {
        self.kinds.containers.doing()
    }

    /// What a module said, and where it is followed, goes on to say.
    pub async fn logs(&self, module: &ModuleName, tail: Tail) -> Result<Logs, RuntimeError> {
        let Kinds {
            processes,
            containers,
            ..
        } = &*self.kinds;
        if containers.states().contains_key(module) {
            return containers.logs(module, tail).await;
        }
        match processes.logs(module, tail) {
            Err(none @ RuntimeError::NoLog { .. }) => match containers.logs(module, tail).await {
                // One that is declared as a container is known: with no engine to ask, there is none.
                Err(RuntimeError::Engine { .. }) => Err(none),
                logs => logs,
            },
            logs => logs,
        }
    }
}

impl Kinds {
    /// Carries out orders until there will be none.
    async fn run(self: Arc<Self>, mut orders: watch::Receiver<Order>, done: watch::Sender<Done>) {
        if orders.changed().await.is_err() {
            return;
        }
        loop {
            let order = orders.borrow_and_update().clone();
            let workloads: Vec<Workload> = order
                .desired
                .iter()
                .map(|desired| desired.workload.clone())
                .collect();
            self.gate.declare(&workloads);
            let outcome = tokio::select! {
                biased;
                changed = orders.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                outcome = self.carry_out(&order.desired) => outcome,
            };
            done.send_replace(Done {
                number: order.number,
                refused: outcome.err(),
            });
            if orders.changed().await.is_err() {
                return;
            }
        }
    }

    /// Gives each kind its part. What is there as the other kind is held back until that is gone.
    async fn carry_out(&self, desired: &[Desired]) -> Result<(), RuntimeError> {
        // Which processes there are is known; what a process may have been as a container is not, and is never both.
        let processes = desired.iter().any(|it| !is_container(it));
        let find = || async {
            if processes {
                self.containers.find().await;
            }
        };
        self.found.get_or_init(find).await;
        loop {
            let held = held_back(desired, &self.processes.states(), &self.containers.states());
            let part = |of_containers: bool| -> Vec<Desired> {
                let mine = desired
                    .iter()
                    .filter(|it| is_container(it) == of_containers);
                mine.filter(|it| !held.contains(it.module()))
                    .cloned()
                    .collect()
            };
            let processes = self.processes.order(part(false), || ());
            let both = async {
                let (processes, containers) =
                    tokio::join!(processes, self.containers.apply(part(true)));
                processes.map(drop).and(containers)
            };
            if held.is_empty() {
                return both.await;
            }
            let mut both = pin!(both);
            let (mut processes, mut containers) =
                (self.processes.changes(), self.containers.changes());
            let fewer = |processes: &States, containers: &States| {
                held_back(desired, processes, containers) != held
            };
            loop {
                tokio::select! {
                    outcome = &mut both => {
                        // What could not be ended is still there, and the other kind of it waits.
                        if !fewer(&self.processes.states(), &self.containers.states()) {
                            return outcome;
                        }
                    }
                    changed = processes.changed() => changed.map_err(|_| RuntimeError::Closed)?,
                    changed = containers.changed() => changed.map_err(|_| RuntimeError::Closed)?,
                }
                if fewer(&self.processes.states(), &self.containers.states()) {
                    break;
                }
            }
        }
    }

    async fn show(self: Arc<Self>, show: watch::Sender<States>) {
        let (mut processes, mut containers) = (self.processes.changes(), self.containers.changes());
        loop {
            let changed = tokio::select! {
                changed = processes.changed() => changed,
                changed = containers.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            let states = self.states();
            show.send_if_modified(|before| {
                let new = *before != states;
                before.clone_from(&states);
                new
            });
        }
    }

    fn states(&self) -> States {
        // Of a module that is there as both, what it was is on its way out: it is said last, that it is still there.
        let mut states = self.containers.states();
        states.extend(self.processes.states());
        states
    }
}

fn is_container(desired: &Desired) -> bool {
    desired.workload.run.container().is_some()
}

/// The modules that are still there as the kind they are no longer.
fn held_back(desired: &[Desired], processes: &States, containers: &States) -> BTreeSet<ModuleName> {
    let other = |desired: &&Desired| {
        let there = if is_container(desired) {
            processes
        } else {
            containers
        };
        there.contains_key(desired.module())
    };
    let held = desired.iter().filter(other);
    held.map(|desired| desired.module().clone()).collect()
}
