//! What was ever written is read.

use mesh_model::{HandedSecret, Health, Probe, PublicKey, Restart, Run, Sealed};
use rustix::process::Pid;

use super::*;

/// As the first version wrote it.
const V1_BYTES: &str = include_str!("v1.json");

/// As the second version writes it.
const V2_BYTES: &str = include_str!("v2.json");

fn workload(release: &str) -> Workload {
    Workload {
        module: "mailer".parse().unwrap(),
        release: release.to_owned(),
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
    }
}

/// What the first version can say.
fn early() -> Record {
    Record {
        good: true,
        restarts: 2,
        at: Timestamp::from_millis(1_795_000_000_000),
        phase: Phase::Running(Identity {
            pid: Pid::from_raw(4711).unwrap(),
            start: 815,
        }),
        ..Record::new(workload("1.4.0"))
    }
}

fn record() -> Record {
    let secret = HandedSecret {
        version: 3,
        sealed: Sealed(vec![]),
    };
    let asked = |probe| {
        Some(Health {
            probe,
            every: 5_000,
            within: 30_000,
        })
    };
    Record {
        workload: Workload {
            health: asked(Probe::Http("http://127.0.0.1:8025/".to_owned())),
            secrets: [("SMTP_PASSWORD".parse().unwrap(), secret)].into(),
            ..workload("1.4.0")
        },
        previous: Some(Previous {
            workload: Workload {
                health: asked(Probe::Tcp("127.0.0.1:8025".to_owned())),
                ..workload("1.3.0")
            },
            ended: Some("exited with status 0".to_owned()),
        }),
        rejected: Some(Rejected {
            workload: Workload {
                health: asked(Probe::Exec(vec!["check".to_owned()])),
                ..workload("1.5.0")
            },
            reason: "release 1.5.0: exited with status 3; release 1.4.0 runs again".to_owned(),
        }),
        good: false,
        repairs: 1,
        last_exit: Some(LastExit {
            at: Timestamp::from_millis(1_794_999_999_999),
            how: "killed by signal 9".to_owned(),
        }),
        ..early()
    }
}

#[test]
fn what_the_first_version_wrote_is_read() {
    assert_eq!(decode(V1_BYTES.as_bytes(), "boot-a"), Some(early()));
}

#[test]
fn what_the_second_version_wrote_is_read() {
    assert_eq!(decode(V2_BYTES.as_bytes(), "boot-a"), Some(record()));
    let written = encode(&record(), "boot-a").unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), V2_BYTES);
}

#[test]
fn a_process_of_another_boot_is_gone() {
    for bytes in [V1_BYTES, V2_BYTES] {
        let read = decode(bytes.as_bytes(), "boot-b").unwrap();
        assert_eq!(read.phase, Phase::Gone);
    }
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
        "{\"version\":\"3\"}",
        &V1_BYTES.replace("4711", "0"),
        &V1_BYTES.replace("4711", "-4711"),
        &V1_BYTES.replace("mailer", "MAILER"),
        &V2_BYTES.replace("mailer", "MAILER"),
    ] {
        assert_eq!(decode(bytes.as_bytes(), "boot-a"), None, "{bytes}");
    }
}

#[test]
fn what_was_good_comes_back_however_many_were_tried_after_it() {
    let good = Record {
        good: true,
        ..Record::new(workload("1"))
    };
    let first = |ended| {
        Some(Previous {
            workload: workload("1"),
            ended,
        })
    };
    let second = good.replaced_by(workload("2"));
    assert_eq!(second.previous, first(None));
    let third = second.replaced_by(workload("3"));
    assert_eq!(third.previous, first(None));
    let back = third.taken_back(first(None).unwrap(), "why".to_owned());
    assert!(back.good && back.rejects(&workload("3")) && !back.rejects(&workload("4")));
    assert_eq!(back.replaced_by(workload("4")).previous, first(None));

    let done = || Some("exited with status 0".to_owned());
    let reason = done().unwrap();
    let phase = Phase::Ended { reason };
    let over = Record {
        phase: phase.clone(),
        ..good
    };
    let next = over.replaced_by(workload("2"));
    assert_eq!(next.previous, first(done()));
    let back = next.taken_back(first(done()).unwrap(), "why".to_owned());
    assert_eq!(back.phase, phase);
}
