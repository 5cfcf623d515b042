//! What a node says of itself: reports, which must not be lost, and heartbeats, which may.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Generation, ModuleName, NodeName, ReportId, Seq, Timestamp};

/// A node's answer to one declaration, or a later change of its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What makes it this report and no other.
    pub id: ReportId,
    /// When the node said it, by its own clock.
    pub at: Timestamp,
    /// What became of the declaration.
    pub outcome: Outcome,
    /// Every module the declaration names, and every one it no longer names but that still runs.
    pub modules: BTreeMap<ModuleName, ModuleReport>,
}

/// What became of a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// Everything runs as declared.
    Converged,
    /// It is being worked on.
    Converging,
    /// Something could not be carried out; the rest was.
    Failed {
        /// What and why, in one sentence.
        reason: String,
    },
}

impl Outcome {
    /// The word for tables and metric labels.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Converging => "converging",
            Self::Failed { .. } => "failed",
        }
    }
}

/// One module on one node, as the node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleReport {
    /// The release it runs.
    pub release: String,
    /// What it is doing.
    pub state: ModuleState,
    /// Its process, while it has one.
    pub pid: Option<u32>,
    /// How often it was started again since it was declared.
    pub restarts: u32,
    /// Why it is not running, when it is not; or why it does not run as it was declared.
    pub reason: Option<String>,
    /// The digest of the image it runs, `sha256:…`, where it is a container.
    pub image: Option<String>,
    /// How it ended last, if it ever did since it was declared.
    pub last_exit: Option<LastExit>,
    /// How often it was put back by the agent after somebody else had changed or removed it.
    pub repairs: u32,
}

/// One end of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastExit {
    /// When, by the node's clock.
    pub at: Timestamp,
    /// How, in one sentence.
    pub how: String,
}

/// What a module is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleState {
    /// Its image is being fetched.
    Pulling,
    /// Waiting for its turn, or started and not healthy yet.
    Starting,
    /// Its process runs.
    Running,
    /// It ended and waits to be started again.
    Backoff,
    /// It ended and is not to be started again.
    Ended,
    /// It cannot be started.
    Failed,
}

impl ModuleState {
    /// The word for tables and metric labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pulling => "pulling",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Backoff => "backoff",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// A node's sign of life. Changes nothing durable; carries enough to see that a report was let go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Who.
    pub node: NodeName,
    /// Which run of the agent: its start time in milliseconds, so that a later run is greater.
    pub session: u64,
    /// The newest declaration it has finished applying.
    pub applied: Option<Generation>,
    /// Its newest report.
    pub seq: Seq,
    /// It misses the idle heartbeat of its consumer: it may hear nothing.
    pub deaf: bool,
    /// The agent's version.
    pub version: String,
    /// How far it is with what takes long, a line for each module: nothing that lasts.
    pub doing: BTreeMap<ModuleName, String>,
}
