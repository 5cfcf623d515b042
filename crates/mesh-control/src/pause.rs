//! Pauses by a clock that may be set back: none of them ever lasts longer than it was meant to.

use mesh_model::Timestamp;

/// Whether something put off until `at` is due. `pause` is how far ahead it was put.
pub(crate) fn due(at: Timestamp, now: Timestamp, pause: u64) -> bool {
    now >= at || at.since(now) > pause
}

/// Whether `pause` milliseconds have passed since something.
pub(crate) fn passed(since: Timestamp, now: Timestamp, pause: u64) -> bool {
    now < since || now.since(since) >= pause
}

/// Attempts at one thing that fail again and again: each waits twice as long as the one before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoff {
    /// Failures in a row.
    failures: u32,
    /// When to try again.
    again: Option<Timestamp>,
    /// Why it failed last.
    why: String,
}

/// Milliseconds after which, at the latest, what failed is tried again.
const LONGEST: u64 = 30_000;

impl Backoff {
    /// It failed. Answers whether that is news: the first failure in a row, or one for another reason. `first` is the
    /// shortest pause, in milliseconds.
    pub(crate) fn failed(&mut self, why: &str, now: Timestamp, first: u64) -> bool {
        let news = self.failures == 0 || self.why != why;
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.why);
        self.again = Some(now.plus(self.pause(first)));
        news
    }

    /// Whether it may be tried now.
    pub(crate) fn is_due(&self, now: Timestamp, first: u64) -> bool {
        self.again.is_none_or(|at| due(at, now, self.pause(first)))
    }

    /// There is a reason to think that it works now.
    pub(crate) fn retry_now(&mut self) {
        self.again = None;
    }

    fn pause(&self, first: u64) -> u64 {
        let doublings = self.failures.saturating_sub(1).min(16);
        first.saturating_mul(1 << doublings).min(LONGEST.max(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_for_the_same_reason_is_news_once_and_tried_ever_more_rarely() {
        let (mut backoff, mut now, mut pauses) = (Backoff::default(), 0, Vec::new());
        let at = Timestamp::from_millis;
        for attempt in 0..9 {
            assert_eq!(backoff.failed("down", at(now), 500), attempt == 0);
            let failed = now;
            while !backoff.is_due(at(now), 500) {
                now += 100;
            }
            pauses.push(now - failed);
        }
        let longest = [500, 1_000, 2_000, 4_000, 8_000, 16_000];
        assert_eq!(pauses, [&longest[..], &[30_000; 3][..]].concat());
        assert!(backoff.failed("refused", at(now), 500));
        backoff.retry_now();
        assert!(backoff.is_due(at(now), 500));
    }

    #[test]
    fn a_clock_set_back_lengthens_no_pause() {
        let at = Timestamp::from_millis;
        for (now, is_due) in [
            (5_000, true),
            (4_999, false),
            (3_000, false),
            (2_999, true),
            (0, true),
        ] {
            assert_eq!(due(at(5_000), at(now), 2_000), is_due, "at {now}");
        }
        for (now, has) in [(5_000, false), (6_999, false), (7_000, true), (4_999, true)] {
            assert_eq!(passed(at(5_000), at(now), 2_000), has, "at {now}");
        }
    }
}
