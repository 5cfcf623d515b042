//! How far the log of a container was read, by the times its engine gives what is said.

use std::time::{Duration, UNIX_EPOCH};

/// How far a log was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The latest time of what was read, since 1970.
    at: Duration,
    /// How much of this time was read: some engines tell times by the second.
    read: u64,
}

impl Mark {
    /// Whatever is said from this time on was not read.
    pub(crate) const fn before(at: Duration) -> Self {
        Self { at, read: 0 }
    }

    /// Whether nothing was read.
    pub(crate) const fn is_none(&self) -> bool {
        self.at.is_zero()
    }

    /// From which second on there is more.
    pub(crate) fn since(&self) -> i32 {
        i32::try_from(self.at.as_secs()).unwrap_or_default()
    }

    /// Something of this time was read. What was said on two ways may come out of order.
    pub(crate) fn note(&mut self, at: Duration) {
        if at > self.at {
            *self = Self { at, read: 1 };
        } else if at == self.at {
            self.read = self.read.saturating_add(1);
        }
    }

    /// For when the log is read again.
    pub(crate) const fn again(self) -> Again {
        Again(self)
    }
}

/// What of a log that is read again was read before.
#[derive(Debug)]
pub(crate) struct Again(Mark);

impl Again {
    /// Whether what comes next, and is of this time, was read before.
    pub(crate) const fn had(&mut self, at: Duration) -> bool {
        let Mark { at: until, read } = &mut self.0;
        if at.as_nanos() == until.as_nanos() && *read > 0 {
            *read -= 1;
            return true;
        }
        at.as_nanos() < until.as_nanos()
    }
}

/// The time before what was said, and that by itself. With no time it is taken as it is.
pub(crate) fn stamped(part: &[u8]) -> (Option<Duration>, &[u8]) {
    let split = || {
        let space = part.iter().position(|byte| *byte == b' ')?;
        let (stamp, said) = part.split_at_checked(space)?;
        let at = time(std::str::from_utf8(stamp).ok()?)?;
        Some((Some(at), said.get(1..)?))
    };
    split().unwrap_or((None, part))
}

/// A time as engines write it: in UTC, or with what it is ahead of that.
fn time(text: &str) -> Option<Duration> {
    let since = |text: &str| {
        let time = humantime::parse_rfc3339(text).ok()?;
        time.duration_since(UNIX_EPOCH).ok()
    };
    if text.ends_with('Z') {
        return since(text);
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let minutes = hours.parse::<u64>().ok()?.checked_mul(60)? + minutes.parse::<u64>().ok()?;
    let offset_by = Duration::from_secs(minutes.checked_mul(60)?);
    let local = since(&format!("{local}Z"))?;
    match offset.as_bytes().first()? {
        b'+' => local.checked_sub(offset_by),
        b'-' => local.checked_add(offset_by),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_taken_off_what_was_said() {
        let at = Duration::new(1_767_225_600, 5_000_000);
        for (part, expected) in [
            ("2026-01-01T00:00:00.005000000Z a b\n", (Some(at), "a b\n")),
            ("2026-01-01T01:30:00.005000000+01:30 a\n", (Some(at), "a\n")),
            ("2025-12-31T23:00:00.005-01:00 \n", (Some(at), "\n")),
            ("a b\n", (None, "a b\n")),
            ("a\n", (None, "a\n")),
            ("", (None, "")),
        ] {
            let (time, said) = expected;
            assert_eq!(stamped(part.as_bytes()), (time, said.as_bytes()), "{part}");
        }
    }

    #[test]
    fn what_was_read_is_told_from_what_was_not() {
        let at = Duration::from_secs;
        let mut mark = Mark::default();
        assert!(!mark.clone().again().had(at(1)));
        for time in [2, 1, 2] {
            mark.note(at(time));
        }
        let mut again = mark.again();
        let had: Vec<_> = [2, 1, 2, 2, 3].map(|time| again.had(at(time))).into();
        assert_eq!(had, [true, true, true, false, false]);
        assert!(!Mark::before(at(2)).again().had(at(2)));
    }
}
