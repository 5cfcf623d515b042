//! The ways this host can run modules, as one.

use tokio::sync::watch;

use crate::{Desired, DryRun, ProcessRuntime, RuntimeError, States};

/// How this host runs modules.
#[derive(Debug)]
pub enum Runtime {
    /// As plain processes.
    Process(ProcessRuntime),
    /// Not at all.
    DryRun(DryRun),
}

impl Runtime {
    /// Makes the host run exactly `desired`; see [`ProcessRuntime::apply`].
    pub async fn apply(&self, desired: Vec<Desired>) -> Result<States, RuntimeError> {
        match self {
            Self::Process(processes) => processes.apply(desired).await,
            Self::DryRun(dry_run) => Ok(dry_run.apply(desired)),
        }
    }

    /// What every module is doing now.
    pub fn states(&self) -> States {
        match self {
            Self::Process(processes) => processes.states(),
            Self::DryRun(dry_run) => dry_run.states(),
        }
    }

    /// The states as they change.
    pub fn changes(&self) -> watch::Receiver<States> {
        match self {
            Self::Process(processes) => processes.changes(),
            Self::DryRun(dry_run) => dry_run.changes(),
        }
    }

    /// Ends everything and forgets it.
    pub async fn stop_all(&self) -> Result<(), RuntimeError> {
        self.apply(vec![]).await.map(drop)
    }
}
