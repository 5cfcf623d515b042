//! The versions of a record on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use mesh_model::{LastExit, ModuleName, PublicKey, Run, Sealed, Timestamp, Workload};
use serde::{Deserialize, Serialize};

use super::{Phase, Previous, Record, Rejected};
use crate::parts::{HealthV1, RestartV1, VersionsV1, valueless, versions};
use crate::proc::{Identity, numbered};

/// The bytes of `record`.
pub(crate) fn encode(record: &Record, boot: &str) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(&Form::V2(Box::new(V2::of(record, boot))))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The record in `bytes`; nothing when they hold none this version understands.
pub(crate) fn decode(bytes: &[u8], boot: &str) -> Option<Record> {
    match serde_json::from_slice(bytes).ok()? {
        Form::V1(form) => form.into_record(boot),
        Form::V2(form) => form.into_record(boot),
    }
}

/// Every version that was ever written.
#[derive(Serialize, Deserialize)]
#[serde(tag = "version")]
enum Form {
    #[serde(rename = "1")]
    V1(V1),
    #[serde(rename = "2")]
    V2(Box<V2>),
}

/// Before a start could be good or bad.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1 {
    module: ModuleName,
    release: String,
    command: Vec<String>,
    after: BTreeSet<ModuleName>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    key: PublicKey,
    restarts: u32,
    at_ms: u64,
    phase: PhaseV1,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V2 {
    workload: WorkloadV2,
    good: bool,
    previous: Option<PreviousV2>,
    rejected: Option<RejectedV2>,
    restarts: u32,
    repairs: u32,
    last_exit: Option<LastExitV2>,
    at_ms: u64,
    phase: PhaseV1,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadV2 {
    module: ModuleName,
    release: String,
    command: Vec<String>,
    after: BTreeSet<ModuleName>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    health: Option<HealthV1>,
    secrets: VersionsV1,
    key: PublicKey,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreviousV2 {
    workload: WorkloadV2,
    ended: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectedV2 {
    workload: WorkloadV2,
    reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LastExitV2 {
    at_ms: u64,
    how: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PhaseV1 {
    Starting { mark: String },
    Running { pid: i32, start: u64, boot: String },
    Gone,
    Ended { reason: String },
}

impl V1 {
    fn into_record(self, now: &str) -> Option<Record> {
        let workload = WorkloadV2 {
            module: self.module,
            release: self.release,
            command: self.command,
            after: self.after,
            env: self.env,
            restart: self.restart,
            health: None,
            secrets: BTreeMap::new(),
            key: self.key,
        };
        Some(Record {
            // What ran was good: there was nothing else it could be.
            good: true,
            restarts: self.restarts,
            at: Timestamp::from_millis(self.at_ms),
            phase: self.phase.into_phase(now)?,
            ..Record::new(workload.into_workload()?)
        })
    }
}

impl V2 {
    fn of(record: &Record, boot: &str) -> Self {
        Self {
            workload: WorkloadV2::of(&record.workload),
            good: record.good,
            previous: record.previous.as_ref().map(|previous| PreviousV2 {
                workload: WorkloadV2::of(&previous.workload),
                ended: previous.ended.clone(),
            }),
            rejected: record.rejected.as_ref().map(|rejected| RejectedV2 {
                workload: WorkloadV2::of(&rejected.workload),
                reason: rejected.reason.clone(),
            }),
            restarts: record.restarts,
            repairs: record.repairs,
            last_exit: record.last_exit.as_ref().map(|exit| LastExitV2 {
                at_ms: exit.at.as_millis(),
                how: exit.how.clone(),
            }),
            at_ms: record.at.as_millis(),
            phase: PhaseV1::of(&record.phase, boot),
        }
    }

    fn into_record(self, now: &str) -> Option<Record> {
        let previous = self.previous.map(|previous| {
            Some(Previous {
                workload: previous.workload.into_workload()?,
                ended: previous.ended,
            })
        });
        let rejected = self.rejected.map(|rejected| {
            Some(Rejected {
                workload: rejected.workload.into_workload()?,
                reason: rejected.reason,
            })
        });
        Some(Record {
            workload: self.workload.into_workload()?,
            good: self.good,
            // What cannot be read cannot come back; what runs is known all the same.
            previous: previous.flatten(),
            rejected: rejected.flatten(),
            restarts: self.restarts,
            repairs: self.repairs,
            last_exit: self.last_exit.map(|exit| LastExit {
                at: Timestamp::from_millis(exit.at_ms),
                how: exit.how,
            }),
            at: Timestamp::from_millis(self.at_ms),
            phase: self.phase.into_phase(now)?,
        })
    }
}

impl WorkloadV2 {
    fn of(workload: &Workload) -> Self {
        Self {
            module: workload.module.clone(),
            release: workload.release.clone(),
            command: workload.run.argv().map(str::to_owned).collect(),
            after: workload.after.clone(),
            env: workload.env.clone(),
            restart: workload.restart.into(),
            health: workload.health.as_ref().map(Into::into),
            secrets: versions(&workload.secrets),
            key: workload.key.clone(),
        }
    }

    fn into_workload(self) -> Option<Workload> {
        Some(Workload {
            module: self.module,
            release: self.release,
            run: Run::command(self.command)?,
            after: self.after,
            env: self.env,
            restart: self.restart.into(),
            health: self.health.map(Into::into),
            secrets: valueless(self.secrets),
            pull_secret: None,
            key: self.key,
            credential: Sealed(Vec::new()),
            accepts: BTreeSet::new(),
        })
    }
}

impl PhaseV1 {
    fn of(phase: &Phase, boot: &str) -> Self {
        match phase {
            Phase::Starting { mark } => Self::Starting { mark: mark.clone() },
            Phase::Running(process) => Self::Running {
                pid: process.pid.as_raw_nonzero().get(),
                start: process.start,
                boot: boot.to_owned(),
            },
            Phase::Gone => Self::Gone,
            Phase::Ended { reason } => Self::Ended {
                reason: reason.clone(),
            },
        }
    }

    fn into_phase(self, now: &str) -> Option<Phase> {
        Some(match self {
            Self::Starting { mark } => Phase::Starting { mark },
            // Numbers of another run of the kernel are other processes.
            Self::Running { boot, .. } if boot != now => Phase::Gone,
            Self::Running { pid, start, .. } => Phase::Running(Identity {
                pid: numbered(pid)?,
                start,
            }),
            Self::Gone => Phase::Gone,
            Self::Ended { reason } => Phase::Ended { reason },
        })
    }
}
