//! Whether one start of a module was good.

use std::time::Duration;

use mesh_model::{Health, Restart, Workload};

use super::pulse::every;

/// One start of one workload, from its first process to the verdict.
///
/// Good is what was healthy for the first time in time; without a question of health, what ran for a while, or ended with
/// success where that is no reason to start it again. Bad is what was not healthy in time, or ended too often before.
/// A verdict is final: nothing that comes later changes it.
///
/// Time is a [`Duration`] since whatever the caller counts from, on a clock that does not go back.
#[derive(Debug, Clone)]
pub struct Rollout {
    health: Option<Health>,
    restart: Restart,
    settle: Duration,
    /// When it was started first: from here on it has to become healthy.
    began: Option<Duration>,
    /// Since when its process runs; nothing while it has none.
    up: Option<Duration>,
    probe_at: Duration,
    ends: u32,
    /// What was last against it.
    last: Option<String>,
    verdict: Option<Verdict>,
}

/// What happened to a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Its process, or its container, runs. Comes again after each end.
    Started,
    /// It could not be started, and that is its own fault: a program that is not there.
    NotStarted(String),
    /// It was asked for its health.
    Probed(Result<(), String>),
    /// It ended.
    Ended {
        /// How, in a few words.
        how: String,
        /// With success.
        success: bool,
    },
    /// Nothing; the time has come that was asked for.
    Look,
}

/// What is known of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Not enough. To be asked for its health at `probe`, where there is a time; and to be looked at again at `until`
    /// whatever happened, which is how long an answer is waited for, too.
    Wait {
        /// When to ask for its health.
        probe: Option<Duration>,
        /// When to [look](Input::Look) at the latest; nothing while it has no process and nothing can run out.
        until: Option<Duration>,
    },
    /// It does its work.
    Good,
    /// It does not, and why.
    Bad(String),
}

/// Ends, before it was good, that are too many.
const ENDS: u32 = 3;
/// A start is asked for its health first after this long, and then after as long as it has run, until that is longer than
/// what was declared: most are healthy long before the first asking would be due.
const FIRST_ASKED: Duration = Duration::from_millis(100);

impl Rollout {
    /// How long a module has to run that has no question of health.
    pub const SETTLE: Duration = Duration::from_secs(3);

    /// Of a workload that is about to be started. `settle` is [`Self::SETTLE`], but for tests.
    pub fn new(workload: &Workload, settle: Duration) -> Self {
        Self {
            health: workload.health.clone(),
            restart: workload.restart,
            settle,
            began: None,
            up: None,
            probe_at: Duration::ZERO,
            ends: 0,
            last: None,
            verdict: None,
        }
    }

    /// Takes what happened at `now`.
    pub fn handle(&mut self, input: Input, now: Duration) -> Verdict {
        if let Some(verdict) = &self.verdict {
            return verdict.clone();
        }
        let verdict = self.judge(input, now);
        if !matches!(verdict, Verdict::Wait { .. }) {
            self.verdict = Some(verdict.clone());
        }
        verdict
    }

    fn judge(&mut self, input: Input, now: Duration) -> Verdict {
        match input {
            Input::Started => {
                self.begin(now);
                self.up = Some(now);
                self.probe_at = now.saturating_add(FIRST_ASKED);
            }
            // What was asked of an earlier process says nothing of this one.
            Input::Probed(_) if self.up.is_none() => {}
            Input::Probed(Ok(())) => return Verdict::Good,
            Input::Probed(Err(why)) => {
                self.last = Some(why);
                self.probe_at = self.next_probe(now);
            }
            Input::NotStarted(how) => {
                self.begin(now);
                if let Some(bad) = self.ended(how) {
                    return bad;
                }
            }
            Input::Ended { how, success } => {
                if success && self.restart != Restart::Always {
                    return Verdict::Good;
                }
                if self.restart == Restart::Never {
                    return Verdict::Bad(how);
                }
                if let Some(bad) = self.ended(how) {
                    return bad;
                }
            }
            Input::Look => {}
        }
        self.look(now)
    }

    fn begin(&mut self, now: Duration) {
        self.began.get_or_insert(now);
    }

    fn ended(&mut self, how: String) -> Option<Verdict> {
        self.up = None;
        self.ends = self.ends.saturating_add(1);
        if self.ends >= ENDS {
            return Some(Verdict::Bad(how));
        }
        self.last = Some(how);
        None
    }

    fn next_probe(&self, now: Duration) -> Duration {
        let ran = now.saturating_sub(self.up.unwrap_or(now));
        let wait = self
            .health
            .as_ref()
            .map_or(ran, |health| ran.max(FIRST_ASKED).min(every(health)));
        now.saturating_add(wait)
    }

    /// What time alone says.
    fn look(&self, now: Duration) -> Verdict {
        let Some(health) = &self.health else {
            let settled = self.up.map(|up| up.saturating_add(self.settle));
            return match settled {
                Some(at) if now >= at => Verdict::Good,
                until => Verdict::Wait { probe: None, until },
            };
        };
        let within = Duration::from_millis(health.within);
        let until = self.began.map(|began| began.saturating_add(within));
        if until.is_some_and(|until| now >= until) {
            let last = self.last.as_deref().unwrap_or("no answer");
            let why = format!("not healthy within {}: {last}", spoken(within));
            return Verdict::Bad(why);
        }
        let due = self.up.map(|_| self.probe_at);
        Verdict::Wait {
            probe: due.filter(|at| until.is_none_or(|until| *at < until)),
            until,
        }
    }
}

/// A time as people say it.
fn spoken(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}

#[cfg(test)]
mod tests;
