//! What `/proc` says of processes: which one a number means, who is in a group, who carries a mark.

use std::io;
use std::path::Path;
use std::{fs, str};

use rustix::process::Pid;

/// One process for as long as the host runs: its number, and when it started in ticks since boot, since numbers are used
/// again (`proc_pid_stat(5)`, field 22).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: Pid,
    pub(crate) start: u64,
}

impl Identity {
    /// The process that has this number now.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let start = stat(pid)?.start;
        Some(Self { pid, start })
    }

    /// The number as reports carry it.
    pub(crate) fn number(self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether it runs. One that waits to be reaped does not.
    pub(crate) fn runs(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.runs())
    }

    /// Whether its group has anyone left who runs, itself or what it started.
    ///
    /// A leader that started at another time is somebody else's process, and so is the group. A group without a leader
    /// may be what a stranger left who had the number in between: it is its own only if somebody in it carries a mark
    /// that begins with `mark`.
    pub(crate) fn group_runs(self, mark: &str) -> bool {
        match stat(self.pid) {
            Some(leader) => leader.start == self.start && self.members().next().is_some(),
            // Twice: one that is just becoming another program shows no mark.
            None => (0..2).any(|_| self.members().any(|pid| bears(pid, mark))),
        }
    }

    fn members(self) -> impl Iterator<Item = Pid> {
        all().filter(move |pid| {
            stat(*pid).is_some_and(|stat| stat.group == Some(self.pid) && stat.runs())
        })
    }
}

/// The process of that number. `Pid` panics at a negative one, and the kernel says -1 for the group of a process that is
/// just being reaped.
pub(crate) fn numbered(number: i32) -> Option<Pid> {
    (number > 0).then(|| Pid::from_raw(number)).flatten()
}

struct Stat {
    state: u8,
    group: Option<Pid>,
    start: u64,
}

impl Stat {
    const fn runs(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn stat(pid: Pid) -> Option<Stat> {
    parse(&fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// The second field is the program's own choice of name, parentheses and spaces included; what follows the last
/// parenthesis is the kernel's.
fn parse(line: &[u8]) -> Option<Stat> {
    let rest = line.rsplit(|byte| *byte == b')').next()?;
    let mut fields = str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let group = numbered(fields.nth(1)?.parse().ok()?);
    let start = fields.nth(16)?.parse().ok()?;
    Some(Stat {
        state,
        group,
        start,
    })
}

fn all() -> impl Iterator<Item = Pid> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(numbered)
}

/// The processes that lead a group and were given `MARK=<prefix>..`, with the whole mark, earliest first.
///
/// Children inherit the mark; whoever leads a group and is the earliest is the one that was started with it.
pub(crate) fn marked(prefix: &str) -> Vec<(String, Identity)> {
    let mut found: Vec<_> = all()
        .filter_map(|pid| {
            let stat = stat(pid)?;
            let leads = stat.group == Some(pid) && stat.runs();
            let mark = leads.then(|| mark_of(pid))??;
            let start = stat.start;
            mark.starts_with(prefix)
                .then_some((mark, Identity { pid, start }))
        })
        .collect();
    found.sort_by_key(|(_, process)| (process.start, process.number()));
    found
}

fn bears(pid: Pid, prefix: &str) -> bool {
    mark_of(pid).is_some_and(|mark| mark.starts_with(prefix))
}

fn mark_of(pid: Pid) -> Option<String> {
    let environ = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    let mark = environ.split(|byte| *byte == 0).find_map(|pair| {
        pair.strip_prefix(MARK.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
    })?;
    Some(str::from_utf8(mark).ok()?.to_owned())
}

/// Which run of the kernel this is; process numbers and start times mean nothing in another.
pub(crate) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string(BOOT_ID)?.trim().to_owned())
}

/// A text nobody had before (`random(4)`).
pub(crate) fn unique() -> io::Result<String> {
    Ok(fs::read_to_string(UUID)?.trim().to_owned())
}

/// Where [`boot`] reads.
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Where [`unique`] reads.
pub(crate) const UUID: &str = "/proc/sys/kernel/random/uuid";
/// The variable that says which start of which instance a process is.
pub(crate) const MARK: &str = "MESH_INSTANCE";

/// The path as an error names it.
pub(crate) fn path(text: &'static str) -> &'static Path {
    Path::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_cannot_forge_its_start_time_by_its_name() {
        let line = b"42 (a) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 99) S 1 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 \
                     1234 5 6";
        let stat = parse(line).unwrap();
        assert_eq!((stat.state, stat.start), (b'S', 1234));
        assert_eq!(stat.group, Pid::from_raw(42));
    }

    #[test]
    fn a_process_that_is_being_reaped_is_in_no_group() {
        let stat = parse(b"42 (a) X 0 -1 -1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 1234 5 6").unwrap();
        assert_eq!((stat.group, stat.runs()), (None, false));
    }

    #[test]
    fn what_is_no_stat_line_names_no_process() {
        for line in [
            "",
            ")",
            "1 (x)",
            "1 (x) S 1",
            "1 (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 x",
        ] {
            assert!(parse(line.as_bytes()).is_none(), "{line:?}");
        }
    }

    #[test]
    fn this_process_runs_and_one_of_another_start_does_not() {
        let own = Identity::of(rustix::process::getpid()).unwrap();
        assert!(own.runs());
        let other = Identity {
            start: own.start + 1,
            ..own
        };
        assert!(!other.runs());
        assert!(!other.group_runs(""));
    }
}
