//! A program that runs, known by its process, and one that ran, known by what it said.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::patience::eventually;

/// A program that runs. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Service {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts it, with what it says at the end of a file.
    pub(super) fn start(name: &str, mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let file: File = OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it said, in this life and those before.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// An error if it ended.
    pub(super) fn must_run(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, tail(&self.log())),
        }
    }

    /// Kills it, as a crash would.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and waits until it has, which has to be a good end.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid())?;
        let pid = Pid::from_raw(pid).context("a process has a number")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.end().await?;
        let log = self.log();
        ensure!(
            status.success(),
            "{} ended with {status}:\n{}",
            self.name,
            tail(&log)
        );
        Ok(())
    }

    /// Waits until it ended by itself.
    pub(super) async fn end(&mut self) -> anyhow::Result<ExitStatus> {
        let mut ended = None;
        let what = format!("{} ends", self.name);
        eventually(ENDED_WITHIN, &what, async || {
            ended = self.child.try_wait()?;
            Ok(ended.is_some())
        })
        .await?;
        ended.context("it ended")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.kill();
    }
}

/// What a program that ran to its end said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What it ended with; nothing if a signal ended it.
    pub code: Option<i32>,
    /// Its data.
    pub out: String,
    /// Everything else.
    pub err: String,
}

impl Said {
    /// Its data, if it went well.
    pub fn ok(self) -> anyhow::Result<String> {
        ensure!(self.code == Some(0), "ended with {self:?}");
        Ok(self.out)
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// The end of a log.
pub(super) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(25);
    lines.get(from..).unwrap_or_default().join("\n")
}

const ENDED_WITHIN: Duration = Duration::from_mins(1);
