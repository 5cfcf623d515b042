//! The versions of a record on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use mesh_model::{
    HandedSecret, Health, LastExit, ModuleName, Probe, PublicKey, Restart, Run, Sealed, SecretName,
    Timestamp, Workload,
};
use serde::{Deserialize, Serialize};

use super::{Phase, Previous, Record, Rejected};
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
    health: Option<HealthV2>,
    /// Which value of each it was handed.
    secrets: BTreeMap<SecretName, u64>,
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
#[serde(deny_unknown_fields)]
struct HealthV2 {
    probe: ProbeV2,
    every_ms: u64,
    within_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProbeV2 {
    Http(String),
    Tcp(String),
    Exec(Vec<String>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RestartV1 {
    Always,
    OnFailure,
    Never,
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
        let secrets = workload.secrets.iter();
        Self {
            module: workload.module.clone(),
            release: workload.release.clone(),
            command: workload.run.argv().map(str::to_owned).collect(),
            after: workload.after.clone(),
            env: workload.env.clone(),
            restart: match workload.restart {
                Restart::Always => RestartV1::Always,
                Restart::OnFailure => RestartV1::OnFailure,
                Restart::Never => RestartV1::Never,
            },
            health: workload.health.as_ref().map(HealthV2::of),
            secrets: secrets
                .map(|(name, handed)| (name.clone(), handed.version))
                .collect(),
            key: workload.key.clone(),
        }
    }

    fn into_workload(self) -> Option<Workload> {
        let handed = |(name, version)| {
            let sealed = Sealed(Vec::new());
            (name, HandedSecret { version, sealed })
        };
        Some(Workload {
            module: self.module,
            release: self.release,
            run: Run::command(self.command)?,
            after: self.after,
            env: self.env,
            restart: match self.restart {
                RestartV1::Always => Restart::Always,
                RestartV1::OnFailure => Restart::OnFailure,
                RestartV1::Never => Restart::Never,
            },
            health: self.health.map(HealthV2::into_health),
            secrets: self.secrets.into_iter().map(handed).collect(),
            pull_secret: None,
            key: self.key,
            credential: Sealed(Vec::new()),
            accepts: BTreeSet::new(),
        })
    }
}

impl HealthV2 {
    fn of(health: &Health) -> Self {
        Self {
            probe: match &health.probe {
                Probe::Http(url) => ProbeV2::Http(url.clone()),
                Probe::Tcp(address) => ProbeV2::Tcp(address.clone()),
                Probe::Exec(command) => ProbeV2::Exec(command.clone()),
            },
            every_ms: health.every,
            within_ms: health.within,
        }
    }

    fn into_health(self) -> Health {
        Health {
            probe: match self.probe {
                ProbeV2::Http(url) => Probe::Http(url),
                ProbeV2::Tcp(address) => Probe::Tcp(address),
                ProbeV2::Exec(command) => Probe::Exec(command),
            },
            every: self.every_ms,
            within: self.within_ms,
        }
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
