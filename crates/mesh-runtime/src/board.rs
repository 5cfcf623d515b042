//! What every module is doing, for whoever asks and whoever waits.

use std::collections::BTreeMap;

use mesh_model::{ModuleName, ModuleReport, ModuleState};
use tokio::sync::watch;

/// Every module the runtime knows of: what is desired, and what no longer is but still runs.
pub type States = BTreeMap<ModuleName, ModuleReport>;

/// How far the runtime is with what takes long, a line for each module: nothing that lasts.
pub type Doing = BTreeMap<ModuleName, String>;

/// The one place states are kept; clones are the same board.
#[derive(Debug, Clone)]
pub(crate) struct Board(watch::Sender<States>);

impl Board {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(States::new()))
    }

    pub(crate) fn states(&self) -> States {
        self.0.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<States> {
        self.0.subscribe()
    }

    /// Says what a module is doing; who waits is woken only if that is new.
    pub(crate) fn set(&self, module: &ModuleName, report: ModuleReport) {
        self.0.send_if_modified(|states| {
            let new = states.get(module) != Some(&report);
            if new {
                states.insert(module.clone(), report);
            }
            new
        });
    }

    /// Adds a reason to what is already said of a module.
    pub(crate) fn explain(&self, module: &ModuleName, reason: String) {
        self.0.send_if_modified(|states| {
            states
                .get_mut(module)
                .is_some_and(|report| report.reason.replace(reason.clone()) != Some(reason))
        });
    }

    pub(crate) fn remove(&self, module: &ModuleName) {
        self.0
            .send_if_modified(|states| states.remove(module).is_some());
    }
}

/// A report of a module of which no more is known than what it is to do.
pub(crate) fn idle(release: &str, state: ModuleState) -> ModuleReport {
    ModuleReport {
        release: release.to_owned(),
        state,
        pid: None,
        restarts: 0,
        reason: None,
        image: None,
        last_exit: None,
        repairs: 0,
    }
}
