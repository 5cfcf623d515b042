//! The version of a report that knows of images, of how a module ended last, and of repairs.

use std::collections::BTreeMap;

use mesh_model::{
    LastExit, ModuleName, ModuleReport, ModuleState, Report, ReportId, Seq, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::OutcomeV1;
use crate::codec::{line, text};
use crate::declaration::GenerationV1;
use crate::error::FieldError;

/// Whether a module's report says what the first version cannot.
pub(super) fn says_more(module: &ModuleReport) -> bool {
    module.state == ModuleState::Pulling
        || module.image.is_some()
        || module.last_exit.is_some()
        || module.repairs != 0
}

/// On the wire and on disk alike, as the version before it.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReportV2 {
    node: String,
    generation: GenerationV1,
    seq: u64,
    at_millis: u64,
    outcome: OutcomeV1,
    modules: BTreeMap<String, ModuleReportV2>,
}

#[derive(Serialize, Deserialize)]
struct ModuleReportV2 {
    release: String,
    state: ModuleStateV2,
    pid: Option<u32>,
    restarts: u32,
    reason: Option<String>,
    image: Option<String>,
    last_exit: Option<LastExitV2>,
    repairs: u32,
}

#[derive(Serialize, Deserialize)]
struct LastExitV2 {
    at_millis: u64,
    how: String,
}

#[derive(Serialize, Deserialize)]
enum ModuleStateV2 {
    Pulling,
    Starting,
    Running,
    Backoff,
    Ended,
    Failed,
}

impl From<&Report> for ReportV2 {
    fn from(report: &Report) -> Self {
        let modules = report.modules.iter();
        Self {
            node: report.id.node.to_string(),
            generation: report.id.generation.into(),
            seq: report.id.seq.0,
            at_millis: report.at.as_millis(),
            outcome: (&report.outcome).into(),
            modules: modules
                .map(|(name, module)| (name.to_string(), module.into()))
                .collect(),
        }
    }
}

impl TryFrom<ReportV2> for Report {
    type Error = FieldError;
    fn try_from(form: ReportV2) -> Result<Self, FieldError> {
        let modules = form.modules.into_iter();
        Ok(Self {
            id: ReportId {
                node: text("node", form.node)?,
                generation: form.generation.into(),
                seq: Seq(form.seq),
            },
            at: Timestamp::from_millis(form.at_millis),
            outcome: form.outcome.try_into()?,
            modules: modules
                .map(|(name, module)| {
                    Ok((text::<ModuleName>("modules", name)?, module.try_into()?))
                })
                .collect::<Result<_, FieldError>>()?,
        })
    }
}

impl From<&ModuleReport> for ModuleReportV2 {
    fn from(module: &ModuleReport) -> Self {
        Self {
            release: module.release.clone(),
            state: module.state.into(),
            pid: module.pid,
            restarts: module.restarts,
            reason: module.reason.clone(),
            image: module.image.clone(),
            last_exit: module.last_exit.as_ref().map(|exit| LastExitV2 {
                at_millis: exit.at.as_millis(),
                how: exit.how.clone(),
            }),
            repairs: module.repairs,
        }
    }
}

impl TryFrom<ModuleReportV2> for ModuleReport {
    type Error = FieldError;
    fn try_from(form: ModuleReportV2) -> Result<Self, FieldError> {
        let shown = |field, text: Option<String>| text.map(|text| line(field, text)).transpose();
        let last_exit = |exit: LastExitV2| {
            Ok(LastExit {
                at: Timestamp::from_millis(exit.at_millis),
                how: line("last_exit", exit.how)?,
            })
        };
        Ok(Self {
            release: line("release", form.release)?,
            state: form.state.into(),
            pid: form.pid,
            restarts: form.restarts,
            reason: shown("reason", form.reason)?,
            image: shown("image", form.image)?,
            last_exit: form.last_exit.map(last_exit).transpose()?,
            repairs: form.repairs,
        })
    }
}

impl From<ModuleState> for ModuleStateV2 {
    fn from(state: ModuleState) -> Self {
        match state {
            ModuleState::Pulling => Self::Pulling,
            ModuleState::Starting => Self::Starting,
            ModuleState::Running => Self::Running,
            ModuleState::Backoff => Self::Backoff,
            ModuleState::Ended => Self::Ended,
            ModuleState::Failed => Self::Failed,
        }
    }
}

impl From<ModuleStateV2> for ModuleState {
    fn from(form: ModuleStateV2) -> Self {
        match form {
            ModuleStateV2::Pulling => Self::Pulling,
            ModuleStateV2::Starting => Self::Starting,
            ModuleStateV2::Running => Self::Running,
            ModuleStateV2::Backoff => Self::Backoff,
            ModuleStateV2::Ended => Self::Ended,
            ModuleStateV2::Failed => Self::Failed,
        }
    }
}
