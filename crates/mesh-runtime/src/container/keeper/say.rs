//! What a keeper says: of its module, and to whoever waits.

use mesh_model::{ModuleReport, ModuleState};
use tokio::time::Instant;

use super::{Goal, Keeper};
use crate::Desired;

impl Keeper {
    /// Says that it cannot be done, and why.
    pub(super) fn fail(&mut self, goal: &Goal, reason: String) {
        self.shared.doing(&self.module, None);
        let release = goal
            .desired
            .as_ref()
            .map(|desired| desired.workload.release.clone());
        let before = self.shared.board.states().remove(&self.module);
        let release = release.or_else(|| before.map(|report| report.release));
        let report = ModuleReport {
            release: release.unwrap_or_default(),
            state: ModuleState::Failed,
            pid: None,
            restarts: self.notes.restarts,
            reason: Some(reason),
            image: None,
            last_exit: self.notes.last_exit.clone(),
            repairs: self.notes.repairs,
        };
        self.shared.board.set(&self.module, report);
        self.settle(goal);
    }

    /// Says what the module does.
    pub(super) fn show(
        &self,
        desired: &Desired,
        state: ModuleState,
        pid: Option<u32>,
        reason: Option<String>,
    ) {
        let rejected = self.notes.rejected.as_ref().map(|it| &it.reason);
        let tried_again = matches!(state, ModuleState::Pulling | ModuleState::Starting);
        let trouble = self.life.trouble.as_ref().filter(|_| tried_again);
        let report = ModuleReport {
            release: desired.workload.release.clone(),
            state,
            pid,
            restarts: self.notes.restarts,
            reason: reason.or_else(|| rejected.or(trouble).cloned()),
            image: self.life.image.clone(),
            last_exit: self.notes.last_exit.clone(),
            repairs: self.notes.repairs,
        };
        self.shared.board.set(&self.module, report);
    }

    /// Everything there was to try was tried: whoever waits goes on.
    pub(super) fn settle(&mut self, goal: &Goal) {
        self.life.settled = true;
        if let Some(desired) = &goal.desired {
            self.shared.gate.open(&desired.workload);
        }
        self.tell_tried(goal.number);
    }

    pub(super) fn tell_tried(&self, number: u64) {
        self.tried.send_if_modified(|tried| {
            let new = *tried < number;
            *tried = number.max(*tried);
            new
        });
    }

    /// Waits longer with each end in a row.
    pub(super) fn back_off(&mut self) {
        let lived = self.life.since.take().map(|since| since.elapsed());
        let pace = &self.shared.pace;
        self.life.ends = pace.ends(self.life.ends, lived.unwrap_or_default());
        let wait = pace.wait(self.life.ends, self.shared.seed, &self.module);
        self.life.due = Some(Instant::now() + wait);
    }
}
