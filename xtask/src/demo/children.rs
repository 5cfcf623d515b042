//! Processes the demo started: known by pid, ended by pid.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::clock::{Stopwatch, pause};

/// A service of the demo, with its log.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts a program whose output goes to a log file.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("log {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(15);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// An error if it has ended by itself.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.last_words()),
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self, patience: Duration) -> Result<()> {
        signal(self.child.id(), Signal::TERM);
        let watch = Stopwatch::start();
        while self.child.try_wait()?.is_none() {
            if watch.elapsed() > patience {
                self.kill();
                bail!(
                    "{} did not end when asked to:\n{}",
                    self.name,
                    self.last_words()
                );
            }
            pause(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Sends a signal to a process the demo knows; one that is gone is no error.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = known(pid) {
        let _gone = kill_process(pid, signal);
    }
}

/// Whether a process is there.
pub(crate) fn alive(pid: u32) -> bool {
    known(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn known(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}
