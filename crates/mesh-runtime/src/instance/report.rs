//! What an instance says of itself.

use mesh_control::convergence::UNHEALTHY;
use mesh_model::{ModuleReport, ModuleState};

use super::{Doing, Instance, Pending};
use crate::record::{Phase, Record};
use crate::vitals::Vitals;

impl Instance {
    /// Says what it is doing, to whoever asks and to whoever plans.
    pub(super) fn show(&self) {
        if let Some(report) = self.report() {
            self.around.board.set(&self.module, report);
        }
        self.tell();
    }

    /// Says to whoever plans what is here.
    pub(super) fn tell(&self) {
        let observed = self.observed();
        self.told.send_if_modified(|told| {
            let new = told.observed != observed;
            told.observed = observed;
            new
        });
    }

    fn report(&self) -> Option<ModuleReport> {
        let desired = self.current.desired.as_ref()?;
        let record = self.record.as_ref();
        let workload = record.map_or(&desired.workload, |record| &record.workload);
        let pid = match &self.doing {
            Doing::Watch(process, _) => Some(process.number()),
            Doing::Nothing | Doing::Wait(_) | Doing::Rest => None,
        };
        Some(ModuleReport {
            release: workload.release.clone(),
            state: self.state(),
            pid,
            restarts: record.map_or(0, |record| record.restarts),
            reason: self.reason(),
            image: None,
            last_exit: record.and_then(|record| record.last_exit.clone()),
            repairs: record.map_or(0, |record| record.repairs),
        })
    }

    fn state(&self) -> ModuleState {
        let trial = self.vitals.as_ref().is_none_or(Vitals::is_trial);
        match (&self.doing, self.pending) {
            (_, Pending::Later(_)) => ModuleState::Failed,
            // Until it is known whether it is good, an end is one step of its start.
            (Doing::Wait(_), _) if !self.has_trouble() => ModuleState::Starting,
            (Doing::Wait(_), _) if self.row.cannot_start => ModuleState::Failed,
            (Doing::Wait(_), _) => ModuleState::Backoff,
            // What was ended since it does not do its work is no job that is done.
            (Doing::Rest, _) if self.was_unhealthy() => ModuleState::Failed,
            (Doing::Rest, _) => ModuleState::Ended,
            (Doing::Watch(..), Pending::No) if !trial => ModuleState::Running,
            (Doing::Nothing | Doing::Watch(..), _) => ModuleState::Starting,
        }
    }

    fn was_unhealthy(&self) -> bool {
        let exit = self
            .record
            .as_ref()
            .and_then(|record| record.last_exit.as_ref());
        let unhealthy = exit.is_some_and(|exit| exit.how.starts_with(UNHEALTHY));
        unhealthy
            && self
                .record
                .as_ref()
                .is_some_and(|record| record.rejected.is_none())
    }

    /// Whether what is against it is more than one failed attempt of several.
    fn has_trouble(&self) -> bool {
        let good = self.record.as_ref().is_some_and(|record| record.good);
        good || self.row.gave_up || matches!(self.pending, Pending::Later(_))
    }

    /// Why it does not run, and why it is not what was declared.
    fn reason(&self) -> Option<String> {
        let ended = |record: &Record| match &record.phase {
            Phase::Ended { reason } => Some(reason.clone()),
            _ => None,
        };
        let own = match self.doing {
            Doing::Rest => self.record.as_ref().and_then(ended),
            _ if self.has_trouble() => self.row.trouble.clone(),
            _ => None,
        };
        let rejected = self.record.as_ref().and_then(|record| {
            let rejected = record.rejected.as_ref()?;
            Some(rejected.reason.clone())
        });
        match (own, rejected) {
            (Some(own), Some(rejected)) => Some(format!("{own} ({rejected})")),
            (own, rejected) => own.or(rejected),
        }
    }
}
