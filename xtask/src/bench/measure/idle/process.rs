//! What a process holds and has used, as Linux tells it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// What a process holds, and what it used of a time.
pub(super) struct Taken {
    /// Kibibytes of memory, with all it shares.
    pub(super) resident: f64,
    /// Kibibytes that are in no file: what it asked for itself, and nobody else can have meanwhile.
    pub(super) private: f64,
    /// Kibibytes with what is shared counted in parts; nothing where that is not told.
    pub(super) share: Option<f64>,
    /// Microseconds of a processor a second.
    pub(super) processor: f64,
}

impl Taken {
    /// What a process holds now, and what it used since, `time` ago, it had used `before`.
    pub(super) fn since(before: Duration, pid: u32, time: Duration) -> Result<Self> {
        let used = used(pid)?.saturating_sub(before);
        let status = read(pid, "status")?;
        let resident = kibibytes(&status, "VmRSS:").context("resident memory is told")?;
        let private = kibibytes(&status, "RssAnon:").context("private memory is told")?;
        let rollup = read(pid, "smaps_rollup").ok();
        Ok(Self {
            resident,
            private,
            share: rollup.and_then(|rollup| kibibytes(&rollup, "Pss:")),
            processor: used.as_secs_f64() * 1e6 / time.as_secs_f64(),
        })
    }
}

/// Processor time a process has used, of threads that ended as well.
pub(super) fn used(pid: u32) -> Result<Duration> {
    ticks(&read(pid, "stat")?)
        .map(|ticks| TICK * ticks)
        .with_context(|| format!("processor time of process {pid} is told"))
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("reading {path}"))
}

/// The number behind a word at the beginning of a line.
fn kibibytes(text: &str, word: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The time in user mode and in the kernel, fields 14 and 15. The second field is the program's name in brackets, which
/// may have spaces and brackets in it.
fn ticks(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let kernel: u32 = fields.next()?.parse().ok()?;
    user.checked_add(kernel)
}

/// What Linux tells programs of time in, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_of_a_process_is_read() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194560 100 0 0 0 12 34 0 0 20 0 3 0 99 1000 200";
        assert_eq!(ticks(stat), Some(46));
        assert_eq!(ticks("7 (a) S 1"), None);
        let status = "Name:\ta\nVmHWM:\t  999 kB\nVmRSS:\t  5632 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(5632.0));
        assert_eq!(kibibytes(status, "Pss:"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_holds_and_uses_something() {
        let taken = Taken::since(Duration::ZERO, std::process::id(), Duration::from_secs(1));
        let taken = taken.unwrap();
        assert!(taken.resident > 100.0);
        assert!(taken.share.is_none_or(|share| share <= taken.resident));
    }
}
