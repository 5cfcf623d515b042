//! What a node says of itself: when, in which words, and until the bus has it.

use std::collections::BTreeMap;

use mesh_model::{ModuleName, ModuleReport, Outcome, Report, Timestamp, one_line};

use super::{Agent, AgentEffect, Current, Stage};
use crate::pause::passed;

impl Agent {
    /// Says what has changed, and no more often than the pause. Work that is done within one says only what became of it;
    /// work that takes long is said to be under way, changes or none: whoever hears nothing of it would ask for it again.
    pub(super) fn report_changes(&mut self, now: Timestamp, effects: &mut Vec<AgentEffect>) {
        let Some(current) = &self.current else { return };
        let pause = self.settings.pause;
        if !passed(self.reported_at, now, pause) {
            return;
        }
        let outcome = match current.stage {
            Stage::Applied if self.dirty => outcome(&self.states),
            Stage::CarryingOut(since) => {
                let long = passed(since, now, self.settings.heartbeat);
                let news = self.dirty || long && self.answer().is_none();
                if !news || !passed(since, now, pause) {
                    return;
                }
                Outcome::Converging
            }
            Stage::Applied | Stage::Again(_) | Stage::Unkept(_) => return,
        };
        self.report(outcome, now, effects);
    }

    pub(super) fn report(
        &mut self,
        outcome: Outcome,
        now: Timestamp,
        effects: &mut Vec<AgentEffect>,
    ) {
        let Some(current) = &self.current else { return };
        let generation = current.declaration.generation;
        let node = self.settings.node.clone();
        let outcome = match outcome {
            Outcome::Failed { reason } => Outcome::Failed {
                reason: one_line(&reason),
            },
            outcome => outcome,
        };
        let states = said(&self.states);
        let report = self.outbox.add(node, generation, outcome, states, now);
        self.last = Some(report);
        self.dirty = false;
        self.reported_at = now;
        self.keep_reports(effects);
        self.send(now, effects);
    }

    /// Says once that a declaration cannot be carried out, however often that is tried.
    pub(super) fn report_failure(
        &mut self,
        reason: String,
        now: Timestamp,
        effects: &mut Vec<AgentEffect>,
    ) {
        let reason = one_line(&reason);
        let outcome = Outcome::Failed { reason };
        let same = self.answer().is_some_and(|last| last.outcome == outcome);
        if !same || self.dirty {
            self.report(outcome, now, effects);
        }
    }

    /// What was last said about the newest declaration.
    fn answer(&self) -> Option<&Report> {
        let generation = self.declaration()?.generation;
        let last = self.last.as_ref()?;
        (last.id.generation == generation).then_some(last)
    }

    /// The newest declaration came again: what was said about it may have been let go.
    pub(super) fn report_again(&mut self, now: Timestamp, effects: &mut Vec<AgentEffect>) {
        if let Some(last) = self.answer().cloned() {
            self.outbox.again(last);
            self.send(now, effects);
        }
    }

    /// Keeps what is to be sent. A declaration that is not on disk does not get there by way of a report, and a disk that
    /// takes none is not asked again for every report that says so.
    pub(super) fn keep_reports(&self, effects: &mut Vec<AgentEffect>) {
        let kept = |current: &Current| !matches!(current.stage, Stage::Unkept(_));
        if self.current.as_ref().is_none_or(kept) {
            effects.push(AgentEffect::Keep(self.remembered()));
        }
    }

    pub(super) fn send(&mut self, now: Timestamp, effects: &mut Vec<AgentEffect>) {
        if let Some(report) = self.outbox.next(now) {
            effects.push(AgentEffect::Report(report));
        }
    }
}

/// Bytes of reasons in one report: with this many it fits into a message, however many modules there are.
const REASONS: usize = 64 * 1024;

/// What is said of modules: each reason a line, and no more of them than a message can hold.
fn said(states: &BTreeMap<ModuleName, ModuleReport>) -> BTreeMap<ModuleName, ModuleReport> {
    let mut room = REASONS;
    let mut said = states.clone();
    for report in said.values_mut() {
        report.release = one_line(&report.release);
        report.image = report.image.as_deref().map(one_line);
        let reason = report.reason.as_deref().map(one_line);
        report.reason = reason.filter(|reason| reason.len() <= room);
        room -= report.reason.as_ref().map_or(0, String::len);
    }
    // How it ended last is worth less than why it does not run.
    for report in said.values_mut() {
        let Some(last) = &mut report.last_exit else {
            continue;
        };
        last.how = one_line(&last.how);
        if last.how.len() <= room {
            room -= last.how.len();
        } else {
            report.last_exit = None;
        }
    }
    said
}

/// What has become of a declaration, from what its modules do.
pub(super) fn outcome(states: &BTreeMap<ModuleName, ModuleReport>) -> Outcome {
    use mesh_model::ModuleState::{Backoff, Ended, Failed, Pulling, Running, Starting};
    let broken = |report: &ModuleReport| match report.state {
        Backoff | Failed => true,
        // It failed before and is tried again; or what was good before it runs in its place.
        Pulling | Starting | Running => report.reason.is_some(),
        // Every end has a reason, and this one is as it should be.
        Ended => false,
    };
    let broken = states.iter().find(|(_, report)| broken(report));
    if let Some((module, report)) = broken {
        let why = report.reason.as_deref().unwrap_or("it does not run");
        let reason = format!("module {module}: {why}");
        return Outcome::Failed { reason };
    }
    let done = |report: &ModuleReport| match report.state {
        Running | Ended => true,
        Pulling | Starting | Backoff | Failed => false,
    };
    if states.values().all(done) {
        Outcome::Converged
    } else {
        Outcome::Converging
    }
}
