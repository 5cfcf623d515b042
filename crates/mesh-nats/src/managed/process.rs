//! A process that may be no child of ours: known by its id and by when it began, since ids are used again.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// Which process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// Clock ticks from the machine's start to its own (field 22 of `/proc/<pid>/stat`, proc(5)).
    pub(crate) started: u64,
}

impl ProcessId {
    /// The process that has this id now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let (state, started) = stat(pid)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, started })
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Waits until it runs no more.
    pub(crate) async fn ended(self) {
        while self.is_alive() {
            sleep(LOOK_EACH).await;
        }
    }

    /// Asks it to end, and kills it after `patience`; whether it had to be killed.
    pub(crate) async fn end(self, patience: Duration) -> bool {
        self.signal(Signal::TERM);
        let until = Instant::now() + patience;
        if tokio::time::timeout_at(until, self.ended()).await.is_ok() {
            return false;
        }
        self.signal(Signal::KILL);
        self.ended().await;
        true
    }

    fn signal(self, signal: Signal) {
        // Between the look and the signal the id could only pass on if all ids were used up meanwhile.
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive())
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::warn!(pid = self.pid, %error, "the server could not be signalled");
        }
    }
}

fn stat(pid: i32) -> Option<(char, u64)> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    parse_stat(&std::fs::read_to_string(path).ok()?)
}

/// State (field 3) and start (field 22). The name before them may hold anything, a closing bracket too.
fn parse_stat(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some((state, started))
}

const LOOK_EACH: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_hides_nothing() {
        let text = "42 (a) b) S 1 42 42 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 9 0 987654 1 1";
        assert_eq!(parse_stat(text), Some(('S', 987_654)));
        assert_eq!(parse_stat("42 (a"), None);
    }

    #[test]
    fn another_process_with_the_same_id_is_another_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = ProcessId::of(pid).unwrap();
        assert!(own.is_alive());
        let other = ProcessId {
            started: own.started + 1,
            ..own
        };
        assert!(!other.is_alive());
    }
}
