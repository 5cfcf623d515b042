//! One instance from its start until it is no longer desired: started, watched, started again.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use mesh_model::{ModuleName, ModuleState};
use tokio::sync::{oneshot, watch};
use tokio::time::{Duration, Instant, sleep};
use tracing::{info, warn};

use crate::board::{self, Board};
use crate::ending::Ending;
use crate::host::Host;
use crate::proc::Identity;
use crate::process::{self, Process, Started};
use crate::record::{Phase, Record};
use crate::{Desired, RuntimeError};

/// One instance and what is to be done when its process ends.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) host: Arc<Host>,
    pub(crate) board: Board,
    pub(crate) module: ModuleName,
    /// What it is started as next; of what runs now it differs in nothing that matters to it.
    pub(crate) desired: watch::Receiver<Desired>,
    /// The restarts its last start was, if it had one.
    pub(crate) restarts: Option<u32>,
    /// Ends in a row.
    ends: u32,
}

/// What an instance is doing.
#[derive(Debug)]
pub(crate) enum Doing {
    /// Being started.
    Start,
    /// Running.
    Watch(Process),
    /// Waiting to be started.
    Wait(Duration),
    /// It ended, and for good.
    Rest,
}

impl Instance {
    pub(crate) const fn new(
        host: Arc<Host>,
        board: Board,
        module: ModuleName,
        desired: watch::Receiver<Desired>,
        restarts: Option<u32>,
    ) -> Self {
        Self {
            host,
            board,
            module,
            desired,
            restarts,
            ends: 0,
        }
    }

    /// Lives until asked to stop; `tried` hears of the first attempt to start, `gone` of the stop. Not to be cancelled
    /// while a start is on its way but by the end of the runtime: nothing but the record would know of the process.
    pub(crate) async fn live(
        mut self,
        mut doing: Doing,
        mut stop: watch::Receiver<bool>,
        tried: oneshot::Sender<Result<(), RuntimeError>>,
        gone: oneshot::Sender<Result<(), RuntimeError>>,
    ) {
        let mut tried = Some(tried);
        loop {
            doing = match doing {
                Doing::Start => {
                    let (next, outcome) = self.start().await;
                    if let Some(tried) = tried.take() {
                        // Who asked may have been told to ask for something newer.
                        drop(tried.send(outcome));
                    }
                    next
                }
                Doing::Watch(mut process) => {
                    let since = Instant::now();
                    tokio::select! {
                        biased;
                        () = asked(&mut stop) => return self.stop(process, gone).await,
                        () = process.ended() => self.after(&mut process, since.elapsed()).await,
                        never = bound_log(&self.host, &self.module) => match never {},
                    }
                }
                Doing::Wait(wait) => tokio::select! {
                    biased;
                    () = asked(&mut stop) => break,
                    () = sleep(wait) => Doing::Start,
                },
                Doing::Rest => {
                    asked(&mut stop).await;
                    break;
                }
            };
        }
        // Nobody waits when the runtime ends.
        drop(gone.send(self.host.forget(&self.module)));
    }

    async fn start(&mut self) -> (Doing, Result<(), RuntimeError>) {
        let desired = self.desired.borrow().clone();
        let release = desired.workload.release.clone();
        let host = Arc::clone(&self.host);
        let restarts = self
            .restarts
            .map_or(0, |restarts| restarts.saturating_add(1));
        let started =
            tokio::task::spawn_blocking(move || start_recorded(&host, &desired, restarts))
                .await
                .unwrap_or(Err(StartError::Host(RuntimeError::Closed)));
        match started {
            Ok(started) => {
                let process = Process::own(started, self.host.marks_of(&self.module));
                info!(module = %self.module, pid = process.number(), restarts, "started");
                self.restarts = Some(restarts);
                self.board.set(
                    &self.module,
                    board::running(&release, process.number(), restarts),
                );
                (Doing::Watch(process), Ok(()))
            }
            Err(refused) => {
                let reason = refused.to_string();
                warn!(module = %self.module, reason, "could not be started");
                let wait = self.wait(Duration::ZERO);
                self.board.set(
                    &self.module,
                    board::idle(
                        &release,
                        ModuleState::Failed,
                        self.restarts.unwrap_or(0),
                        Some(reason),
                    ),
                );
                let outcome = match refused {
                    StartError::Host(refused) => Err(refused),
                    StartError::Program { .. } => Ok(()),
                };
                (Doing::Wait(wait), outcome)
            }
        }
    }

    /// Decides what follows the end of a process, once nothing of its group is left to meet the next.
    async fn after(&mut self, process: &mut Process, lived: Duration) -> Doing {
        let pace = self.host.config.pace;
        if let Err(left) = process.stop(&self.module, pace.grace).await {
            warn!(module = %self.module, reason = %left, "something of its group goes on");
        }
        let ending = process.reap();
        let workload = self.desired.borrow().workload.clone();
        let again = ending.starts_again(workload.restart);
        warn!(module = %self.module, pid = process.number(), %ending, again, "ended");
        let restarts = self.restarts.unwrap_or(0);
        let report =
            |state| board::idle(&workload.release, state, restarts, Some(ending.to_string()));
        if again {
            let wait = self.wait(lived);
            self.board.set(&self.module, report(ModuleState::Backoff));
            return Doing::Wait(wait);
        }
        self.board.set(&self.module, report(ModuleState::Ended));
        let record = Record {
            workload,
            restarts,
            at: (self.host.config.now)(),
            phase: Phase::Ended {
                reason: ending.to_string(),
            },
        };
        if let Err(unwritten) = self.host.write(&record) {
            warn!(module = %self.module, reason = %unwritten, "its end is not on disk; a later agent will not know how it ended");
        }
        Doing::Rest
    }

    /// How long to wait now that it ended after it `lived`.
    fn wait(&mut self, lived: Duration) -> Duration {
        let config = &self.host.config;
        self.ends = config.pace.ends(self.ends, lived);
        config.pace.wait(self.ends, config.seed, &self.module)
    }

    async fn stop(&self, mut process: Process, gone: oneshot::Sender<Result<(), RuntimeError>>) {
        let grace = self.host.config.pace.grace;
        if let Err(left) = process.stop(&self.module, grace).await {
            // Nobody waits when the runtime ends; here as below.
            drop(gone.send(Err(left)));
            return process.outlast().await;
        }
        let ending = process.reap();
        info!(module = %self.module, pid = process.number(), %ending, "stopped");
        drop(gone.send(self.host.forget(&self.module)));
    }
}

/// Ends whatever is left of `processes`, which nobody supervises, and forgets their instance.
pub(crate) async fn discard(
    host: &Host,
    module: &ModuleName,
    processes: Vec<Identity>,
) -> Result<(), RuntimeError> {
    for identity in processes {
        let process = Process::adopt(identity, host.marks_of(module));
        process.stop(module, host.config.pace.grace).await?;
        info!(%module, pid = process.number(), "stopped");
    }
    host.forget(module)
}

/// Keeps an instance's log from growing without bound, for as long as it is polled.
async fn bound_log(host: &Arc<Host>, module: &ModuleName) -> Infallible {
    loop {
        sleep(LOG_LOOK).await;
        let (host, module) = (Arc::clone(host), module.clone());
        let bound = move || match host.bound_log(&module) {
            Ok(()) => {}
            Err(refused) => warn!(%module, %refused, "its log grows"),
        };
        // It fails only when the runtime ends.
        drop(tokio::task::spawn_blocking(bound).await);
    }
}

/// How often the length of a log is looked at: nothing tells when it is reached.
const LOG_LOOK: Duration = Duration::from_secs(2);

/// Returns once a stop was asked for; never, when the runtime ends instead.
async fn asked(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Why an instance was not started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Host(#[from] RuntimeError),
    #[error("{}", program_reason(.program, .source))]
    Program { program: String, source: io::Error },
}

fn program_reason(program: &str, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => format!(
            "program {program:?} was not found, or the interpreter its first line names; install it or correct the \
             command"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("program {program:?} may not be executed; set its mode or correct the command")
        }
        _ => format!("program {program:?} could not be started: {source}"),
    }
}

/// Starts a process such that at no moment it is unknown to the next agent: its mark is on disk before it exists.
fn start_recorded(host: &Host, desired: &Desired, restarts: u32) -> Result<Started, StartError> {
    let module = desired.module();
    let mark = host.new_mark(module)?;
    let mut record = Record {
        workload: desired.workload.clone(),
        restarts,
        at: (host.config.now)(),
        phase: Phase::Starting { mark: mark.clone() },
    };
    host.write(&record)?;
    let log = host.open_log(module)?;
    let files = host.make_files(module)?;
    let started = process::start(host, desired, &mark, &files, log).map_err(|source| {
        let program = desired
            .workload
            .run
            .argv()
            .next()
            .unwrap_or_default()
            .to_owned();
        StartError::Program { program, source }
    })?;
    record.phase = Phase::Running(started.identity);
    match host.write(&record) {
        Ok(()) => Ok(started),
        Err(unwritten) => {
            started.abandon();
            Err(unwritten.into())
        }
    }
}

impl Doing {
    /// What an instance is doing that an earlier agent left in `phase`, and that is to be kept.
    /// `mark` is how its marks begin.
    pub(crate) fn adopted(phase: &Phase, mark: String) -> (Self, Option<String>) {
        match phase {
            Phase::Running(process) => (Self::Watch(Process::adopt(*process, mark)), None),
            Phase::Ended { reason } => (Self::Rest, Some(reason.clone())),
            Phase::Gone => (Self::Rest, Some(Ending::Unknown.to_string())),
            Phase::Starting { .. } => (Self::Start, None),
        }
    }
}
