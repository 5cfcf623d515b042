//! Modules as plain processes of the host.

use std::fs::File;
use std::sync::Arc;

use mesh_model::{ModuleName, ModuleState};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::board::Board;
use crate::found::Found;
use crate::host::Host;
use crate::reconcile::{Done, Order, Reconciler};
use crate::{Desired, HostConfig, RuntimeError, States};

/// Runs modules as plain processes.
///
/// Dropping it ends nothing: the processes go on, and the next one to open the directory adopts them. A module stays in
/// the foreground: one that leaves its process group is not ended with it.
#[derive(Debug)]
pub struct ProcessRuntime {
    orders: watch::Sender<Order>,
    done: watch::Receiver<Done>,
    board: Board,
    /// The loop; aborted when this is dropped.
    _loop: JoinSet<()>,
    /// Held so that no other agent opens the directory.
    _lock: File,
}

/// A process an earlier agent started that still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The module.
    pub module: ModuleName,
    /// The release it runs.
    pub release: String,
    /// Its process.
    pub pid: u32,
}

impl ProcessRuntime {
    /// Takes the directory and finds what still runs. What was found is left alone, and not yet started again should it
    /// end, until the first [`apply`](Self::apply) says what is desired.
    pub async fn open(config: HostConfig) -> Result<(Self, Vec<Adopted>), RuntimeError> {
        let (host, lock) = Host::take(config).await?;
        let found = Found::all(&host)?;
        let board = Board::new();
        let reconciler = Reconciler::new(host, board.clone(), found);
        let adopted = board
            .states()
            .into_iter()
            .filter(|(_, report)| report.state == ModuleState::Running)
            .filter_map(|(module, report)| {
                report.pid.map(|pid| Adopted {
                    module,
                    release: report.release,
                    pid,
                })
            })
            .collect();
        let (orders, taken) = watch::channel(Order::default());
        let (tell, done) = watch::channel(Done::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(reconciler.run(taken, tell));
        let runtime = Self {
            orders,
            done,
            board,
            _loop: tasks,
            _lock: lock,
        };
        Ok((runtime, adopted))
    }

    /// Makes the host run exactly `desired`; returns when every step was tried. That a program cannot be started is no
    /// error but what its module's report says; it is tried again, with backoff.
    ///
    /// May be dropped: what was ordered is carried out all the same, until something newer is. One that was superseded
    /// returns with the newer.
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
        self.board.states()
    }

    /// The states as they change; each change wakes, none is the same as the one before.
    pub fn changes(&self) -> watch::Receiver<States> {
        self.board.subscribe()
    }

    /// Ends every process the mesh started here and forgets it.
    pub async fn stop_all(&self) -> Result<(), RuntimeError> {
        self.apply(vec![]).await.map(drop)
    }
}
