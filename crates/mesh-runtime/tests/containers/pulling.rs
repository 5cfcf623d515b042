//! Images: fetched while what runs goes on, watched, told apart when they do not come, and the one that was declared.

use std::time::Duration;

use mesh_model::{HandedSecret, ModuleState, Sealed};
use mesh_runtime::PullSecret;
use serde_json::{Value, json};

use crate::engine::{Engine, Part, Quirk, digest};
use crate::host::{Host, STALL, sleeper, until, wants};

fn said(id: &str, status: &str) -> Part {
    Part::Line(json!({"id": id, "status": status}))
}

fn moved(id: &str, status: &str, current: u64, total: u64) -> Part {
    let detail = json!({"current": current, "total": total});
    Part::Line(json!({"id": id, "status": status, "progressDetail": detail}))
}

fn failed(message: &str) -> Part {
    Part::Line(json!({"error": message, "errorDetail": {"message": message}}))
}

/// A large image is unpacked in silence, and its pull is cancelled again and again.
/// <https://github.com/hashicorp/nomad/issues/4934>
#[tokio::test]
async fn case_c_8aefa3f_a_silent_extraction_is_waited_for_while_the_old_one_runs() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    let old = engine.only("m");

    let silence = Part::Pause(STALL * 4);
    let slow = vec![
        said("a", "Pulling fs layer"),
        moved("a", "Downloading", 90_000_000, 180_000_000),
        said("a", "Download complete"),
        moved("a", "Extracting", 1, 180_000_000),
        silence,
        said("a", "Pull complete"),
    ];
    engine.delivers("shop:2", slow);
    let mut doing = host.runtime.doing();
    let applied = host.runtime.apply(vec![wants("m", "2", "shop:2")]);
    let looked = async {
        let module = "m".parse().unwrap();
        let line = "extracting 0 of 1 layers, 180.0 of 180.0 MB";
        let says = doing.wait_for(|doing| doing.get(&module).is_some_and(|it| it == line));
        drop(says.await.unwrap());
        let report = host.runtime.states()[&module].clone();
        assert_eq!(
            (report.state, report.release.as_str()),
            (ModuleState::Pulling, "1")
        );
        assert_eq!(engine.only("m").state, "running", "the old one goes on");
    };
    let (applied, ()) = tokio::join!(applied, looked);
    applied.unwrap();
    let report = host.runs("m").await;
    assert_eq!(
        (report.release.as_str(), report.image),
        ("2", Some(digest("shop:2")))
    );
    assert_eq!(
        engine.asked("POST /images/create"),
        2,
        "it was not asked for again"
    );
    assert_ne!(engine.only("m").id, old.id);
    assert!(host.runtime.doing().borrow().is_empty());
}

/// A name that no server resolves: the pull hangs for ever, without a word.
/// <https://github.com/hashicorp/nomad/issues/157>
#[tokio::test]
async fn case_c_a564857_a_registry_that_says_nothing_is_said_and_holds_up_nothing_else() {
    let engine = Engine::start();
    engine.delivers("silent:1", vec![Part::Hang]);
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    let desired = [
        wants("m", "1", "silent:1"),
        wants("other", "1", "shop:1"),
        sleeper("p"),
    ];
    host.apply(desired).await;
    let report = host
        .says("m", "stalled (pulling: asking the registry)")
        .await;
    assert_eq!(report.state, ModuleState::Failed);
    host.runs("other").await;
    host.runs("p").await;
    // It is tried again, and once it answers, it runs.
    engine.delivers("silent:1", vec![]);
    host.runs("m").await;
    host.apply([]).await;
}

#[tokio::test]
async fn a_pull_that_stands_still_is_dropped_though_the_engine_goes_on_saying_so() {
    let engine = Engine::start();
    let mut parts = vec![moved("a", "Downloading", 1_000_000, 2_000_000)];
    for left in (0..40).rev() {
        parts.push(said("a", &format!("Retrying in {left} seconds")));
        parts.push(Part::Pause(Duration::from_millis(50)));
    }
    engine.delivers("shop:1", parts);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    let text = "stalled (pulling 0 of 1 layers, 1.0 of 2.0 MB)";
    host.says("m", text).await;
}

/// An image that cannot fit is downloaded again and again.
/// <https://github.com/balena-os/balena-supervisor/issues/1033>
#[tokio::test]
async fn case_c_94c4996_an_image_that_does_not_fit_is_said_and_tried_again_once_there_is_room() {
    let engine = Engine::start();
    // A disk that little else is written to.
    let disk = tempfile::tempdir_in("/dev/shm").unwrap();
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 32 << 20]).unwrap();
    engine.change(|world| world.root = disk.path().to_owned());
    engine.delivers("shop:1", vec![]);
    let line = |current| moved("a", "Downloading", current, 1 << 50);
    let mut parts = vec![line(1)];
    for current in 2..60 {
        parts.extend([Part::Pause(Duration::from_millis(100)), line(current)]);
    }
    engine.delivers("large:1", parts);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "large:1"), wants("other", "1", "shop:1")])
        .await;
    let report = host.says("m", "disk-full: at least ").await;
    assert_eq!(report.state, ModuleState::Failed);
    host.runs("other").await;
    let pulls = || engine.asked("POST /images/create");
    assert_eq!(pulls(), 2);
    // Long enough for the room to be looked at several times.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(pulls(), 2, "nothing has changed");
    engine.delivers("large:1", vec![]);
    std::fs::remove_file(&ballast).unwrap();
    host.runs("m").await;
    assert_eq!(pulls(), 3);
}

/// What was fetched is not what was declared, and the update is called a success.
/// <https://github.com/balena-os/balena-supervisor/issues/1513>
#[tokio::test]
async fn case_c_abf8788_only_what_is_pinned_is_run_and_the_report_says_what_runs() {
    let engine = Engine::start();
    let pinned = digest("pinned");
    let reference = format!("shop@{pinned}");
    // A registry that delivers something else.
    engine.delivers(&reference, vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", &format!("shop:1@{pinned}"))])
        .await;
    let report = host.says("m", "is pinned to a digest").await;
    assert_eq!(report.state, ModuleState::Failed);
    assert!(engine.of("m").is_empty());

    engine.change(|world| {
        let right = (vec![], Some(pinned.clone()));
        world.registry.insert(reference.clone(), right)
    });
    let report = host.runs("m").await;
    assert_eq!(report.image.as_deref(), Some(pinned.as_str()));
    assert_eq!(engine.only("m").body["Image"], reference.as_str());
    // Another module of the same image: it is there, and nobody is asked.
    let pulls = engine.asked("POST /images/create");
    let both = [
        wants("m", "1", &format!("shop:1@{pinned}")),
        wants("other", "1", &reference),
    ];
    host.apply(both).await;
    host.runs("other").await;
    assert_eq!(engine.asked("POST /images/create"), pulls);
}

#[tokio::test]
async fn why_an_image_does_not_come_is_told_apart() {
    for (message, said) in [
        (
            "unauthorized: authentication required",
            "the registry refuses shop:1",
        ),
        (
            "manifest unknown: manifest unknown",
            "there is no shop:1 at its registry",
        ),
        (
            "dial tcp 127.0.0.1:5000: connect: connection refused",
            "cannot be reached",
        ),
        ("write /x: no space left on device", "disk-full: "),
    ] {
        let engine = Engine::start();
        engine.delivers("shop:1", vec![failed(message)]);
        let host = Host::open(&engine).await;
        host.apply([wants("m", "1", "shop:1")]).await;
        let report = host.says("m", said).await;
        assert!(report.reason.unwrap().contains(message));
    }
    let engine = Engine::start();
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "nowhere:1")]).await;
    host.says("m", "there is no nowhere:1").await;
}

#[tokio::test]
async fn a_tag_is_asked_for_once_a_declaration_and_what_is_there_serves_while_its_registry_is_away()
{
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    // Started again, and made again: the image is the one it had.
    let id = engine.only("m").id;
    engine.change(|world| world.end(&id, 1));
    host.until("m", |it| {
        it.restarts == 1 && it.state == ModuleState::Running
    })
    .await;
    engine.change(|world| world.containers.clear());
    host.until("m", |it| {
        it.repairs == 1 && it.state == ModuleState::Running
    })
    .await;
    assert_eq!(engine.asked("POST /images/create"), 1);

    engine.delivers("shop:1", vec![failed("dial tcp: connection refused")]);
    host.apply([wants("m", "2", "shop:1")]).await;
    let report = host.runs("m").await;
    assert_eq!(report.release, "2");
    assert_eq!(engine.asked("POST /images/create"), 2);
}

#[tokio::test]
async fn a_registrys_password_is_told_as_engines_read_it_and_to_nobody_else() {
    let engine = Engine::start();
    engine.delivers("r.example/shop:1", vec![]);
    let mut wanted = wants("m", "1", "r.example/shop:1");
    // In the usual alphabet of base 64 these become signs that engines do not take.
    let secret = "user:>>>???~~~";
    wanted.pull_secret = Some(PullSecret::new(secret.as_bytes().to_vec()));
    wanted.workload.pull_secret = Some(HandedSecret {
        version: 1,
        sealed: Sealed(b"sealed".to_vec()),
    });
    let host = Host::open(&engine).await;
    host.apply([wanted]).await;
    host.runs("m").await;
    let logins = engine.world().logins.clone();
    let [login] = logins.as_slice() else {
        panic!("{logins:?}");
    };
    assert!(!login.contains(['+', '/']), "{login}");
    let made = engine.only("m").body.to_string();
    assert!(!made.contains(">>>") && !made.contains("sealed"), "{made}");

    let mut wrong = wants("m", "2", "r.example/shop:1");
    wrong.pull_secret = Some(PullSecret::new(b"no-colon-in-it".to_vec()));
    host.apply([wrong]).await;
    let report = host.says("m", "user:password").await;
    assert!(!report.reason.unwrap().contains("no-colon"));
    let report: Value = engine.only("m").body["Labels"]["mesh.release"].clone();
    assert_eq!(report, "1", "what ran runs on");
}

#[tokio::test]
async fn a_pull_gives_way_to_what_is_declared_instead() {
    let engine = Engine::start();
    engine.delivers("slow:1", vec![said("a", "Pulling fs layer"), Part::Hang]);
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    let first = host.runtime.apply(vec![wants("m", "1", "slow:1")]);
    let newer = async {
        until("it pulls", || engine.asked("POST /images/create") == 1).await;
        host.apply([wants("m", "2", "shop:1")]).await
    };
    let (first, _) = tokio::join!(first, newer);
    first.unwrap();
    assert_eq!(host.runs("m").await.release, "2");
    engine.only("m");
}

#[tokio::test]
async fn what_is_to_be_replaced_is_not_said_to_run_when_it_does_not() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    let mut once = wants("once", "1", "shop:1");
    once.workload.restart = mesh_model::Restart::Never;
    host.apply([wants("m", "1", "shop:1"), once]).await;
    let refused = Quirk::Refuse(500, "no");
    engine.quirk("POST", "/start", refused, u32::MAX);
    let ids = [engine.only("m").id, engine.only("once").id];
    engine.change(|world| ids.iter().for_each(|id| world.end(id, 0)));
    host.apply([wants("m", "2", "none:1"), wants("once", "2", "none:1")])
        .await;
    let report = host.says("m", "release 1 does not run").await;
    assert_eq!((report.state, report.pid), (ModuleState::Failed, None));
    let report = host.says("once", "release 1 stands").await;
    assert_eq!((report.state, report.pid), (ModuleState::Ended, None));
}
