//! What is kept on disk of one instance, so that another agent can go on with it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use mesh_model::{ModuleName, PublicKey, Restart, Run, Sealed, Timestamp, Workload};
use serde::{Deserialize, Serialize};

use crate::proc::{Identity, numbered};

/// What is known of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// What it was started as. Its credential is not kept: the process was given a path, not the secret.
    pub(crate) workload: Workload,
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// When this was written.
    pub(crate) at: Timestamp,
    /// How far it came.
    pub(crate) phase: Phase,
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

/// The bytes of `record`.
pub(crate) fn encode(record: &Record, boot: &str) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(&Form::V1(V1::of(record, boot)))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The record in `bytes`; nothing when they hold none this version understands.
pub(crate) fn decode(bytes: &[u8], boot: &str) -> Option<Record> {
    let Form::V1(form) = serde_json::from_slice(bytes).ok()?;
    form.into_record(boot)
}

/// Every version that was ever written.
#[derive(Serialize, Deserialize)]
#[serde(tag = "version")]
enum Form {
    #[serde(rename = "1")]
    V1(V1),
}

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
    fn of(record: &Record, boot: &str) -> Self {
        let workload = &record.workload;
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
            key: workload.key.clone(),
            restarts: record.restarts,
            at_ms: record.at.as_millis(),
            phase: match &record.phase {
                Phase::Starting { mark } => PhaseV1::Starting { mark: mark.clone() },
                Phase::Running(process) => PhaseV1::Running {
                    pid: process.pid.as_raw_nonzero().get(),
                    start: process.start,
                    boot: boot.to_owned(),
                },
                Phase::Gone => PhaseV1::Gone,
                Phase::Ended { reason } => PhaseV1::Ended {
                    reason: reason.clone(),
                },
            },
        }
    }

    fn into_record(self, now: &str) -> Option<Record> {
        Some(Record {
            workload: Workload {
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
                key: self.key,
                credential: Sealed(vec![]),
                health: None,
                secrets: [].into(),
                pull_secret: None,
                accepts: [].into(),
            },
            restarts: self.restarts,
            at: Timestamp::from_millis(self.at_ms),
            phase: match self.phase {
                PhaseV1::Starting { mark } => Phase::Starting { mark },
                // Numbers of another run of the kernel are other processes.
                PhaseV1::Running { boot, .. } if boot != now => Phase::Gone,
                PhaseV1::Running { pid, start, .. } => Phase::Running(Identity {
                    pid: numbered(pid)?,
                    start,
                }),
                PhaseV1::Gone => Phase::Gone,
                PhaseV1::Ended { reason } => Phase::Ended { reason },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::*;

    /// As the first version writes it.
    const V1_BYTES: &str = include_str!("record/v1.json");

    fn record() -> Record {
        Record {
            workload: Workload {
                module: "mailer".parse().unwrap(),
                release: "1.4.0".to_owned(),
                run: Run::command(["mailer".to_owned(), "--fast".to_owned()]).unwrap(),
                after: ["db".parse().unwrap()].into(),
                env: [("LOG".to_owned(), "info".to_owned())].into(),
                restart: Restart::OnFailure,
                key: PublicKey::from_raw([0; 32]),
                credential: Sealed(vec![]),
                health: None,
                secrets: [].into(),
                pull_secret: None,
                accepts: [].into(),
            },
            restarts: 2,
            at: Timestamp::from_millis(1_795_000_000_000),
            phase: Phase::Running(Identity {
                pid: Pid::from_raw(4711).unwrap(),
                start: 815,
            }),
        }
    }

    #[test]
    fn what_the_first_version_wrote_is_read() {
        assert_eq!(decode(V1_BYTES.as_bytes(), "boot-a"), Some(record()));
        let written = encode(&record(), "boot-a").unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), V1_BYTES);
    }

    #[test]
    fn a_process_of_another_boot_is_gone() {
        let read = decode(V1_BYTES.as_bytes(), "boot-b").unwrap();
        assert_eq!(read.phase, Phase::Gone);
    }

    #[test]
    fn every_phase_reads_back_and_the_credential_is_not_there() {
        for phase in [
            Phase::Starting {
                mark: "id/mailer/1".to_owned(),
            },
            Phase::Gone,
            Phase::Ended {
                reason: "exited with status 0".to_owned(),
            },
        ] {
            let mut given = Record { phase, ..record() };
            given.workload.credential = Sealed(b"sealed".to_vec());
            let read = decode(&encode(&given, "boot-a").unwrap(), "boot-a").unwrap();
            assert_eq!(read.phase, given.phase);
            assert!(read.workload.runs_as(&given.workload));
            assert_eq!(read.workload.credential, Sealed(vec![]));
        }
    }

    #[test]
    fn what_is_no_record_is_none() {
        for bytes in [
            "",
            "{}",
            "{\"version\":\"2\"}",
            &V1_BYTES.replace("4711", "0"),
            &V1_BYTES.replace("4711", "-4711"),
            &V1_BYTES.replace("mailer", "MAILER"),
        ] {
            assert_eq!(decode(bytes.as_bytes(), "boot-a"), None, "{bytes}");
        }
    }
}
