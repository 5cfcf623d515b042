//! What is kept on disk of one instance, so that another agent can go on with it.

mod form;

use mesh_control::convergence::declared_as;
use mesh_model::{LastExit, Timestamp, Workload};

use crate::proc::Identity;

pub(crate) use form::{decode, encode};

/// What is known of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// What it was started as. Its credential is not kept: the process was given a path, not the secret.
    pub(crate) workload: Workload,
    /// It was good once; else it is on trial, or was found bad.
    pub(crate) good: bool,
    /// What was good before it, and comes back if it is bad.
    pub(crate) previous: Option<Previous>,
    /// What was tried in its place.
    pub(crate) rejected: Option<Rejected>,
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// How often it was put back after somebody else had changed it.
    pub(crate) repairs: u32,
    /// How it ended last.
    pub(crate) last_exit: Option<LastExit>,
    /// When this was written.
    pub(crate) at: Timestamp,
    /// How far it came.
    pub(crate) phase: Phase,
}

/// What was good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Previous {
    /// What it was started as.
    pub(crate) workload: Workload,
    /// How it had ended, where it had for good: what is done is not done again.
    pub(crate) ended: Option<String>,
}

/// What was tried and was bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// As what it was declared.
    pub(crate) workload: Workload,
    /// Why it is not what runs.
    pub(crate) reason: String,
}

/// How far an instance came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A process with this mark may exist: written before it does.
    Starting { mark: String },
    /// This is its process.
    Running(Identity),
    /// It ran before the host was started anew: its process is gone, and there is none to look for.
    Gone,
    /// It ended and is not to be started again.
    Ended { reason: String },
}

impl Record {
    /// Of a workload that is started for the first time.
    pub(crate) const fn new(workload: Workload) -> Self {
        Self {
            workload,
            good: false,
            previous: None,
            rejected: None,
            restarts: 0,
            repairs: 0,
            last_exit: None,
            at: Timestamp::from_millis(0),
            phase: Phase::Gone,
        }
    }

    /// Of a workload that takes this one's place. What was good comes back if it is bad: this one, or what this one was
    /// to replace.
    pub(crate) fn replaced_by(&self, workload: Workload) -> Self {
        let good = self.good.then(|| Previous {
            workload: self.workload.clone(),
            ended: match &self.phase {
                Phase::Ended { reason } => Some(reason.clone()),
                _ => None,
            },
        });
        Self {
            previous: good.or_else(|| self.previous.clone()),
            repairs: self.repairs,
            ..Self::new(workload)
        }
    }

    /// Of what comes back since this one is bad.
    pub(crate) fn taken_back(&self, back: Previous, reason: String) -> Self {
        let rejected = Rejected {
            workload: self.workload.clone(),
            reason,
        };
        Self {
            good: true,
            rejected: Some(rejected),
            repairs: self.repairs,
            last_exit: self.last_exit.clone(),
            phase: back
                .ended
                .map_or(Phase::Gone, |reason| Phase::Ended { reason }),
            ..Self::new(back.workload)
        }
    }

    /// Whether this very declaration was tried, and was bad.
    pub(crate) fn rejects(&self, wanted: &Workload) -> bool {
        let rejected = self.rejected.as_ref();
        rejected.is_some_and(|rejected| declared_as(&rejected.workload, wanted))
    }
}

#[cfg(test)]
mod tests;
