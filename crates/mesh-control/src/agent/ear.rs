//! Whether the node still hears its consumer: a dead subscription says nothing, so its silence is measured.

use std::time::Duration;

use mesh_model::Timestamp;

use crate::pause::due;

/// What to do about a silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Listen anew, on the connection there is.
    ListenAgain,
    /// Connect anew, after so many signs of life were missed.
    Reconnect,
}

#[derive(Debug)]
pub(super) struct Ear {
    /// After how long a silence the consumer says that it is there; nothing where it does not.
    idle: Option<Duration>,
    /// Milliseconds until a refused subscription is tried again.
    retry: u64,
    up: bool,
    heard: Timestamp,
    /// The missed signs of life something was done about.
    done_at: u32,
    denied: Option<Timestamp>,
}

impl Ear {
    pub(super) fn new(idle: Option<Duration>, retry: u64, now: Timestamp) -> Self {
        Self {
            idle,
            retry,
            up: false,
            heard: now,
            done_at: 0,
            denied: None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// Another silence is measured from now on: none there was says anything of it.
    pub(super) fn listens_where(&mut self, idle: Option<Duration>, now: Timestamp) {
        if self.idle != idle {
            self.idle = idle;
            self.heard(now);
        }
    }

    pub(super) fn link(&mut self, up: bool, now: Timestamp) {
        self.up = up;
        self.heard(now);
    }

    pub(super) fn heard(&mut self, now: Timestamp) {
        self.heard = now;
        self.done_at = 0;
        self.denied = None;
    }

    /// Answers whether this is news.
    pub(super) fn denied(&mut self, now: Timestamp) -> bool {
        let news = self.denied.is_none();
        if news {
            self.denied = Some(now.plus(self.retry));
        }
        news
    }

    /// What to do now: once for the second sign of life missed, and for each after that.
    pub(super) fn remedy(&mut self, now: Timestamp) -> Option<Remedy> {
        if !self.up {
            return None;
        }
        // A clock that was set back makes no silence out of what was heard, and hides none that follows.
        self.heard = self.heard.min(now);
        let missed = self.missed(now);
        if missed >= 2 && missed > self.done_at {
            self.done_at = missed;
            return Some(if missed == 2 {
                Remedy::ListenAgain
            } else {
                Remedy::Reconnect
            });
        }
        if self.denied.is_some_and(|at| due(at, now, self.retry)) {
            self.denied = None;
            return Some(Remedy::ListenAgain);
        }
        None
    }

    /// How many of the consumer's signs of life were missed.
    pub(super) fn missed(&self, now: Timestamp) -> u32 {
        let Some(idle) = self.idle else {
            return 0;
        };
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX).max(1);
        let missed = now.since(self.heard) / idle;
        u32::try_from(missed).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(secs * 1_000)
    }

    /// Between a bus whose consumers say that they are there and one whose do not.
    #[test]
    fn a_move_makes_no_silence_in_either_direction_and_hides_none_that_follows() {
        for (before, after) in [(None, Some(IDLE)), (Some(IDLE), None)] {
            let mut ear = Ear::new(before, 2_000, at(0));
            ear.link(true, at(0));
            ear.listens_where(after, at(50));
            assert_eq!((ear.missed(at(50)), ear.remedy(at(79))), (0, None));
            ear.listens_where(after, at(109));
            assert_eq!(ear.remedy(at(109)), None, "{after:?}");
            let remedy = after.map(|_| Remedy::ListenAgain);
            assert_eq!(ear.remedy(at(110)), remedy, "{after:?}");
            let remedy = after.map(|_| Remedy::Reconnect);
            assert_eq!(ear.remedy(at(140)), remedy, "{after:?}");
        }
    }
}
