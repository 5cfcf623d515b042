//! The one loop that takes orders: plans, tells each module's instance what it is to be, and waits until that was tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mesh_control::convergence::{Observed, Step, plan};
use mesh_model::{ModuleName, ModuleState, Workload};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use crate::board;
use crate::ended::came_to_its_end;
use crate::found::Found;
use crate::instance::{Instance, Surroundings, Told, Wanted};
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
    around: Surroundings,
    slots: BTreeMap<ModuleName, Slot>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
enum Slot {
    /// As an earlier agent left it; nothing of it is touched before the first order.
    Found(Found),
    /// Its instance is told what it is to be, and tells what it is.
    Told(watch::Sender<Wanted>, watch::Receiver<Told>),
}

impl Reconciler {
    pub(crate) fn new(around: Surroundings, found: Vec<(ModuleName, Found)>) -> Self {
        for (module, found) in &found {
            around.board.set(module, found.report());
        }
        Self {
            around,
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
        loop {
            tokio::select! {
                changed = orders.changed() => match changed {
                    Ok(()) => {}
                    Err(_) => return,
                },
                Some(ended) = self.tasks.join_next() => {
                    came_to_its_end(ended);
                    continue;
                }
            }
            let order = orders.borrow_and_update().clone();
            let mut newer = orders.clone();
            let refused = tokio::select! {
                biased;
                // Whoever was told something goes on with it until he is told otherwise.
                _ = newer.changed() => continue,
                refused = self.carry_out(&order) => refused,
            };
            self.let_go();
            done.send_replace(Done {
                number: order.number,
                refused,
            });
        }
    }

    /// Returns when every step was tried, with the first refusal. May be dropped for a newer order.
    async fn carry_out(&mut self, order: &Order) -> Option<RuntimeError> {
        let wanted: BTreeMap<&ModuleName, &Desired> = order
            .desired
            .iter()
            .map(|desired| (desired.module(), desired))
            .collect();
        let workloads: Vec<Workload> = wanted
            .values()
            .map(|desired| desired.workload.clone())
            .collect();
        let observed = self.observe();
        let steps = plan(&observed, &workloads);
        for step in &steps {
            info!(order = order.number, ?step, "to do");
        }
        self.announce(&wanted);

        // What ends does so before anything starts, and may have to start anew.
        let ending = order.number.saturating_mul(2);
        let starting = ending.saturating_add(1);
        let touched: BTreeSet<&ModuleName> = steps.iter().map(|step| step.module()).collect();
        for (module, desired) in &wanted {
            if !touched.contains(module) {
                self.tell(module, starting, Some(desired));
            }
        }
        let stops = steps.iter().filter_map(|step| match step {
            Step::Stop(module) => Some(*module),
            Step::Start(_) | Step::Replace(_) => None,
        });
        let stops: BTreeSet<&ModuleName> = stops.collect();
        for module in &stops {
            self.tell(module, ending, None);
        }
        let refused = self.settled(stops, ending).await;
        // What could not be ended is not started a second time.
        let goes = |module: &ModuleName| !refused.contains_key(module);
        for step in steps.iter().filter(|step| goes(step.module())) {
            if let Step::Start(module) | Step::Replace(module) = step
                && let Some(desired) = wanted.get(module)
            {
                self.tell(module, starting, Some(desired));
            }
        }
        let waited: Vec<&ModuleName> = wanted
            .keys()
            .copied()
            .filter(|module| goes(module))
            .collect();
        let tried = self.settled(waited, starting).await;
        refused.into_values().chain(tried.into_values()).next()
    }

    fn observe(&self) -> Vec<Observed> {
        let slots = self.slots.iter();
        slots
            .filter_map(|(module, slot)| match slot {
                Slot::Found(found) => Some(found.observed(module)),
                Slot::Told(_, told) => told.borrow().observed.clone(),
            })
            .collect()
    }

    /// Tells a module's instance what it is to be.
    fn tell(&mut self, module: &ModuleName, order: u64, desired: Option<&Desired>) {
        let wanted = Wanted {
            order,
            desired: desired.cloned(),
        };
        let found = match self.slots.remove(module) {
            Some(Slot::Told(tell, told)) => {
                tell.send_replace(wanted);
                self.slots.insert(module.clone(), Slot::Told(tell, told));
                return;
            }
            Some(Slot::Found(found)) => Some(found),
            None => None,
        };
        let (tell, orders) = watch::channel(wanted);
        let (tells, told) = watch::channel(Told::default());
        let around = self.around.clone();
        let instance = Instance::new(around, module.clone(), found, orders, tells);
        self.tasks.spawn(instance.live());
        self.slots.insert(module.clone(), Slot::Told(tell, told));
    }

    /// Waits until each of these has done what it can for an order. The answer is which of them were refused something.
    async fn settled(
        &self,
        modules: impl IntoIterator<Item = &ModuleName>,
        order: u64,
    ) -> BTreeMap<ModuleName, RuntimeError> {
        let mut refused = BTreeMap::new();
        for module in modules {
            let Some(Slot::Told(_, told)) = self.slots.get(module) else {
                continue;
            };
            let mut told = told.clone();
            let settled = told.wait_for(|told| told.order >= order).await;
            let error = match settled {
                Ok(told) => told.refused.clone(),
                Err(_) => Some(RuntimeError::Closed),
            };
            if let Some(error) = error {
                refused.insert(module.clone(), error);
            }
        }
        refused
    }

    /// Says of everything that is to be started that it waits for its turn, and no more of what is neither here nor
    /// wanted: an order that was superseded may have named it.
    fn announce(&self, wanted: &BTreeMap<&ModuleName, &Desired>) {
        let board = &self.around.board;
        for (module, desired) in wanted {
            if !self.slots.contains_key(*module) {
                let report = board::idle(&desired.workload.release, ModuleState::Starting);
                board.set(module, report);
            }
        }
        for module in board.states().keys() {
            if !self.slots.contains_key(module) && !wanted.contains_key(module) {
                board.remove(module);
            }
        }
    }

    /// Lets go of the instances of what is neither here nor wanted.
    fn let_go(&mut self) {
        self.slots.retain(|_, slot| match slot {
            Slot::Found(_) => true,
            Slot::Told(wanted, told) => {
                wanted.borrow().desired.is_some() || told.borrow().observed.is_some()
            }
        });
        while let Some(ended) = self.tasks.try_join_next() {
            came_to_its_end(ended);
        }
    }
}
