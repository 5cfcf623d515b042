//! One process: started in a group of its own, waited for, ended. Ours or adopted, it is the same from outside.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mesh_model::{ModuleName, Run, Workload};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::ending::Ending;
use crate::host::Host;
use crate::proc::{Identity, MARK, numbered};
use crate::{Desired, RuntimeError};

/// A process that was started here, before anybody watches it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) identity: Identity,
    child: Child,
}

impl Started {
    /// Ends it at once: nothing may run that is not on record.
    pub(crate) fn abandon(mut self) {
        for outcome in [
            kill_process_group(self.identity.pid, Signal::KILL).map_err(io::Error::from),
            self.child.wait().map(drop),
        ] {
            if let Err(refused) = outcome {
                warn!(pid = self.identity.number(), %refused, "could not be ended");
            }
        }
    }
}

/// Starts the program of `desired`, marked. In a group of its own, so that no signal meant for the agent reaches it, and
/// with its output in a file, so that it needs no agent to read a pipe.
///
/// It works in a directory of its own: where the agent happened to be started is no place to write to.
pub(crate) fn start(
    host: &Host,
    desired: &Desired,
    mark: &str,
    files: &Path,
    log: File,
) -> io::Result<Started> {
    let Run::Command { program, args } = &desired.workload.run else {
        let what = "an image is run by a container engine, and this runtime runs plain processes";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    };
    let mut child = Command::new(program)
        .args(args)
        .current_dir(files)
        .env_clear()
        .envs(environment(host, &desired.workload, &desired.extra_env))
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(numbered);
    if let Some(identity) = pid.and_then(Identity::of) {
        return Ok(Started { identity, child });
    }
    // A child that was not waited for is in `/proc`, so this is a host whose `/proc` went away.
    child.kill()?;
    child.wait()?;
    Err(io::Error::other("the started process is not in /proc"))
}

/// What a process of `workload` is told: of the agent's environment what every program may need, what was declared, and what
/// the agent adds.
pub(crate) fn environment<'a>(
    host: &'a Host,
    workload: &'a Workload,
    added: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let base = host.config.base_env.iter();
    base.filter(|(name, _)| BASE_ENV.contains(&name.as_str()))
        .chain(&workload.env)
        .chain(added)
        .map(|(name, value)| (name.as_str(), value.as_str()))
}

/// A process that is watched.
#[derive(Debug)]
pub(crate) struct Process {
    identity: Identity,
    /// How the marks of its instance begin.
    mark: String,
    /// Only of one started here; the status of any other is its parent's to know.
    child: Option<Child>,
    /// Becomes readable when it ends; nothing on a kernel that has none, or when it has ended already.
    end: Option<AsyncFd<OwnedFd>>,
}

impl Process {
    /// One that was found; `mark` is how the marks of its instance begin.
    pub(crate) fn adopt(identity: Identity, mark: String) -> Self {
        // The order matters: what is verified after it was opened is what was opened.
        let end = pidfd_open(identity.pid, PidfdFlags::NONBLOCK)
            .ok()
            .filter(|_| identity.runs())
            .and_then(|fd| watch(fd).ok());
        Self {
            identity,
            mark,
            child: None,
            end,
        }
    }

    pub(crate) fn own(started: Started, mark: String) -> Self {
        Self {
            child: Some(started.child),
            ..Self::adopt(started.identity, mark)
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.identity.number()
    }

    /// Waits until it has ended. It is not reaped: until it is, its number names nobody else.
    pub(crate) async fn ended(&self) {
        match &self.end {
            Some(end) => {
                // An error says the runtime ends, and with it this wait.
                drop(end.readable().await);
            }
            None => {
                while self.identity.runs() {
                    sleep(POLL).await;
                }
            }
        }
    }

    /// How it ended; to be asked once it has.
    pub(crate) fn reap(&mut self) -> Ending {
        self.child
            .as_mut()
            .and_then(|child| child.wait().ok())
            .map_or(Ending::Unknown, Ending::from)
    }

    /// Ends it and whatever is left of its group: asked first, then not.
    pub(crate) async fn stop(
        &self,
        module: &ModuleName,
        grace: Duration,
    ) -> Result<(), RuntimeError> {
        for signal in [Signal::TERM, Signal::KILL] {
            self.signal(signal).map_err(|source| RuntimeError::Signal {
                module: module.clone(),
                pid: self.number(),
                source: source.into(),
            })?;
            if timeout(grace, self.group_ended()).await.is_ok() {
                return Ok(());
            }
        }
        Err(RuntimeError::Unkillable {
            module: module.clone(),
            pid: self.number(),
            waited_ms: grace.as_millis(),
        })
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        // Never to a group that is not, or no longer, its own.
        if !self.group_runs() {
            return Ok(());
        }
        match kill_process_group(self.identity.pid, signal) {
            Err(Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }

    async fn group_ended(&self) {
        self.ended().await;
        while self.group_runs() {
            sleep(LEFTOVERS_POLL).await;
        }
    }

    fn group_runs(&self) -> bool {
        self.identity.group_runs(&self.mark)
    }
}

#[expect(
    deprecated,
    reason = "its successor is `unsafe` for descriptors that may be closed elsewhere; an `OwnedFd` may not, and it is \
              moved in here and never taken out"
)]
fn watch(end: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(end, Interest::READABLE)
}

/// What of the agent's environment every program may need and none is a secret.
const BASE_ENV: [&str; 4] = ["HOME", "LANG", "PATH", "TZ"];
/// How often a process is looked at that cannot be waited for.
const POLL: Duration = Duration::from_millis(500);
/// How often a group is looked at whose leader has ended; nothing tells when the last of it has.
const LEFTOVERS_POLL: Duration = Duration::from_millis(20);
