//! From nothing to a container that was started: its turn, its making, its start.

use std::sync::Arc;

use mesh_control::convergence::Input;
use mesh_model::{Container, ModuleState};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Flow, Goal, Keeper, starts_again};
use crate::Desired;
use crate::container::engine::{Seen, State};
use crate::container::fault::Fault;
use crate::container::ports;
use crate::vitals::{Sign, Vitals};

impl Keeper {
    /// There is none: its image is fetched while what it replaces goes on, and then it is made.
    pub(super) async fn make(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        former: Option<Seen>,
        seen: &[Seen],
    ) -> Result<Flow, Fault> {
        if let Some(former) = &former {
            self.shared
                .tend(&self.module, former, self.life.ended_former)
                .await?;
        }
        if let Some(due) = self.not_yet() {
            return Ok(Flow::Wait(due));
        }
        if former.is_none() && !self.life.settled {
            self.show(desired, ModuleState::Starting, None, None);
        }
        if !self.pass(desired).await {
            return Ok(Flow::Again);
        }
        match self.fetch(desired, former.as_ref()).await {
            Ok(true) => {}
            Ok(false) => return Ok(Flow::Again),
            Err(fault) if fault.is_of_the_engine() => return Err(fault),
            Err(fault) => {
                return self
                    .not_fetched(goal, desired, former.as_ref(), &fault)
                    .await;
            }
        }
        if let Some(former) = &former {
            self.make_way(desired, former).await?;
        }
        match self.shared.create(desired, seen).await {
            Ok(id) => {
                self.life.found(id);
                Ok(Flow::Again)
            }
            Err(Fault::ImageGone { why }) => {
                warn!(module = %self.module, why, "its image is gone, and fetched again");
                self.life.fetched = false;
                self.back_off();
                Ok(Flow::Again)
            }
            Err(fault) if fault.is_of_the_engine() => Err(fault),
            Err(fault) => self.not_started(goal, desired, None, former, fault).await,
        }
    }

    /// When it may be started, if that is not now.
    fn not_yet(&self) -> Option<Instant> {
        self.life.due.filter(|due| Instant::now() < *due)
    }

    /// Waits until what it comes after was started; `false` when something else may be wanted by then.
    async fn pass(&mut self, desired: &Desired) -> bool {
        if self.life.passed {
            return true;
        }
        tokio::select! {
            biased;
            () = self.shared.gate.pass(desired.module()) => self.life.passed = true,
            _ = self.goal.changed() => {}
        }
        self.life.passed
    }

    /// Its image is not there. What it was to replace goes on, where it does.
    async fn not_fetched(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        former: Option<&Seen>,
        fault: &Fault,
    ) -> Result<Flow, Fault> {
        warn!(module = %self.module, %fault, "not fetched");
        self.back_off();
        self.life.trouble = Some(fault.to_string());
        let former = match former {
            // It may have ended while the image was fetched.
            Some(former) => self.shared.engine.inspect(&former.id).await?,
            None => None,
        };
        let stands = former.and_then(|it| Some((it.workload?, it.state, it.pid)));
        match stands {
            Some((workload, state, pid)) => {
                let (state, does) = match state {
                    State::Running => (ModuleState::Running, "runs on"),
                    State::Ended(exit) if !starts_again(&workload, &exit) => {
                        (ModuleState::Ended, "stands")
                    }
                    _ => (ModuleState::Failed, "does not run"),
                };
                let reason = format!(
                    "release {}: {fault}; release {} {does}",
                    desired.workload.release, workload.release
                );
                let shown = Desired {
                    workload,
                    ..Desired::clone(desired)
                };
                self.show(&shown, state, pid, Some(reason));
            }
            None => self.show(desired, ModuleState::Failed, None, Some(fault.to_string())),
        }
        self.settle(goal);
        Ok(self.later())
    }

    /// Ends what has what the new one needs. It is kept: should the new one be bad, it comes back.
    async fn make_way(&mut self, desired: &Desired, former: &Seen) -> Result<(), Fault> {
        let twice = |container: Option<&Container>| container.is_some_and(Container::fits_twice);
        let both = twice(desired.workload.run.container())
            && twice(former.workload.as_ref().and_then(|it| it.run.container()));
        if both {
            return Ok(());
        }
        // As it is now: it may have been started again while the image was fetched.
        let now = self.shared.engine.inspect(&former.id).await?;
        let Some(state @ (State::Running | State::Paused)) = now.map(|now| now.state) else {
            return Ok(());
        };
        info!(module = %self.module, container = former.name, "ended, for a newer one");
        // Before it is ended, so that any later agent knows that this was not its own end.
        self.notes.made_way = Some(former.id.clone());
        self.keep_notes().await;
        if state == State::Paused {
            drop(self.shared.engine.unpause(&former.id).await);
        }
        self.life.ended_former = true;
        let grace = self.shared.pace.grace;
        self.shared.engine.stop(&former.id, grace).await
    }

    /// Starts a container that is there.
    pub(super) async fn start(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        current: &Seen,
        former: Option<Seen>,
    ) -> Result<Flow, Fault> {
        if let Some(due) = self.not_yet() {
            return Ok(Flow::Wait(due));
        }
        if !self.pass(desired).await {
            return Ok(Flow::Again);
        }
        if let Some(former) = &former {
            self.make_way(desired, former).await?;
        }
        let settle = self.shared.pace.settle;
        let vitals = self
            .life
            .vitals
            .get_or_insert_with(|| Vitals::trial(&desired.workload, settle));
        let taken = desired.workload.run.container().and_then(ports::taken);
        let started = match taken {
            Some(fault) => Err(fault),
            None => self.shared.engine.start(&current.id).await,
        };
        match started {
            Ok(()) => {
                // That it is good at once is seen when it is looked at.
                drop(vitals.handle(Input::Started));
                let news = self.notes.started(&current.id);
                if self.life.started {
                    self.notes.restarts = self.notes.restarts.saturating_add(1);
                }
                if news || self.life.started {
                    self.keep_notes().await;
                }
                let restarts = self.notes.restarts;
                info!(module = %self.module, container = current.name, restarts, "started");
                self.life.started = true;
                self.life.revive = false;
                self.life.exit_is_ours = false;
                self.life.due = None;
                self.life.since = Some(Instant::now());
                Ok(Flow::Again)
            }
            Err(Fault::Missing) => Ok(Flow::Again),
            Err(fault) if fault.is_of_the_engine() => Err(fault),
            Err(fault) if self.shared.engine.learn(&fault.to_string()) => {
                self.remove(current).await?;
                Ok(Flow::Again)
            }
            Err(fault) => {
                self.not_started(goal, desired, Some(current), former, fault)
                    .await
            }
        }
    }

    /// It could not be made, or not be started, for a reason of its own.
    async fn not_started(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        current: Option<&Seen>,
        former: Option<Seen>,
        fault: Fault,
    ) -> Result<Flow, Fault> {
        warn!(module = %self.module, %fault, "not started");
        let settle = self.shared.pace.settle;
        let vitals = self
            .life
            .vitals
            .get_or_insert_with(|| Vitals::trial(&desired.workload, settle));
        let why = fault.to_string();
        if let Some(Sign::Bad(why)) = vitals.handle(Input::NotStarted(why.clone())) {
            return self.bad(goal, desired, current, former, why).await;
        }
        if let Fault::DiskFull { .. } = fault {
            self.disk_full();
        }
        self.back_off();
        self.life.trouble = Some(why.clone());
        self.show(desired, ModuleState::Failed, None, Some(why));
        // What replaces another is tried until there is a verdict; else this was the try.
        if former.is_none() {
            self.settle(goal);
        }
        Ok(self.later())
    }
}
