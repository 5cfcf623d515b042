//! What follows when a start was good, or bad, or an end.

use std::sync::Arc;

use mesh_control::convergence::{Input, fallback};
use mesh_model::{LastExit, ModuleState, Restart, Timestamp};
use tracing::{info, warn};

use super::{Flow, Goal, Keeper, Life, starts_again};
use crate::Desired;
use crate::container::engine::{Exit, Seen, State};
use crate::container::fault::Fault;
use crate::container::notes::{End, Rejected};
use crate::vitals::Sign;

impl Keeper {
    /// Counts an end, and does what follows it.
    pub(super) async fn ended(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        current: Seen,
        former: Option<Seen>,
        exit: Exit,
    ) -> Result<Flow, Fault> {
        let end = End {
            container: current.id.clone(),
            at: exit.at.clone(),
        };
        let new = self.life.exit.as_ref() != Some(&end);
        if new && self.is_own_end() {
            self.notes.own_end = Some(end.clone());
        }
        let again = self.is_started_again(desired, &end, &exit);
        if new {
            self.life.exit = Some(end);
            let how = self.shared.how(&current, &exit).await;
            let sign = self.count(desired, &current, &exit, how, again).await;
            match sign {
                Some(Sign::Good) => self.good(desired, former.as_ref()).await?,
                Some(Sign::Bad(why) | Sign::Unhealthy(why)) => {
                    return self.bad(goal, desired, Some(&current), former, why).await;
                }
                None => {}
            }
        }
        let state = if again {
            ModuleState::Backoff
        } else if self.life.exit_is_ours || self.notes.failed.as_ref() == Some(&current.id) {
            // What was ended since it did not do its work is no job that is done.
            ModuleState::Failed
        } else {
            ModuleState::Ended
        };
        let how = self.notes.last_exit.as_ref().map(|last| last.how.clone());
        self.show(desired, state, None, how);
        if again {
            return self.start(goal, desired, &current, former).await;
        }
        self.life.passed = true;
        self.settle(goal);
        Ok(Flow::Rest)
    }

    /// Whether an end that is seen for the first time is the container's own doing, as far as can be told: it was not ended
    /// here, and neither the engine nor the agent was away, so that it was not ended with them.
    const fn is_own_end(&self) -> bool {
        self.life.vitals.is_some() && self.life.away.is_none() && !self.life.exit_is_ours
    }

    /// Whether what ended so is started again. A job may have ended with success since its host or its engine did: that it
    /// is done is known only of an end that was seen to be its own.
    fn is_started_again(&self, desired: &Desired, end: &End, exit: &Exit) -> bool {
        let unsure = desired.workload.restart == Restart::OnFailure
            && self.notes.own_end.as_ref() != Some(end);
        self.life.revive
            || unsure
            || self.notes.made_way.as_ref() == Some(&end.container)
            || starts_again(&desired.workload, exit)
    }

    /// Counts an end that was not counted; what it says of the start it was of.
    async fn count(
        &mut self,
        desired: &Desired,
        current: &Seen,
        exit: &Exit,
        how: String,
        again: bool,
    ) -> Option<Sign> {
        info!(module = %self.module, container = current.name, how, again, "ended");
        if self.life.exit_is_ours {
            return None;
        }
        self.notes.last_exit = Some(LastExit {
            at: when(&exit.at).unwrap_or_else(self.shared.now),
            how: how.clone(),
        });
        if self.life.vitals.is_none() {
            // It ended while no agent was there to start it again, or was ended for another that was bad.
            self.life.started = true;
            self.keep_notes().await;
            return None;
        }
        if exit.is_by_hand() && self.life.away.is_none() {
            self.notes.repairs = self.notes.repairs.saturating_add(1);
        }
        self.keep_notes().await;
        if again {
            self.back_off();
        }
        let success = exit.code == 0;
        if success && again && desired.workload.restart == Restart::OnFailure {
            // Its engine ended it: that says neither that it is good nor that it is bad.
            return None;
        }
        self.life
            .vitals
            .as_mut()
            .and_then(|vitals| vitals.handle(Input::Ended { how, success }))
    }

    /// It is good: what it replaced goes.
    pub(super) async fn good(
        &mut self,
        desired: &Desired,
        former: Option<&Seen>,
    ) -> Result<(), Fault> {
        info!(module = %self.module, release = desired.workload.release, "good");
        match former {
            Some(former) => self.remove(former).await,
            None => Ok(()),
        }
    }

    /// It is bad. What it replaced comes back; what replaced nothing is tried again, later.
    pub(super) async fn bad(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        current: Option<&Seen>,
        former: Option<Seen>,
        why: String,
    ) -> Result<Flow, Fault> {
        let release = &desired.workload.release;
        warn!(module = %self.module, release, why, "bad");
        let before = former.as_ref().and_then(|former| former.workload.clone());
        // With today's credential and secrets it may be just what was bad.
        let back = before.filter(|before| fallback(before, &desired.workload).is_some());
        let Some(back) = back else {
            return self.no_way_back(goal, desired, current, former, why).await;
        };
        let reason = format!(
            "release {release}: {why}; release {} runs again",
            back.release
        );
        // Before it is removed, so that any later agent takes what it replaced back as well.
        self.notes.rejected = Some(Rejected { back, reason });
        self.keep_notes().await;
        self.life = Life {
            passed: true,
            ..Life::default()
        };
        if let Some(current) = current {
            self.remove(current).await?;
        }
        Ok(Flow::Again)
    }

    /// It is bad, and there is nothing else that could run: it is tried again, later. What it was made from before goes on
    /// until it is good, but for one that is not tried again.
    async fn no_way_back(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        current: Option<&Seen>,
        former: Option<Seen>,
        why: String,
    ) -> Result<Flow, Fault> {
        if let Some(current) = current {
            self.note_failed(desired, current).await;
            self.end(desired, current).await?;
            let given_up =
                desired.workload.restart == Restart::Never && current.state != State::Created;
            if let Some(former) = former.filter(|_| given_up) {
                self.remove(&former).await?;
            }
        }
        self.life.vitals = None;
        self.back_off();
        self.life.trouble = Some(why.clone());
        self.show(desired, ModuleState::Failed, None, Some(why));
        self.settle(goal);
        Ok(self.later())
    }

    /// What is not started again has failed for good: any later agent is to say so, too.
    async fn note_failed(&mut self, desired: &Desired, current: &Seen) {
        if desired.workload.restart == Restart::Never {
            self.notes.failed = Some(current.id.clone());
            self.keep_notes().await;
        }
    }

    /// It did its work and no longer does: it is ended, and so started again.
    pub(super) async fn unhealthy(
        &mut self,
        desired: &Desired,
        current: &Seen,
        how: String,
    ) -> Result<(), Fault> {
        warn!(module = %self.module, how, "started anew");
        self.notes.last_exit = Some(LastExit {
            at: (self.shared.now)(),
            how,
        });
        self.keep_notes().await;
        self.note_failed(desired, current).await;
        self.back_off();
        self.end(desired, current).await
    }

    /// Ends one that runs, so that it is started anew.
    async fn end(&mut self, desired: &Desired, current: &Seen) -> Result<(), Fault> {
        if current.state != State::Running {
            return Ok(());
        }
        self.life.exit_is_ours = true;
        self.life.revive = desired.workload.restart != Restart::Never;
        let grace = self.shared.pace.grace;
        self.shared.engine.stop(&current.id, grace).await
    }
}

/// A time as engines write it.
fn when(text: &str) -> Option<Timestamp> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis())
        .ok()
        .map(Timestamp::from_millis)
}
