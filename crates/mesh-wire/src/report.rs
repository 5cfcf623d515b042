//! What a node says of itself and must not be lost: reports.

mod second;

use std::collections::BTreeMap;

use mesh_model::{
    ModuleName, ModuleReport, ModuleState, Outcome, Report, ReportId, Seq, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::codec::{self, Versions, field_of, line, text};
use crate::declaration::GenerationV1;
use crate::error::{FieldError, WireError};

pub(crate) use second::ReportV2;

const REPORT: &str = "report";

/// The bytes of a report, in the first version that can say it.
pub fn encode_report(report: &Report) -> Vec<u8> {
    codec::write(&ReportForm::from(report))
}

/// The report in these bytes. Whether the node it names is the one that sent it is not known here.
pub fn decode_report(bytes: &[u8]) -> Result<Report, WireError> {
    let (found, report) = match codec::read(bytes)? {
        ReportForm::V1(form) => (1, form.try_into()),
        ReportForm::V2(form) => (2, form.try_into()),
    };
    let report = report.map_err(field_of(REPORT))?;
    codec::no_later(REPORT, found, version(&report))?;
    Ok(report)
}

/// The body alone: where it is kept, its version stands beside it.
pub(crate) fn kept_report(report: &Report) -> Vec<u8> {
    match report.into() {
        ReportForm::V1(form) => codec::write(&form),
        ReportForm::V2(form) => codec::write(&form),
    }
}

/// The first version that can say it, and so the only one it is written in.
pub(crate) fn version(report: &Report) -> u8 {
    if report.modules.values().any(second::says_more) {
        2
    } else {
        1
    }
}

#[derive(Serialize, Deserialize)]
enum ReportForm {
    V1(ReportV1),
    V2(ReportV2),
}

impl Versions for ReportForm {
    const WHAT: &'static str = REPORT;
    const KNOWN: u32 = 2;
}

impl From<&Report> for ReportForm {
    fn from(report: &Report) -> Self {
        if version(report) > 1 {
            Self::V2(report.into())
        } else {
            Self::V1(report.into())
        }
    }
}

/// On the wire and on disk alike: neither can change it, and either may get a version of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReportV1 {
    node: String,
    generation: GenerationV1,
    seq: u64,
    at_millis: u64,
    outcome: OutcomeV1,
    modules: BTreeMap<String, ModuleReportV1>,
}

#[derive(Serialize, Deserialize)]
enum OutcomeV1 {
    Converged,
    Converging,
    Failed { reason: String },
}

#[derive(Serialize, Deserialize)]
struct ModuleReportV1 {
    release: String,
    state: ModuleStateV1,
    pid: Option<u32>,
    restarts: u32,
    reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
enum ModuleStateV1 {
    Starting,
    Running,
    Backoff,
    Ended,
    Failed,
}

impl From<&Report> for ReportV1 {
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

impl TryFrom<ReportV1> for Report {
    type Error = FieldError;
    fn try_from(form: ReportV1) -> Result<Self, FieldError> {
        Ok(Self {
            id: ReportId {
                node: text("node", form.node)?,
                generation: form.generation.into(),
                seq: Seq(form.seq),
            },
            at: Timestamp::from_millis(form.at_millis),
            outcome: form.outcome.try_into()?,
            modules: form
                .modules
                .into_iter()
                .map(|(name, module)| {
                    Ok((text::<ModuleName>("modules", name)?, module.try_into()?))
                })
                .collect::<Result<_, FieldError>>()?,
        })
    }
}

impl From<&Outcome> for OutcomeV1 {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Converged => Self::Converged,
            Outcome::Converging => Self::Converging,
            Outcome::Failed { reason } => Self::Failed {
                reason: reason.clone(),
            },
        }
    }
}

impl TryFrom<OutcomeV1> for Outcome {
    type Error = FieldError;
    fn try_from(form: OutcomeV1) -> Result<Self, FieldError> {
        Ok(match form {
            OutcomeV1::Converged => Self::Converged,
            OutcomeV1::Converging => Self::Converging,
            OutcomeV1::Failed { reason } => Self::Failed {
                reason: line("outcome", reason)?,
            },
        })
    }
}

impl From<&ModuleReport> for ModuleReportV1 {
    fn from(module: &ModuleReport) -> Self {
        Self {
            release: module.release.clone(),
            state: module.state.into(),
            pid: module.pid,
            restarts: module.restarts,
            reason: module.reason.clone(),
        }
    }
}

impl TryFrom<ModuleReportV1> for ModuleReport {
    type Error = FieldError;
    fn try_from(form: ModuleReportV1) -> Result<Self, FieldError> {
        let reason = form.reason.map(|reason| line("reason", reason));
        Ok(Self {
            release: line("release", form.release)?,
            state: form.state.into(),
            pid: form.pid,
            restarts: form.restarts,
            reason: reason.transpose()?,
            image: None,
            last_exit: None,
            repairs: 0,
        })
    }
}

impl From<ModuleState> for ModuleStateV1 {
    fn from(state: ModuleState) -> Self {
        match state {
            // A module whose image is fetched is never written in this version.
            ModuleState::Pulling | ModuleState::Starting => Self::Starting,
            ModuleState::Running => Self::Running,
            ModuleState::Backoff => Self::Backoff,
            ModuleState::Ended => Self::Ended,
            ModuleState::Failed => Self::Failed,
        }
    }
}

impl From<ModuleStateV1> for ModuleState {
    fn from(form: ModuleStateV1) -> Self {
        match form {
            ModuleStateV1::Starting => Self::Starting,
            ModuleStateV1::Running => Self::Running,
            ModuleStateV1::Backoff => Self::Backoff,
            ModuleStateV1::Ended => Self::Ended,
            ModuleStateV1::Failed => Self::Failed,
        }
    }
}
