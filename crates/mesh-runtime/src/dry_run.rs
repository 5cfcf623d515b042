//! Runs nothing, and says what it would.

use mesh_control::convergence::{Observed, Standing, Step, plan};
use mesh_model::{ModuleName, ModuleReport, ModuleState, Workload};
use tokio::sync::watch;
use tracing::info;

use crate::{Desired, States, board};

/// Runs nothing: every module is said to run, without a process. For demonstrations, and for tests of what stands above.
#[derive(Debug)]
pub struct DryRun {
    desired: watch::Sender<Vec<Desired>>,
    states: watch::Sender<States>,
}

impl DryRun {
    /// One that runs nothing yet.
    pub fn new() -> Self {
        Self {
            desired: watch::Sender::new(vec![]),
            states: watch::Sender::new(States::new()),
        }
    }

    /// Takes `desired` for what runs.
    pub fn apply(&self, desired: Vec<Desired>) -> States {
        self.say(&desired);
        let states: States = desired.iter().map(report).collect();
        self.desired.send_replace(desired);
        self.states.send_if_modified(|before| {
            let new = *before != states;
            before.clone_from(&states);
            new
        });
        states
    }

    /// Says what a runtime would do now.
    fn say(&self, desired: &[Desired]) {
        let workload = |desired: &Desired| desired.workload.clone();
        let wanted: Vec<Workload> = desired.iter().map(workload).collect();
        let before = self.desired.borrow();
        let there: Vec<Observed> = before.iter().map(observed).collect();
        for step in plan(&there, &wanted) {
            let module = step.module();
            let run = wanted.iter().find(|workload| workload.module == *module);
            let argv: Vec<_> = run
                .iter()
                .flat_map(|workload| workload.run.argv())
                .collect();
            match step {
                Step::Stop(_) => info!(%module, "would stop"),
                Step::Start(_) => info!(%module, ?argv, "would run"),
                Step::Replace(_) => info!(%module, ?argv, "would run in place of what is there"),
            }
        }
    }

    /// What it would run.
    pub fn desired(&self) -> Vec<Desired> {
        self.desired.borrow().clone()
    }

    /// What every module is said to do.
    pub fn states(&self) -> States {
        self.states.borrow().clone()
    }

    /// The states as they change.
    pub fn changes(&self) -> watch::Receiver<States> {
        self.states.subscribe()
    }
}

impl Default for DryRun {
    fn default() -> Self {
        Self::new()
    }
}

fn observed(desired: &Desired) -> Observed {
    Observed {
        module: desired.module().clone(),
        workload: Some(desired.workload.clone()),
        standing: Standing::Held,
        rejected: None,
    }
}

fn report(desired: &Desired) -> (ModuleName, ModuleReport) {
    let workload = &desired.workload;
    let report = board::idle(&workload.release, ModuleState::Running);
    (workload.module.clone(), report)
}

#[cfg(test)]
mod tests {
    use mesh_model::{PublicKey, Restart, Run, Sealed};

    use super::*;

    fn desired(module: &str) -> Desired {
        Desired {
            workload: Workload {
                module: module.parse().unwrap(),
                release: "1".to_owned(),
                run: Run::command(["absent".to_owned()]).unwrap(),
                after: [].into(),
                env: [].into(),
                restart: Restart::Always,
                key: PublicKey::from_raw([0; 32]),
                credential: Sealed(vec![]),
                health: None,
                secrets: [].into(),
                pull_secret: None,
                accepts: [].into(),
            },
            extra_env: [].into(),
            extra_env_in_container: [].into(),
            handed: std::path::PathBuf::new(),
            pull_secret: None,
        }
    }

    #[test]
    fn a_dry_run_says_everything_runs_and_wakes_only_for_what_is_new() {
        let dry_run = DryRun::new();
        let mut changes = dry_run.changes();
        let states = dry_run.apply(vec![desired("a"), desired("b")]);
        assert!(
            states
                .values()
                .all(|r| r.state == ModuleState::Running && r.pid.is_none())
        );
        assert!(changes.has_changed().unwrap());
        assert_eq!(*changes.borrow_and_update(), states);

        dry_run.apply(vec![desired("b"), desired("a")]);
        assert!(!changes.has_changed().unwrap());

        dry_run.apply(vec![desired("b")]);
        assert_eq!(dry_run.states().len(), 1);
        assert_eq!(dry_run.desired(), [desired("b")]);
    }
}
