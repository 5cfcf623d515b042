//! Processes as the kernel shows them, and the end of every one that belongs to a folder.

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process, with the environment it was started with.
#[derive(Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    command: Vec<u8>,
    environment: Vec<u8>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = String::from_utf8_lossy(&self.command).replace('\0', " ");
        write!(f, "{} ({})", self.pid, command.trim_end())
    }
}

impl Process {
    /// What it was started with under this name.
    pub fn variable(&self, name: &str) -> Option<String> {
        let mut pairs = self.environment.split(|byte| *byte == 0);
        let value = pairs.find_map(|pair| {
            pair.strip_prefix(name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="))
        })?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// One that ended and was not waited for has neither command nor environment, and is none.
    fn read(pid: u32) -> Option<Self> {
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        (!command.is_empty()).then_some(Self {
            pid,
            command,
            environment,
        })
    }

    fn names(&self, folder: &[u8]) -> bool {
        let has = |text: &[u8]| text.windows(folder.len()).any(|window| window == folder);
        has(&self.command) || has(&self.environment)
    }
}

/// Every process whose command or environment names the folder. A temporary folder's name is nobody else's.
pub(super) fn of(folder: &Path) -> Vec<Process> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter_map(Process::read)
        .filter(|process| process.names(folder))
        .collect()
}

/// Ends every process of a folder. One may start another between the look and the signal, so it is looked again.
pub(super) fn end(folder: &Path) {
    for _ in 0..LOOKS {
        let found = of(folder);
        if found.is_empty() {
            return;
        }
        found.iter().for_each(kill);
        std::thread::yield_now();
    }
}

/// Ends a process at once.
pub(super) fn kill(process: &Process) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended already; then there is nothing to end.
        let _gone = kill_process(pid, Signal::KILL);
    }
}

/// Killing takes the kernel a moment.
const LOOKS: usize = 1_000;
