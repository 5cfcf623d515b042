//! An instance is started, such that no agent ever loses what was started.

use std::io;
use std::sync::Arc;

use mesh_control::convergence::{Input, fallback};
use tokio::time::{Duration, Instant};
use tracing::{info, warn};

use super::{Doing, Instance, Pending};
use crate::host::Host;
use crate::process::{self, Process, Started};
use crate::record::{Phase, Record};
use crate::{Desired, RuntimeError};

impl Instance {
    /// Starts again what ended.
    pub(super) async fn start_again(&mut self) {
        if let Some(record) = &self.record {
            let next = self.again(record);
            self.launch(next).await;
        }
    }

    /// What is started now in place of what ended: the same, as who it is by now.
    pub(super) fn again(&self, record: &Record) -> Record {
        let mut next = record.clone();
        if let Some(desired) = &self.current.desired {
            let wanted = &desired.workload;
            let same = self.pending == Pending::No && !record.rejects(wanted);
            if same {
                next.workload = wanted.clone();
            } else if let Some(today) = fallback(&record.workload, wanted) {
                next.workload = today;
            }
        }
        if self.row.started {
            next.restarts = next.restarts.saturating_add(1);
        }
        next
    }

    /// Starts what `record` says; nothing of it runs.
    pub(super) async fn launch(&mut self, record: Record) {
        let Some(desired) = &self.current.desired else {
            return;
        };
        let desired = Desired {
            workload: record.workload.clone(),
            ..desired.clone()
        };
        if self.vitals.is_none() {
            self.vitals = Some(self.trial(&record.workload));
        }
        let restarts = record.restarts;
        let host = Arc::clone(&self.around.host);
        let recorded = record.clone();
        let started =
            tokio::task::spawn_blocking(move || start_recorded(&host, &desired, recorded))
                .await
                .unwrap_or(Err(StartError::Host(RuntimeError::Closed)));
        match started {
            Ok((started, record)) => {
                let marks = self.around.host.marks_of(&self.module);
                let process = Process::own(started, marks);
                info!(module = %self.module, pid = process.number(), restarts, "started");
                self.record = Some(record);
                self.row.started = true;
                self.row.cannot_start = false;
                self.doing = Doing::Watch(Box::new(process), Instant::now());
                self.heard(Input::Started).await;
                self.show();
            }
            Err(refused) => {
                // It is counted once it comes to be.
                let restarts = restarts.saturating_sub(u32::from(self.row.started));
                self.record = Some(Record { restarts, ..record });
                self.not_started(refused).await;
            }
        }
    }

    async fn not_started(&mut self, refused: StartError) {
        let reason = refused.to_string();
        warn!(module = %self.module, reason, "could not be started");
        self.row.cannot_start = true;
        self.doing = Doing::Wait(Instant::now() + self.wait(Duration::ZERO));
        self.row.trouble = Some(reason.clone());
        match refused {
            // That is not its fault, and says nothing of it.
            StartError::Host(refused) => {
                self.row.gave_up = true;
                self.show();
                self.settle(Some(refused));
            }
            StartError::Program { .. } => {
                self.heard(Input::NotStarted(reason)).await;
                self.show();
            }
        }
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
fn start_recorded(
    host: &Host,
    desired: &Desired,
    mut record: Record,
) -> Result<(Started, Record), StartError> {
    let module = desired.module();
    let mark = host.new_mark(module)?;
    record.at = (host.config.now)();
    record.phase = Phase::Starting { mark: mark.clone() };
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
        Ok(()) => Ok((started, record)),
        Err(unwritten) => {
            started.abandon();
            Err(unwritten.into())
        }
    }
}
