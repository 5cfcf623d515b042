//! What a node runs: each module with its credential opened and its surroundings told, over this host's runtime.

mod handed;
mod logs;
mod prepare;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use mesh_auth::keys::BoxKey;
use mesh_bus::{Doing, States, Workloads};
use mesh_model::{BusFacts, Declaration, Generation, ModuleName, ModuleState, NodeName};
use mesh_runtime::{Desired, Runtime, RuntimeError};
use tokio::sync::{MutexGuard, watch};
use tokio::task::{JoinSet, spawn_blocking};

pub use self::handed::HandedFiles;
use self::logs::HostLogs;
use self::prepare::{Kept, Prepared, Unplaced, failed};

/// What every module of this host is told, and what opens its credential.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The node.
    pub node: NodeName,
    /// Where the bus is reached.
    pub urls: Vec<String>,
    /// The certificate authority of the bus, where it has one.
    pub ca: Option<PathBuf>,
    /// What of the bus stands in the subjects a module checks.
    pub bus: BusFacts,
    /// The key credentials are sealed to.
    pub box_key: BoxKey,
    /// Where the files modules are handed are put.
    pub handed: HandedFiles,
}

/// The workloads of this host.
///
/// A module whose credential or secret cannot be opened is reported failed, with the reason, and is not run; the others
/// are. One whose files the host does not take goes on as it was, and the whole is tried again.
#[derive(Debug)]
pub struct HostWorkloads {
    /// They follow the node from bus to bus.
    surroundings: watch::Receiver<Surroundings>,
    shown: Arc<Shown>,
    /// The newest declaration that was begun; held while its order is prepared and given.
    newest: tokio::sync::Mutex<Begun>,
    /// What shows the runtime's changes; aborted when this is dropped.
    _changes: JoinSet<()>,
}

/// What was last begun.
#[derive(Debug, Default)]
struct Begun {
    generation: Option<Generation>,
    desired: BTreeMap<ModuleName, Desired>,
    /// What modules are told of beside what is declared.
    kept: Kept,
}

impl Begun {
    /// Whether a module is as it was last wanted, so that nothing it was before comes back.
    fn is_good(&self, module: &ModuleName, states: &States) -> bool {
        let wanted = self.desired.get(module);
        let report = wanted.zip(states.get(module));
        report.is_some_and(|(wanted, report)| {
            let same = report.release == wanted.workload.release;
            same && match report.state {
                // What came back says why.
                ModuleState::Running => report.reason.is_none(),
                state => state == ModuleState::Ended,
            }
        })
    }
}

/// What the runtime says and what never reached it, as one.
#[derive(Debug)]
struct Shown {
    runtime: Runtime,
    refused: Mutex<States>,
    states: watch::Sender<States>,
}

impl HostWorkloads {
    /// What its modules say.
    pub(crate) fn logs(&self) -> HostLogs {
        HostLogs::of(Arc::clone(&self.shown))
    }

    /// Over a runtime. Must be called within tokio's.
    pub fn new(runtime: Runtime, surroundings: watch::Receiver<Surroundings>) -> Self {
        let mut changes = runtime.changes();
        let shown = Arc::new(Shown {
            states: watch::Sender::new(runtime.states()),
            refused: Mutex::default(),
            runtime,
        });
        let mut tasks = JoinSet::new();
        let to = Arc::clone(&shown);
        tasks.spawn(async move {
            while changes.changed().await.is_ok() {
                to.show();
            }
        });
        Self {
            surroundings,
            shown,
            newest: tokio::sync::Mutex::default(),
            _changes: tasks,
        }
    }

    /// Removes the files of what is no longer declared, unless something newer was. Secrets of a module that is not good
    /// stay: what was good before it comes back with those it had.
    async fn forget_others(
        &self,
        generation: Generation,
        mut declared: handed::Declared,
    ) -> Result<(), RuntimeError> {
        let mut newest = self.newest.lock().await;
        if newest.generation != Some(generation) {
            return Ok(());
        }
        let states = self.shown.runtime.states();
        let (good, kept) = std::mem::take(&mut newest.kept)
            .into_iter()
            .partition::<Kept, _>(|(module, _)| newest.is_good(module, &states));
        for (module, secrets) in &kept {
            let of = declared.entry(module.to_string()).or_default();
            of.extend(secrets.iter().map(ToString::to_string));
        }
        newest.kept = kept;
        for (module, secrets) in &good {
            if let Some(desired) = newest.desired.get_mut(module) {
                prepare::forget(secrets, desired);
            }
        }
        let handed = self.surroundings.borrow().handed.clone();
        let forgotten = spawn_blocking(move || handed.keep_only(&declared)).await;
        if let Ok(Err(error)) = forgotten {
            tracing::warn!(%error, "files of modules that are no longer declared are left on disk");
        }
        if good.is_empty() {
            return Ok(());
        }
        let desired = newest.desired.values().cloned().collect();
        self.give(newest, desired).await
    }

    /// Has the runtime carry out an order.
    async fn give(
        &self,
        newest: MutexGuard<'_, Begun>,
        desired: Vec<Desired>,
    ) -> Result<(), RuntimeError> {
        let mut applied = pin!(self.shown.runtime.apply(desired));
        // The first poll gives the order, so that of two orders the newer is given last; a newer one need not wait
        // until this one is carried out.
        let begun = poll_fn(|context| Poll::Ready(applied.as_mut().poll(context))).await;
        drop(newest);
        let result = match begun {
            Poll::Ready(result) => result,
            Poll::Pending => applied.await,
        };
        result.map(drop)
    }

    /// The order to give: of a module whose files could not be placed, what it was before. Nothing may be ordered while
    /// it cannot be told what that was.
    fn order(&self, prepared: Prepared, begun: &mut Begun) -> Result<Order, String> {
        let Prepared {
            mut desired,
            mut refused,
            unplaced,
            kept,
        } = prepared;
        let running = self.shown.runtime.states();
        let mut missing = Vec::new();
        for Unplaced {
            module,
            release,
            why,
        } in unplaced
        {
            let reason = format!("module {module}: {why}");
            match begun.desired.get(&module) {
                Some(before) => desired.push(before.clone()),
                None if running.contains_key(&module) => return Err(reason),
                None => {
                    refused.insert(module, failed(release, why));
                }
            }
            missing.push(reason);
        }
        let named = |desired: &Desired| (desired.module().clone(), desired.clone());
        begun.desired = desired.iter().map(named).collect();
        begun.kept = kept;
        Ok(Order {
            desired,
            refused,
            missing,
        })
    }
}

/// What the runtime is told.
struct Order {
    desired: Vec<Desired>,
    refused: States,
    /// Why it is not all of what was declared.
    missing: Vec<String>,
}

impl Workloads for HostWorkloads {
    async fn carry_out(&self, declaration: Declaration) -> Result<States, String> {
        let generation = declaration.generation;
        let mut newest = self.newest.lock().await;
        // Calls are tasks, and tasks begin in any order.
        if newest.generation > Some(generation) {
            return Ok(self.shown.show());
        }
        newest.generation = Some(generation);
        let surroundings = self.surroundings.borrow().clone();
        let declared = handed::declared(&declaration);
        let prepared = spawn_blocking(move || prepare::prepare(&surroundings, declaration))
            .await
            .map_err(|ended| ended.to_string())?;
        let order = self.order(prepared, &mut newest)?;
        self.shown.refuse(order.refused);
        let given = self.give(newest, order.desired).await;
        given.map_err(|error| error.to_string())?;
        if !order.missing.is_empty() {
            self.shown.show();
            return Err(order.missing.join("; "));
        }
        let forgotten = self.forget_others(generation, declared).await;
        forgotten.map_err(|error| error.to_string())?;
        Ok(self.shown.show())
    }

    fn states(&self) -> watch::Receiver<States> {
        self.shown.states.subscribe()
    }

    fn doing(&self) -> watch::Receiver<Doing> {
        self.shown.runtime.doing()
    }
}

impl Shown {
    fn refuse(&self, refused: States) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    /// Says what every module does now.
    fn show(&self) -> States {
        // Held throughout: two who show at once must not leave the older of two views.
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut states = self.runtime.states();
        states.extend(refused.clone());
        self.states.send_if_modified(|before| {
            let new = *before != states;
            before.clone_from(&states);
            new
        });
        states
    }
}

#[cfg(test)]
mod tests;
