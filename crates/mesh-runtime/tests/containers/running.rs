//! What runs: left alone, adopted, put back after others, and found again after its engine was away.

use std::time::Duration;

use mesh_model::{Health, ModuleState, Probe, Restart};
use serde_json::json;

use crate::engine::Engine;
use crate::host::{Host, until, wants};

#[tokio::test]
async fn the_next_agent_adopts_what_runs_and_removes_what_is_declared_no_more() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    let both = [wants("stays", "1", "shop:1"), wants("goes", "1", "shop:1")];
    host.apply(both).await;
    let before = engine.only("stays");
    drop(host);
    // Whatever became of its files.
    std::fs::remove_dir_all(engine.dir().join("containers")).unwrap();
    let host = Host::open(&engine).await;
    let states = host.apply([wants("stays", "1", "shop:1")]).await;
    until("gone", || engine.of("goes").is_empty()).await;
    assert_eq!(states.len(), 1);
    let now = engine.only("stays");
    assert_eq!((now.id, now.starts), (before.id, 1));
}

#[tokio::test]
async fn what_is_not_labelled_as_this_agents_is_never_touched() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let foreign = |name: &str, labels: serde_json::Value| {
        engine.change(|world| {
            world
                .images
                .insert("shop:1".to_owned(), "sha256:x".to_owned());
            let body = json!({"Image": "shop:1", "Labels": labels});
            world
                .containers
                .extend(crate::engine::made(world.containers.len(), name, &body));
        });
    };
    foreign("mesh-taken-1", json!({}));
    foreign(
        "mesh-shared-1",
        json!({"mesh.owner": "another", "mesh.module": "shared"}),
    );
    let host = Host::open(&engine).await;
    let desired = [
        wants("taken", "1", "shop:1"),
        wants("shared", "1", "shop:1"),
    ];
    host.apply(desired).await;
    let report = host.says("taken", "the name mesh-taken-1 is taken").await;
    assert_eq!(report.state, ModuleState::Failed);
    host.runs("shared").await;
    host.apply([]).await;
    let left: Vec<_> = engine
        .world()
        .containers
        .iter()
        .map(|it| (it.name.clone(), it.state))
        .collect();
    let expected = ["mesh-taken-1", "mesh-shared-1"].map(|name| (name.to_owned(), "created"));
    assert_eq!(left, expected);
}

#[tokio::test]
async fn what_others_do_to_it_is_put_right_and_counted() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    let id = engine.only("m").id;
    engine.change(|world| world.made(&id).unwrap().state = "paused");
    host.until("m", |it| it.repairs == 1).await;
    until("it goes on", || engine.only("m").state == "running").await;
    assert_eq!(engine.only("m").starts, 1);
    engine.change(|world| world.end(&id, 137));
    let report = host
        .until("m", |it| {
            it.restarts == 1 && it.state == ModuleState::Running
        })
        .await;
    assert_eq!(report.repairs, 2);
    assert_eq!(report.last_exit.unwrap().how, "killed by signal 9");
    engine.change(|world| world.containers.clear());
    let report = host
        .until("m", |it| {
            it.repairs == 3 && it.state == ModuleState::Running
        })
        .await;
    assert_eq!(report.restarts, 1);
    assert_ne!(engine.only("m").id, id);
    // An end of its own is none of it.
    let id = engine.only("m").id;
    engine.change(|world| world.end(&id, 3));
    let report = host
        .until("m", |it| {
            it.restarts == 2 && it.state == ModuleState::Running
        })
        .await;
    assert_eq!(report.repairs, 3);
}

#[tokio::test]
async fn a_module_ends_as_its_restart_says() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    for (restart, code, state) in [
        (Restart::Never, 0, ModuleState::Ended),
        (Restart::OnFailure, 0, ModuleState::Ended),
        (Restart::OnFailure, 1, ModuleState::Running),
        (Restart::Always, 0, ModuleState::Running),
    ] {
        let mut wanted = wants("m", &format!("{restart:?}{code}"), "shop:1");
        wanted.workload.restart = restart;
        host.apply([wanted]).await;
        host.runs("m").await;
        let id = engine.only("m").id;
        engine.change(|world| world.end(&id, code));
        let again = u32::from(state == ModuleState::Running);
        let report = host
            .until("m", |it| {
                it.state == state && it.restarts == again && it.last_exit.is_some()
            })
            .await;
        let how = format!("exited with status {code}");
        assert_eq!(report.last_exit.unwrap().how, how);
    }
}

#[tokio::test]
async fn a_job_is_done_only_if_it_was_seen_to_end_by_itself() {
    let mut engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let wanted = || {
        let restarts = [("job", Restart::OnFailure), ("once", Restart::Never)];
        restarts.map(|(module, restart)| {
            let mut wanted = wants(module, "1", "shop:1");
            wanted.workload.restart = restart;
            wanted
        })
    };
    let end = |module: &str| {
        let id = engine.only(module).id;
        engine.change(|world| world.end(&id, 0));
    };
    let starts = |module: &str| engine.only(module).starts;
    let host = Host::open(&engine).await;
    host.apply(wanted()).await;
    drop(host);
    // With its host, as far as anybody can tell.
    end("job");
    end("once");
    let host = Host::open(&engine).await;
    host.apply(wanted()).await;
    host.until("job", |it| {
        it.state == ModuleState::Running && it.restarts == 1
    })
    .await;
    host.until("once", |it| it.state == ModuleState::Ended)
        .await;
    assert_eq!((starts("job"), starts("once")), (2, 1));

    // Seen, and so it stays, for the next agent, too.
    end("job");
    host.until("job", |it| it.state == ModuleState::Ended).await;
    drop(host);
    let host = Host::open(&engine).await;
    host.apply(wanted()).await;
    host.until("job", |it| it.state == ModuleState::Ended).await;
    assert_eq!(starts("job"), 2);

    // With its engine.
    let mut again = wants("again", "1", "shop:1");
    again.workload.restart = Restart::OnFailure;
    host.apply([again]).await;
    host.runs("again").await;
    let id = engine.only("again").id;
    engine.away().await;
    host.says("again", "the container engine is away").await;
    engine.change(|world| world.end(&id, 0));
    engine.serve();
    host.until("again", |it| {
        it.state == ModuleState::Running && it.restarts == 1
    })
    .await;
}

#[tokio::test]
async fn a_job_that_failed_for_good_stays_failed_for_the_next_agent_too() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    engine.delivers("bad:1", vec![]);
    engine.change(|world| world.crashes.insert("bad:1".to_owned(), 1));
    let once = |module: &str, image: &str| {
        let mut wanted = wants(module, "1", image);
        wanted.workload.restart = Restart::Never;
        wanted
    };
    let wanted = || {
        let mut sick = once("sick", "shop:1");
        sick.workload.health = Some(Health {
            probe: Probe::Tcp("127.0.0.1:1".to_owned()),
            every: 50,
            within: 150,
        });
        [once("crashes", "bad:1"), sick]
    };
    for _ in 0..2 {
        let host = Host::open(&engine).await;
        host.apply(wanted()).await;
        for _ in 0..6 {
            for module in ["crashes", "sick"] {
                let report = &host.runtime.states()[&module.parse().unwrap()];
                assert_eq!(report.state, ModuleState::Failed, "{report:?}");
            }
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        assert_eq!(
            (engine.only("crashes").starts, engine.only("sick").starts),
            (1, 1)
        );
    }
}

#[tokio::test]
async fn an_engine_that_is_away_is_said_and_what_ran_on_is_adopted_when_it_is_back() {
    let mut engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([
        wants("runs-on", "1", "shop:1"),
        wants("ends", "1", "shop:1"),
    ])
    .await;
    engine.away().await;
    let report = host.says("runs-on", "the container engine is away").await;
    assert_eq!(
        report.state,
        ModuleState::Running,
        "nobody has said that it ended"
    );
    let id = engine.only("ends").id;
    engine.change(|world| world.end(&id, 137));
    engine.serve();
    host.runs("runs-on").await;
    let report = host
        .until("ends", |it| it.restarts == 1 && it.reason.is_none())
        .await;
    assert_eq!(report.repairs, 0, "it ended with its engine");
    assert_eq!(engine.only("runs-on").starts, 1);
    assert_eq!(engine.only("ends").id, id);
}

#[tokio::test]
async fn what_the_engine_finishes_after_it_was_given_up_is_removed() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    let stray = wants("stray", "1", "shop:1");
    host.apply([stray]).await;
    host.runs("stray").await;
    let container = engine.only("stray");
    host.apply([]).await;
    // A create that was on its way for a very long time.
    engine.change(|world| world.containers.push(container));
    tokio::time::sleep(Duration::from_millis(50)).await;
    host.apply([wants("other", "1", "shop:1")]).await;
    until("it is gone", || engine.of("stray").is_empty()).await;
}
