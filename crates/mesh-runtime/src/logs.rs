//! What a module said, line by line: its last lines, and what it goes on to say.

use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How much of a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// So many of the last lines.
    pub lines: usize,
    /// And what is said from then on, until nobody listens.
    pub follow: bool,
}

/// One line of a log, without its end. A line of more than [`LogLine::LIMIT`] bytes comes in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// What was said, byte for byte: it need not be text.
    pub bytes: Vec<u8>,
}

impl LogLine {
    /// Bytes of a log in one line at most.
    pub const LIMIT: usize = 8 * 1024;
}

/// A log that cannot be read, or not further: there may be more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log cannot be read further: {why}")]
pub struct LogBroken {
    /// Why.
    pub why: String,
}

/// The lines of a log as they come. Reading stops when this is dropped.
#[derive(Debug)]
pub struct Logs {
    lines: mpsc::Receiver<Result<LogLine, LogBroken>>,
    _reader: JoinSet<()>,
}

/// Lines that are read ahead of whoever listens.
const AHEAD: usize = 64;

impl Logs {
    /// The next line; nothing when there are no more, and none are waited for. After one that is none nothing comes.
    pub async fn next(&mut self) -> Option<Result<LogLine, LogBroken>> {
        self.lines.recv().await
    }

    /// Whatever `read` says, until it ends or nobody listens.
    pub(crate) fn of<R, F>(read: R) -> Self
    where
        R: FnOnce(Lines) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let (say, lines) = mpsc::channel(AHEAD);
        let mut reader = JoinSet::new();
        reader.spawn(read(Lines {
            say,
            rest: Vec::new(),
            full: false,
        }));
        Self {
            lines,
            _reader: reader,
        }
    }

    /// The log at `path`, and before it what was put aside of it.
    pub(crate) fn file(path: PathBuf, aside: PathBuf, tail: Tail) -> Self {
        Self::of(move |mut lines| async move {
            if let Err(error) = read(&path, &aside, tail, &mut lines).await {
                lines.broken(error.to_string()).await;
            }
            lines.finish().await;
        })
    }
}

/// Makes lines of bytes. Everything here says whether somebody still listens.
#[derive(Debug)]
pub(crate) struct Lines {
    say: mpsc::Sender<Result<LogLine, LogBroken>>,
    rest: Vec<u8>,
    /// What was said last was as long as a line may be, and had no end yet.
    full: bool,
}

impl Lines {
    /// Takes bytes, of any number of lines.
    pub(crate) async fn push(&mut self, mut bytes: &[u8]) -> bool {
        while let Some(first) = bytes.first() {
            // The end of a line that is said already, since it was full, is not a line of its own.
            let ends_full = std::mem::take(&mut self.full) && *first == b'\n';
            if ends_full {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let room = LogLine::LIMIT.saturating_sub(self.rest.len());
            let near = bytes.get(..room).unwrap_or(bytes);
            let end = near.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(near.len());
            let (head, tail) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
            self.rest.extend_from_slice(head);
            bytes = if end.is_some() {
                tail.get(1..).unwrap_or_default()
            } else {
                tail
            };
            self.full = end.is_none() && self.rest.len() >= LogLine::LIMIT;
            if (end.is_some() || self.full) && !self.line().await {
                return false;
            }
        }
        !self.say.is_closed()
    }

    /// Says the last line, if it has no end.
    pub(crate) async fn finish(&mut self) -> bool {
        self.full = false;
        self.rest.is_empty() || self.line().await
    }

    /// Says the last line, and that there may be more.
    pub(crate) async fn broken(&mut self, why: String) {
        // Who does not listen any more need not know.
        if self.finish().await {
            drop(self.say.send(Err(LogBroken { why })).await);
        }
    }

    async fn line(&mut self) -> bool {
        let mut bytes = std::mem::take(&mut self.rest);
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        self.say.send(Ok(LogLine { bytes })).await.is_ok()
    }

    pub(crate) async fn unheard(&self) {
        self.say.closed().await;
    }
}

async fn read(path: &Path, aside: &Path, tail: Tail, lines: &mut Lines) -> io::Result<()> {
    let (mut at, found) = match open(path).await? {
        Some(mut log) => last(&mut log, tail.lines).await?,
        None => (0, 0),
    };
    if found < tail.lines
        && let Some(mut log) = open(aside).await?
    {
        let (from, _) = last(&mut log, tail.lines.saturating_sub(found)).await?;
        say(&mut log, from, lines).await?;
    }
    loop {
        if let Some(mut log) = open(path).await? {
            if log.metadata().await?.len() < at {
                // It was put aside, and begins anew.
                at = 0;
            }
            at = say(&mut log, at, lines).await?;
        }
        if !tail.follow {
            return Ok(());
        }
        tokio::select! {
            () = lines.unheard() => return Ok(()),
            () = sleep(LOOK) => {}
        }
    }
}

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The log, where there is one.
async fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path).await {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Says everything from `at` on; the answer is where that ends.
async fn say(log: &mut File, mut at: u64, lines: &mut Lines) -> io::Result<u64> {
    log.seek(SeekFrom::Start(at)).await?;
    let mut block = vec![0; BLOCK];
    loop {
        let read = log.read(&mut block).await?;
        let Some(bytes) = block.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(at);
        };
        at = at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        if !lines.push(bytes).await {
            return Ok(at);
        }
    }
}

/// Bytes that are read at once.
const BLOCK: usize = 16 * 1024;

/// Where the last `wanted` lines of a log begin, and how many there are. What comes after the last end of a line is one,
/// too.
async fn last(log: &mut File, wanted: usize) -> io::Result<(u64, usize)> {
    let length = log.metadata().await?.len();
    let mut block = vec![0; BLOCK];
    let mut from = length;
    let mut found = 0;
    while from > 0 {
        let step = from.min(u64::try_from(BLOCK).unwrap_or(u64::MAX));
        from = from.saturating_sub(step);
        log.seek(SeekFrom::Start(from)).await?;
        let part = block.get_mut(..usize::try_from(step).unwrap_or(BLOCK));
        let part = part.unwrap_or_default();
        log.read_exact(part).await?;
        for (index, byte) in part.iter().enumerate().rev() {
            let next = from
                .saturating_add(u64::try_from(index).unwrap_or(u64::MAX))
                .saturating_add(1);
            // The end of the log's last line begins no other.
            if *byte == b'\n' && next < length {
                found += 1;
                if found >= wanted {
                    return Ok((next, found));
                }
            }
            if wanted == 0 {
                return Ok((length, 0));
            }
        }
    }
    Ok((0, found + usize::from(length > 0)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use tokio::time::timeout;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(10);

    struct Place(tempfile::TempDir);

    impl Place {
        fn with(aside: Option<&str>, log: Option<&str>) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in [("log.1", aside), ("log", log)] {
                if let Some(text) = text {
                    fs::write(dir.path().join(name), text).unwrap();
                }
            }
            Self(dir)
        }

        fn logs(&self, lines: usize, follow: bool) -> Logs {
            let path = self.0.path();
            Logs::file(path.join("log"), path.join("log.1"), Tail { lines, follow })
        }

        fn append(&self, text: &str) {
            let log = fs::OpenOptions::new()
                .append(true)
                .open(self.0.path().join("log"));
            log.unwrap().write_all(text.as_bytes()).unwrap();
        }
    }

    async fn next(logs: &mut Logs) -> Option<String> {
        let line = timeout(DEADLINE, logs.next()).await.expect("a line");
        line.map(|line| String::from_utf8(line.unwrap().bytes).unwrap())
    }

    async fn all(mut logs: Logs) -> Vec<String> {
        let mut all = vec![];
        while let Some(line) = next(&mut logs).await {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn the_last_lines_are_said_and_those_put_aside_before_them() {
        for (aside, log, wanted, expected) in [
            (None, None, 10, &[][..]),
            (None, Some(""), 10, &[]),
            (None, Some("a\nb\nc\n"), 2, &["b", "c"]),
            (None, Some("a\nb\nc"), 2, &["b", "c"]),
            (None, Some("a\n\n\n"), 2, &["", ""]),
            (None, Some("a\nb\n"), 0, &[]),
            (None, Some("a\r\nb\r\n"), 9, &["a", "b"]),
            (Some("a\nb\n"), Some("c\n"), 2, &["b", "c"]),
            (Some("a\nb\n"), Some("c\n"), 1, &["c"]),
            (Some("a\nb\n"), Some("c\n"), 3, &["a", "b", "c"]),
            (Some("a\nb\n"), None, 1, &["b"]),
            (Some("a\n"), Some(""), 9, &["a"]),
        ] {
            let place = Place::with(aside, log);
            let said = all(place.logs(wanted, false)).await;
            assert_eq!(said, expected, "{wanted} of {aside:?} {log:?}");
        }
    }

    #[tokio::test]
    async fn many_lines_are_counted_across_blocks_and_a_long_one_comes_in_pieces() {
        let long = "x".repeat(LogLine::LIMIT);
        let text: Vec<_> = (0..5_000).map(|n| format!("line {n}\n")).collect();
        let text = text.concat();
        let place = Place::with(None, Some(&format!("{text}{long}\n{long}y\n")));
        let said = all(place.logs(4_002, false)).await;
        assert_eq!(said.len(), 4_003);
        assert_eq!(said[0], "line 1000");
        assert_eq!(said[4_000..], [long.clone(), long, "y".to_owned()]);
    }

    #[tokio::test]
    async fn what_is_said_later_follows_also_once_the_log_was_put_aside() {
        let place = Place::with(None, Some("a\nb\n"));
        let mut logs = place.logs(1, true);
        assert_eq!(next(&mut logs).await.as_deref(), Some("b"));
        place.append("c\nhal");
        assert_eq!(next(&mut logs).await.as_deref(), Some("c"));
        place.append("f\n");
        assert_eq!(next(&mut logs).await.as_deref(), Some("half"));
        fs::write(place.0.path().join("log"), "").unwrap();
        place.append("new\n");
        assert_eq!(next(&mut logs).await.as_deref(), Some("new"));
    }

    async fn in_parts(mut lines: Lines, bytes: Vec<u8>, parted: usize) {
        for part in bytes.chunks(parted) {
            lines.push(part).await;
        }
        lines.finish().await;
    }

    #[tokio::test]
    async fn where_bytes_are_parted_makes_no_line() {
        let long = "x".repeat(LogLine::LIMIT);
        let text = format!("a\n\n{long}\nb\n{long}y\n");
        let expected = ["a", "", &long, "b", &long, "y"];
        let say = |parted| {
            let bytes = text.clone().into_bytes();
            Logs::of(move |lines| in_parts(lines, bytes, parted))
        };
        for parted in [1, 7, LogLine::LIMIT, text.len()] {
            let logs = say(parted);
            assert_eq!(all(logs).await, expected, "{parted}");
        }
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_said_as_they_are() {
        let place = Place::with(None, None);
        fs::write(place.0.path().join("log"), b"a\xffb\x1b[1m\n").unwrap();
        let mut logs = place.logs(1, false);
        let said = timeout(DEADLINE, logs.next()).await.unwrap().unwrap();
        assert_eq!(said.unwrap().bytes, b"a\xffb\x1b[1m");
    }
}
