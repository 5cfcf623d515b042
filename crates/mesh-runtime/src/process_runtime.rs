//! Modules as plain processes of the host.

use std::fs::File;
use std::sync::Arc;

use mesh_model::{ModuleName, Workload};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::board::Board;
use crate::found::Found;
use crate::gate::Gate;
use crate::host::Host;
use crate::instance::Surroundings;
use crate::reconcile::{Done, Order, Reconciler};
use crate::{Desired, HostConfig, Logs, RuntimeError, States, Tail};

/// Runs modules as plain processes.
///
/// Dropping it ends nothing: the processes go on, and the next one to open the directory adopts them. A module stays in
/// the foreground: one that leaves its process group is not ended with it.
#[derive(Debug)]
pub struct ProcessRuntime {
    host: Arc<Host>,
    gate: Gate,
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
        Self::open_at(config, Gate::new()).await
    }

    /// With the gate of a host that runs modules in another way, too.
    pub(crate) async fn open_at(
        config: HostConfig,
        gate: Gate,
    ) -> Result<(Self, Vec<Adopted>), RuntimeError> {
        let (host, lock) = Host::take(config).await?;
        let found = Found::all(&host)?;
        let around = Surroundings {
            host: Arc::new(host),
            board: Board::new(),
            gate,
        };
        let (host, board, gate) = (
            Arc::clone(&around.host),
            around.board.clone(),
            around.gate.clone(),
        );
        let reconciler = Reconciler::new(around, found);
        let adopted = board
            .states()
            .into_iter()
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
            host,
            gate,
            orders,
            done,
            board,
            _loop: tasks,
            _lock: lock,
        };
        Ok((runtime, adopted))
    }

    /// Makes the host run exactly `desired`; returns when every step was tried: each module is good, or was found bad, or
    /// waits in vain for its host. That a module is bad is no error but what its report says; it is tried again, with
    /// backoff, or what was good before it runs again, and the report says both.
    ///
    /// That takes as long as the slowest of it. A module without a question of health takes [`Pace::settle`], and one that
    /// ends at once three starts with the waits between them; one with a question takes at most the time it was declared
    /// to be healthy within. A replacement waits for what was there to end (twice [`Pace::grace`] at most), and where it
    /// is bad, for what was good to settle again. Modules go side by side; only those that come `after` one another add
    /// up. [`changes`](Self::changes) says how far it is.
    ///
    /// [`Pace::settle`]: crate::Pace::settle
    /// [`Pace::grace`]: crate::Pace::grace
    ///
    /// May be dropped: what was ordered is carried out all the same, until something newer is. A newer order need not wait
    /// for this one: what both want alike goes on, what only this one wants is dropped, and this returns with the newer.
    pub async fn apply(&self, desired: Vec<Desired>) -> Result<States, RuntimeError> {
        let workloads: Vec<Workload> = desired
            .iter()
            .map(|desired| desired.workload.clone())
            .collect();
        self.order(desired, || self.gate.declare(&workloads)).await
    }

    /// As [`apply`](Self::apply), for whoever declares what is desired at the gate, since more is than processes: what is
    /// done by `first` is done before anything of it begins, and in the order of the orders.
    pub(crate) async fn order(
        &self,
        desired: Vec<Desired>,
        first: impl FnOnce(),
    ) -> Result<States, RuntimeError> {
        let mut number = 0;
        self.orders.send_modify(|order| {
            first();
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

    /// What a module said, and goes on to say. Its log is kept when the module is no longer declared.
    pub fn logs(&self, module: &ModuleName, tail: Tail) -> Result<Logs, RuntimeError> {
        self.host.logs(module, tail)
    }

    /// Ends every process the mesh started here and forgets it.
    pub async fn stop_all(&self) -> Result<(), RuntimeError> {
        self.apply(vec![]).await.map(drop)
    }
}
