//! How a keeper turns to a new goal, and what it remembers on disk for the agent that comes after it.

use std::sync::Arc;

use mesh_control::convergence::declared_as;
use mesh_model::Workload;
use tracing::warn;

use super::{Goal, Keeper, Life};
use crate::container::notes::Notes;
use crate::ended::came_to_its_end;

impl Keeper {
    /// Takes a goal on. What it is declared otherwise than before begins a new life; what is declared as before goes on.
    pub(super) async fn turn_to(&mut self, goal: &Goal) {
        let wanted = goal.desired.as_ref().map(|desired| &desired.workload);
        let same = match (&self.declared, wanted) {
            (Some(before), Some(wanted)) => declared_as(before, wanted),
            (None, None) => true,
            _ => false,
        };
        if same {
            self.declared = wanted.cloned();
        } else {
            let goes_on = self
                .declared
                .as_ref()
                .zip(wanted)
                .is_some_and(|(before, wanted)| before.runs_as(wanted));
            self.turn_notes(wanted).await;
            self.life = Life {
                id: self.life.id.take(),
                fetched: self.life.fetched && goes_on,
                started: self.life.started && goes_on,
                ..Life::default()
            };
        }
        if self.life.settled {
            self.tell_tried(goal.number);
        }
    }

    /// Takes over what still holds of what is remembered. What does not is off the disk before anything is done: else an
    /// agent that comes later would find that something is bad which is to be tried anew.
    async fn turn_notes(&mut self, wanted: Option<&Workload>) {
        let before = match self.declared.take() {
            Some(declared) => Some((declared, std::mem::take(&mut self.notes))),
            None => Notes::read(&self.shared.dir, &self.module),
        };
        self.declared = wanted.cloned();
        self.notes = Notes::default();
        let (Some((before, notes)), Some(wanted)) = (before, wanted) else {
            return self.forget_notes();
        };
        self.notes = notes.clone().turned(&before, wanted);
        if self.notes != notes && !self.keep_notes().await {
            self.forget_notes();
        }
    }

    pub(super) fn forget_notes(&self) {
        if let Err(error) = Notes::forget(&self.shared.dir, &self.module) {
            warn!(module = %self.module, %error, "its notes are left on disk");
        }
    }

    pub(super) async fn repaired(&mut self) {
        self.notes.repairs = self.notes.repairs.saturating_add(1);
        self.keep_notes().await;
    }

    /// Writes down what is remembered, and returns when it is on disk; the answer is whether it is. Without it a later
    /// agent only knows less.
    pub(super) async fn keep_notes(&self) -> bool {
        let Some(declared) = self.declared.clone() else {
            return true;
        };
        let (shared, notes) = (Arc::clone(&self.shared), self.notes.clone());
        let write = move || notes.write(&shared.dir, &declared);
        match came_to_its_end(tokio::task::spawn_blocking(write).await) {
            Some(Err(error)) => {
                warn!(module = %self.module, %error, "its notes are not on disk");
                false
            }
            Some(Ok(())) => true,
            // The agent ends.
            None => false,
        }
    }

    /// A container runs: it has made way for nobody, and has not failed.
    pub(super) async fn note_started(&mut self, container: &str) {
        if self.notes.started(container) {
            self.keep_notes().await;
        }
    }
}
