//! What is kept is found again, and what is not understood is said so.

use std::os::unix::fs::PermissionsExt;

use mesh_model::{
    Declaration, Generation, ModuleReport, ModuleState, Outcome, PublicKey, Report, ReportId,
    Restart, Run, Sealed, Timestamp, Workload,
};

use super::*;

fn remembered() -> Remembered {
    let generation = Generation {
        incarnation: 1_796_000_000,
        counter: 7,
    };
    let workload = Workload {
        module: "mailer".parse().unwrap(),
        release: "1.4.0".to_owned(),
        run: Run::command(["mailer".to_owned(), "--fast".to_owned()]).unwrap(),
        after: ["db".parse().unwrap()].into(),
        env: [("LOG".to_owned(), "info".to_owned())].into(),
        restart: Restart::OnFailure,
        key: PublicKey::from_raw([0; 32]),
        credential: Sealed(vec![1, 2, 255]),
        health: None,
        secrets: [].into(),
        pull_secret: None,
        accepts: [].into(),
    };
    let report = Report {
        id: ReportId {
            node: "web-1".parse().unwrap(),
            generation,
            seq: Seq(3),
        },
        at: Timestamp::from_millis(1_796_000_000_123),
        outcome: Outcome::Converged,
        modules: [(
            "mailer".parse().unwrap(),
            ModuleReport {
                release: "1.4.0".to_owned(),
                state: ModuleState::Running,
                pid: Some(4711),
                restarts: 2,
                reason: None,
                image: None,
                last_exit: None,
                repairs: 0,
            },
        )]
        .into(),
    };
    Remembered {
        declaration: Some(Declaration {
            home: mesh_model::Home::Here,
            node: "web-1".parse().unwrap(),
            generation,
            workloads: vec![workload],
        }),
        seq: Seq(4),
        unsent: vec![report],
    }
}

fn memory(dir: &tempfile::TempDir) -> DiskMemory {
    DiskMemory::new(dir.path().join("remembered.json"))
}

#[tokio::test]
async fn what_is_kept_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(&dir);
    assert_eq!(memory.load().unwrap(), Remembered::default());
    for kept in [Remembered::default(), remembered()] {
        memory.keep(&kept).await.unwrap();
        assert_eq!(memory.load().unwrap(), kept);
    }
    let mode = fs::metadata(&memory.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let names = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names, 1, "nothing but the file is left");
}

/// Bytes of version 1, as they were first written.
#[test]
fn what_the_first_version_wrote_is_read_and_written_again() {
    let bytes = include_str!("v1.json");
    assert_eq!(
        decode(Path::new("f"), bytes.as_bytes()).unwrap(),
        remembered()
    );
    assert_eq!(encode(&remembered()).expose(), bytes);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_leaves_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(&dir);
    memory.keep(&remembered()).await.unwrap();
    // A directory in the way of the name refuses the last step, after everything was written beside it.
    let blocked = DiskMemory::new(dir.path().join("blocked"));
    fs::create_dir(&blocked.path).unwrap();
    fs::write(blocked.path.join("in-the-way"), "").unwrap();
    let why = blocked.keep(&Remembered::default()).await.unwrap_err();
    assert!(why.contains("blocked"), "{why}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    assert_eq!(memory.load().unwrap(), remembered());
}

#[test]
fn what_is_not_understood_is_named_with_what_to_do() {
    let whole = include_str!("v1.json");
    for (bytes, said) in [
        (String::new(), "damaged"),
        (whole.split_at(whole.len() / 2).0.to_owned(), "damaged"),
        (whole.replacen("\"seq\"", "\"sec\"", 1), "damaged"),
        (whole.replacen("\"AAV3", "\"!AV3", 1), "no base64"),
        (whole.replacen("\"AAV3", "\"MAV3", 1), "damaged"),
        ("{\"version\": 0}".to_owned(), "no release wrote version 0"),
        ("{\"version\": 2, \"other\": []}".to_owned(), "version 2"),
    ] {
        assert_ne!(bytes, whole, "{said}");
        let dir = tempfile::tempdir().unwrap();
        let memory = memory(&dir);
        fs::write(&memory.path, &bytes).unwrap();
        let error = memory.load().unwrap_err().to_string();
        assert!(
            error.contains(said) && error.contains("remembered.json") && error.contains("remove"),
            "{error}"
        );

        assert_eq!(memory.load_or_set_aside().unwrap(), Remembered::default());
        let aside = fs::read(dir.path().join("remembered.unread")).unwrap();
        assert_eq!(aside, bytes.as_bytes());
        assert_eq!(memory.load().unwrap(), Remembered::default());
    }
}
