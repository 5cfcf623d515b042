//! One module's containers, brought to what is wanted of it and held there: looked at, acted on, looked at again.
//!
//! Nothing is concluded from what was done before: each round begins with what the engine has. So any round may be cut
//! short, by an answer that is lost, by an engine that goes away, by another agent that takes over.

mod judge;
mod make;
mod making;
mod pull;
mod say;
mod turn;
mod watch;

use std::sync::Arc;

use mesh_model::{ModuleName, ModuleReport, ModuleState, Restart, Workload};
use tokio::sync::watch as channel;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tracing::{info, warn};

use super::Shared;
use super::engine::{Exit, Seen, State};
use super::fault::Fault;
use super::notes::{End, Notes};
use super::sorted::{Sorted, instead};
use crate::Desired;
use crate::vitals::Vitals;

/// What is wanted of a module.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    /// The order that says so.
    pub(crate) number: u64,
    /// What it is to be; nothing: it is to be gone.
    pub(crate) desired: Option<Arc<Desired>>,
}

/// One module's containers.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    module: ModuleName,
    goal: channel::Receiver<Goal>,
    /// The newest order of which everything was tried.
    tried: channel::Sender<u64>,
    /// What it was last declared as.
    declared: Option<Workload>,
    notes: Notes,
    life: Life,
}

/// What is known of a module's present life; a new agent knows none of it, and needs none.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact by itself, and any of them goes with any other"
)]
struct Life {
    /// Everything there was to try was tried.
    settled: bool,
    /// What it comes after was started.
    passed: bool,
    vitals: Option<Vitals>,
    /// Ends in a row.
    ends: u32,
    /// Before this it is not started again.
    due: Option<Instant>,
    /// Since when it runs.
    since: Option<Instant>,
    /// It was started, so that the next start is another.
    started: bool,
    /// It is to be started however it ended: it was ended here, since it did not do its work.
    revive: bool,
    /// The container it runs as.
    id: Option<String>,
    /// The last end that was counted.
    exit: Option<End>,
    /// Its image was fetched.
    fetched: bool,
    /// The engine was away: what ended meanwhile was ended with it.
    away: Option<Instant>,
    /// What it replaces was ended here.
    ended_former: bool,
    /// Its last end was asked for here, so that it starts anew.
    exit_is_ours: bool,
    /// There was no room; how much there was once that had been cleared up.
    full: Option<Full>,
    /// The digest of the image it runs.
    image: Option<String>,
    /// What was against it when it was tried last: it is tried again, and that is no news.
    trouble: Option<String>,
}

impl Life {
    /// Another container is the one it runs as.
    fn found(&mut self, id: String) {
        if self.id.as_ref() != Some(&id) {
            self.vitals = None;
            self.image = None;
        }
        self.id = Some(id);
    }
}

/// A disk that was full.
#[derive(Debug, Clone, Copy)]
struct Full {
    at: Instant,
    free: Option<u64>,
}

/// What comes next.
enum Flow {
    /// Another round.
    Again,
    /// Another round after this, or when something else is wanted.
    Wait(Instant),
    /// Nothing, until something else is wanted.
    Rest,
}

impl Keeper {
    pub(crate) fn new(
        shared: Arc<Shared>,
        module: ModuleName,
        goal: channel::Receiver<Goal>,
        tried: channel::Sender<u64>,
    ) -> Self {
        Self {
            shared,
            module,
            goal,
            tried,
            declared: None,
            notes: Notes::default(),
            life: Life::default(),
        }
    }

    /// Goes on for as long as something is wanted of the module.
    pub(crate) async fn live(mut self) {
        loop {
            let goal = self.goal.borrow_and_update().clone();
            self.turn_to(&goal).await;
            let flow = match Box::pin(self.round(&goal)).await {
                Ok(flow) => {
                    self.life.away = None;
                    flow
                }
                Err(fault) => self.after(&goal, fault),
            };
            let changed = match flow {
                Flow::Again => Ok(()),
                Flow::Rest => self.goal.changed().await,
                Flow::Wait(until) => {
                    let until = until.min(Instant::now() + self.shared.sweep);
                    tokio::select! {
                        changed = self.goal.changed() => changed,
                        () = sleep_until(until) => Ok(()),
                    }
                }
            };
            if changed.is_err() {
                return;
            }
        }
    }

    async fn round(&mut self, goal: &Goal) -> Result<Flow, Fault> {
        let engine = &self.shared.engine;
        let owner = &self.shared.owner;
        let seen = engine.list(owner, Some(self.module.as_str())).await?;
        let Some(declared) = &goal.desired else {
            return self.clear(goal, seen).await;
        };
        let rejected = self.notes.rejected.is_some().then_some(&declared.workload);
        let back = instead(&seen, &declared.workload, rejected).or_else(|| {
            let rejected = self.notes.rejected.as_ref()?;
            Some(rejected.back.clone())
        });
        let desired = match back {
            Some(workload) => Arc::new(Desired {
                // As who the instance is now: what may not go on with its credential is made anew.
                workload: Workload {
                    key: declared.workload.key.clone(),
                    accepts: declared.workload.accepts.clone(),
                    ..workload
                },
                ..Desired::clone(declared)
            }),
            None => Arc::clone(declared),
        };
        let sorted = Sorted::of(seen.clone(), &desired.workload);
        for spare in &sorted.spare {
            self.remove(spare).await?;
        }
        self.notice_loss(&sorted).await;
        match sorted.same {
            Some(current) => self.keep(goal, &desired, current, sorted.former).await,
            None => self.make(goal, &desired, sorted.former, &seen).await,
        }
    }

    /// Somebody removed the container it ran as.
    async fn notice_loss(&mut self, sorted: &Sorted) {
        let lost = self.life.id.is_some()
            && sorted.same.is_none()
            && sorted.former.is_none()
            && self.life.vitals.is_some();
        if lost {
            warn!(module = %self.module, "its container was removed by somebody else");
            self.repaired().await;
            self.life.id = None;
            self.life.vitals = None;
            // It is put back, which is counted already.
            self.life.started = false;
        }
    }

    /// It is there as it is wanted: it is started, watched, or left ended.
    async fn keep(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        current: Seen,
        former: Option<Seen>,
    ) -> Result<Flow, Fault> {
        self.life.found(current.id.clone());
        match &current.state {
            State::Running => self.watch(goal, desired, current, former).await,
            State::Paused => {
                info!(module = %self.module, container = current.name, "held by somebody else, and let go on");
                self.shared.engine.unpause(&current.id).await?;
                self.repaired().await;
                Ok(Flow::Again)
            }
            State::Created => self.start(goal, desired, &current, former).await,
            State::Ended(exit) => {
                let exit = exit.clone();
                self.ended(goal, desired, current, former, exit).await
            }
            State::Leaving => Ok(Flow::Wait(Instant::now() + BUSY)),
        }
    }

    /// Ends everything of the module and forgets it.
    async fn clear(&mut self, goal: &Goal, seen: Vec<Seen>) -> Result<Flow, Fault> {
        for one in &seen {
            self.remove(one).await?;
        }
        if !seen.is_empty() {
            return Ok(Flow::Again);
        }
        self.forget_notes();
        self.shared.board.remove(&self.module);
        self.shared.doing(&self.module, None);
        self.life = Life::default();
        self.settle(goal);
        Ok(Flow::Rest)
    }

    /// Ends a container and removes it, whatever it does, and returns when it is gone.
    async fn remove(&mut self, seen: &Seen) -> Result<(), Fault> {
        let engine = &self.shared.engine;
        if seen.state == State::Paused {
            // A held one cannot hear that it is to end.
            drop(engine.unpause(&seen.id).await);
        }
        if matches!(seen.state, State::Running | State::Paused)
            && let Err(fault) = engine.stop(&seen.id, self.shared.pace.grace).await
        {
            if fault.is_of_the_engine() {
                return Err(fault);
            }
            info!(module = %self.module, %fault, "not ended, and removed all the same");
        }
        match engine.remove(&seen.id).await {
            // It is being removed already.
            Ok(()) | Err(Fault::Conflict { .. }) => {}
            Err(fault) => return Err(fault),
        }
        let until = Instant::now() + REMOVED_WITHIN;
        while engine.inspect(&seen.id).await?.is_some() {
            if Instant::now() >= until {
                return Err(Fault::Conflict {
                    why: format!("{} is being removed for too long", seen.name),
                });
            }
            sleep(BUSY).await;
        }
        if self.life.id.as_ref() == Some(&seen.id) {
            self.life.id = None;
            self.life.vitals = None;
        }
        info!(module = %self.module, container = seen.name, "removed");
        Ok(())
    }

    /// What follows a fault that is none of a start.
    fn after(&mut self, goal: &Goal, fault: Fault) -> Flow {
        match &fault {
            Fault::Missing => return Flow::Wait(Instant::now() + BUSY),
            Fault::NoEngine(_) if goal.desired.is_none() => {
                self.shared.board.remove(&self.module);
                self.settle(goal);
                return Flow::Rest;
            }
            fault if fault.is_of_the_engine() => return self.away(goal, fault),
            _ => {}
        }
        warn!(module = %self.module, %fault, "not done");
        self.life.trouble = Some(fault.to_string());
        self.fail(goal, fault.to_string());
        self.back_off();
        self.later()
    }

    /// When it may be started again.
    fn later(&self) -> Flow {
        self.life.due.map_or(Flow::Again, Flow::Wait)
    }

    /// The engine is not there. What ran may run: that is said only once it has been away for a while.
    fn away(&mut self, goal: &Goal, fault: &Fault) -> Flow {
        let now = Instant::now();
        let since = *self.life.away.get_or_insert(now);
        let before = self.shared.board.states().remove(&self.module);
        let reason = fault.to_string();
        let ran = before.filter(|report| {
            report.state == ModuleState::Running && now.duration_since(since) < AWAY
        });
        match ran {
            Some(report) => self.shared.board.set(
                &self.module,
                ModuleReport {
                    reason: Some(reason),
                    ..report
                },
            ),
            None => self.fail(goal, reason),
        }
        self.settle(goal);
        self.life.settled = false;
        Flow::Wait(now + ENGINE_RETRY)
    }
}

/// Whether a container that ended so is started again.
const fn starts_again(workload: &Workload, exit: &Exit) -> bool {
    match workload.restart {
        Restart::Always => true,
        Restart::OnFailure => exit.code != 0,
        Restart::Never => false,
    }
}

/// How soon something is looked at that is on its way.
const BUSY: Duration = Duration::from_millis(100);
/// How long a removal may take: an engine takes its time with what it has to unmount.
const REMOVED_WITHIN: Duration = Duration::from_mins(1);
/// How soon an engine that is away is asked again.
const ENGINE_RETRY: Duration = Duration::from_secs(1);
/// How long an engine may be away until what it ran is not said to run any more. An engine that is started anew, and leaves
/// its containers alone, is back sooner.
const AWAY: Duration = Duration::from_secs(15);
