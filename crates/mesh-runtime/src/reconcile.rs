//! The one loop that changes what the host runs: takes the newest order, plans, carries out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mesh_control::convergence::{Observed, Standing, Step, plan};
use mesh_model::{ModuleName, ModuleState, Workload};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::board::{self, Board};
use crate::found::Found;
use crate::host::Host;
use crate::instance::{Doing, Instance, discard};
use crate::proc::Identity;
use crate::record::Phase;
use crate::{Desired, RuntimeError};

/// What is to run from now on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) desired: Arc<Vec<Desired>>,
}

/// The newest order that was carried out, and the first thing that was refused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    pub(crate) number: u64,
    pub(crate) refused: Option<RuntimeError>,
}

/// Everything on the host that is the mesh's.
#[derive(Debug)]
pub(crate) struct Reconciler {
    host: Arc<Host>,
    board: Board,
    slots: BTreeMap<ModuleName, Slot>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
enum Slot {
    Found(Found),
    Supervised(Supervised),
}

#[derive(Debug)]
struct Supervised {
    desired: watch::Sender<Desired>,
    stop: watch::Sender<bool>,
    gone: oneshot::Receiver<Result<(), RuntimeError>>,
}

impl Reconciler {
    pub(crate) fn new(host: Host, board: Board, found: Vec<(ModuleName, Found)>) -> Self {
        for (module, found) in &found {
            board.set(module, found.report());
        }
        Self {
            host: Arc::new(host),
            board,
            slots: found
                .into_iter()
                .map(|(module, found)| (module, Slot::Found(found)))
                .collect(),
            tasks: JoinSet::new(),
        }
    }

    /// Carries out orders until there will be none.
    pub(crate) async fn run(
        mut self,
        mut orders: watch::Receiver<Order>,
        done: watch::Sender<Done>,
    ) {
        while orders.changed().await.is_ok() {
            let order = orders.borrow_and_update().clone();
            while self.tasks.try_join_next().is_some() {}
            if let Progress::Done(refused) = self.carry_out(&order.desired, &orders).await {
                done.send_replace(Done {
                    number: order.number,
                    refused,
                });
            }
        }
    }

    async fn carry_out(
        &mut self,
        desired: &[Desired],
        orders: &watch::Receiver<Order>,
    ) -> Progress {
        let wanted: BTreeMap<&ModuleName, &Desired> = desired
            .iter()
            .map(|desired| (desired.module(), desired))
            .collect();
        let workloads: Vec<Workload> = desired
            .iter()
            .map(|desired| desired.workload.clone())
            .collect();
        let observed = self.observe();
        let steps = plan(&observed, &workloads);

        let mut refused = None;
        let touched: BTreeSet<&ModuleName> = steps.iter().map(|step| step.module()).collect();
        for (module, desired) in &wanted {
            if !touched.contains(module) {
                self.keep(module, desired);
            }
        }
        let stops = steps.iter().filter_map(|step| match step {
            Step::Stop(module) | Step::Replace(module) => Some((*module).clone()),
            Step::Start(_) => None,
        });
        let left = self.stop(stops.collect(), &mut refused).await;
        self.announce(&wanted);
        for step in steps {
            let (Step::Start(module) | Step::Replace(module)) = step else {
                continue;
            };
            let Some(desired) = wanted.get(module).filter(|_| !left.contains(module)) else {
                continue;
            };
            if orders.has_changed().unwrap_or(true) {
                return Progress::Superseded;
            }
            if let Err(error) = self.start(desired).await {
                refused.get_or_insert(error);
            }
        }
        Progress::Done(refused)
    }

    fn observe(&self) -> Vec<Observed> {
        let observe = |(module, slot): (&ModuleName, &Slot)| match slot {
            Slot::Found(found) => found.observed(module),
            Slot::Supervised(supervised) => Observed {
                module: module.clone(),
                workload: Some(supervised.desired.borrow().workload.clone()),
                standing: Standing::Held,
                rejected: None,
            },
        };
        self.slots.iter().map(observe).collect()
    }

    /// Goes on with what runs as it should.
    fn keep(&mut self, module: &ModuleName, desired: &Desired) {
        match self.slots.remove(module) {
            Some(Slot::Supervised(supervised)) => {
                supervised.desired.send_replace(desired.clone());
                self.slots
                    .insert(module.clone(), Slot::Supervised(supervised));
            }
            Some(Slot::Found(Found::Known(record))) => {
                let (doing, reason) = Doing::adopted(&record.phase, self.host.marks_of(module));
                if let Some(reason) = reason {
                    let release = &desired.workload.release;
                    let report =
                        board::idle(release, ModuleState::Ended, record.restarts, Some(reason));
                    self.board.set(module, report);
                }
                drop(self.supervise(desired, doing, Some(record.restarts)));
            }
            // What nobody knows is never kept: it is no desired workload.
            Some(slot @ Slot::Found(Found::Unknown(_))) => {
                self.slots.insert(module.clone(), slot);
            }
            None => {}
        }
    }

    /// Ends all of `modules` side by side; the answer is which are still there.
    async fn stop(
        &mut self,
        modules: Vec<ModuleName>,
        refused: &mut Option<RuntimeError>,
    ) -> BTreeSet<ModuleName> {
        let mut stopping = vec![];
        for module in modules {
            let gone = match self.slots.remove(&module) {
                Some(Slot::Supervised(supervised)) => {
                    supervised.stop.send_replace(true);
                    supervised.gone
                }
                Some(Slot::Found(found)) => self.discard(&module, found.processes()),
                None => continue,
            };
            stopping.push((module, gone));
        }
        let mut left = BTreeSet::new();
        for (module, gone) in stopping {
            let Err(error) = gone.await.unwrap_or(Err(RuntimeError::Closed)) else {
                continue;
            };
            self.board.explain(&module, error.to_string());
            refused.get_or_insert(error);
            // Its record is still there, and so it is found again.
            match Found::again(&self.host, &module) {
                Ok(Some(found)) => {
                    self.slots.insert(module.clone(), Slot::Found(found));
                }
                Ok(None) => {}
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
            left.insert(module);
        }
        left
    }

    fn discard(
        &mut self,
        module: &ModuleName,
        processes: Vec<Identity>,
    ) -> oneshot::Receiver<Result<(), RuntimeError>> {
        let (tell, gone) = oneshot::channel();
        let (host, module) = (Arc::clone(&self.host), module.clone());
        self.tasks.spawn(async move {
            // Nobody waits when the runtime ends.
            drop(tell.send(discard(&host, &module, processes).await));
        });
        gone
    }

    /// Says of everything that is to be started that it waits for its turn, and no more of what is neither here nor
    /// wanted: an order that was superseded may have named it.
    fn announce(&self, wanted: &BTreeMap<&ModuleName, &Desired>) {
        for (module, desired) in wanted {
            if !self.slots.contains_key(*module) {
                let report = board::idle(&desired.workload.release, ModuleState::Starting, 0, None);
                self.board.set(module, report);
            }
        }
        for module in self.board.states().keys() {
            if !self.slots.contains_key(module) && !wanted.contains_key(module) {
                self.board.remove(module);
            }
        }
    }

    /// Starts one, and returns when that was tried.
    async fn start(&mut self, desired: &Desired) -> Result<(), RuntimeError> {
        let mut restarts = None;
        if let Some(Slot::Found(found)) = self.slots.remove(desired.module()) {
            if let Found::Known(record) = &found {
                restarts = match record.phase {
                    // It never came to be.
                    Phase::Starting { .. } => record.restarts.checked_sub(1),
                    _ => Some(record.restarts),
                };
            }
            let processes = found.processes();
            let module = desired.module();
            if let Err(left) = discard(&self.host, module, processes).await {
                self.board.explain(module, left.to_string());
                self.slots.insert(module.clone(), Slot::Found(found));
                return Err(left);
            }
        }
        self.supervise(desired, Doing::Start, restarts)
            .await
            .unwrap_or(Err(RuntimeError::Closed))
    }

    fn supervise(
        &mut self,
        desired: &Desired,
        doing: Doing,
        restarts: Option<u32>,
    ) -> oneshot::Receiver<Result<(), RuntimeError>> {
        let module = desired.module().clone();
        let (stop, stopped) = watch::channel(false);
        let (tried, first) = oneshot::channel();
        let (tell, gone) = oneshot::channel();
        let (desired, wanted) = watch::channel(desired.clone());
        let instance = Instance::new(
            Arc::clone(&self.host),
            self.board.clone(),
            module.clone(),
            wanted,
            restarts,
        );
        self.tasks.spawn(instance.live(doing, stopped, tried, tell));
        let supervised = Supervised {
            desired,
            stop,
            gone,
        };
        self.slots.insert(module, Slot::Supervised(supervised));
        first
    }
}

/// How an order ended.
enum Progress {
    /// Every step was tried; the first refusal, if any was.
    Done(Option<RuntimeError>),
    /// A newer one is there.
    Superseded,
}
