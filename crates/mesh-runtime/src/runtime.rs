//! The ways this host can run modules, as one.

use mesh_model::ModuleName;
use tokio::sync::watch;

use crate::{Desired, Doing, DryRun, HostRuntime, Logs, RuntimeError, States, Tail};

/// How this host runs modules.
#[derive(Debug)]
pub enum Runtime {
    /// As processes and containers.
    Host(Box<HostRuntime>),
    /// Not at all.
    DryRun(DryRun),
}

impl Runtime {
    /// Makes the host run exactly `desired`; see [`HostRuntime::apply`].
    pub async fn apply(&self, desired: Vec<Desired>) -> Result<States, RuntimeError> {
        match self {
            Self::Host(host) => host.apply(desired).await,
            Self::DryRun(dry_run) => Ok(dry_run.apply(desired)),
        }
    }

    /// What every module is doing now.
    pub fn states(&self) -> States {
        match self {
            Self::Host(host) => host.states(),
            Self::DryRun(dry_run) => dry_run.states(),
        }
    }

    /// The states as they change.
    pub fn changes(&self) -> watch::Receiver<States> {
        match self {
            Self::Host(host) => host.changes(),
            Self::DryRun(dry_run) => dry_run.changes(),
        }
    }

    /// How far it is with what takes long, and each change of it.
    pub fn doing(&self) -> watch::Receiver<Doing> {
        match self {
            Self::Host(host) => host.doing(),
            // Nothing takes long that is not done.
            Self::DryRun(_) => watch::Sender::default().subscribe(),
        }
    }

    /// What a module said, line by line.
    pub async fn logs(&self, module: &ModuleName, tail: Tail) -> Result<Logs, RuntimeError> {
        match self {
            Self::Host(host) => host.logs(module, tail).await,
            Self::DryRun(_) => Err(RuntimeError::NoLog {
                module: module.clone(),
            }),
        }
    }

    /// Ends everything and forgets it.
    pub async fn stop_all(&self) -> Result<(), RuntimeError> {
        self.apply(vec![]).await.map(drop)
    }
}
