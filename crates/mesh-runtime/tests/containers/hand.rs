//! What went wrong in other people's production with what agents run, and does not with containers.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use std::time::Duration;

use mesh_model::{ModuleState, Restart};
use mesh_runtime::EngineChoice;
use serde_json::json;

use crate::engine::{Engine, Quirk};
use crate::host::{ANSWERS, Host, change, sleeper, until, wants};

/// A start fails since the client gives up while the engine still works; asked again, there are two.
/// <https://github.com/hashicorp/nomad/issues/1184>
#[tokio::test]
async fn case_c_5bd425d_a_create_that_takes_too_long_makes_one_container() {
    let engine = Engine::start();
    engine.has_image("shop:1");
    engine.delivers("shop:1", vec![]);
    engine.quirk("POST", "/containers/create", Quirk::Late(ANSWERS * 2), 1);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    assert_eq!(engine.only("m").starts, 1);
}

/// A create succeeds and its answer is lost: asked again, the name is in use.
/// <https://github.com/hashicorp/nomad/issues/24940>
#[tokio::test]
async fn case_c_99f9c1b_a_create_whose_answer_is_lost_is_no_conflict() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    engine.quirk("POST", "/containers/create", Quirk::Lose, 1);
    // So that it is asked to make it a second time.
    engine.quirk("GET", "/containers/json", Quirk::Blind, 3);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    let report = host.runs("m").await;
    let made = engine.only("m");
    assert_eq!((made.name.as_str(), made.starts), ("mesh-m-1", 1));
    assert_eq!((report.restarts, report.repairs), (0, 0));
}

/// A recorded container is gone, and the agent refuses to start.
/// <https://github.com/hashicorp/nomad/issues/159>
#[tokio::test]
async fn case_c_71f96e7_a_container_that_is_gone_when_the_agent_starts_is_made_again() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    drop(host);
    engine.change(|world| world.containers.clear());
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    assert_eq!(engine.only("m").starts, 1);
}

/// What is shown as running has exited while its agent was away.
/// <https://github.com/hashicorp/nomad/issues/627>
#[tokio::test]
async fn case_c_b6c6f73_what_exited_while_the_agent_was_away_is_not_called_running() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let wanted = || {
        let once = {
            let mut once = wants("once", "1", "shop:1");
            once.workload.restart = Restart::Never;
            once
        };
        [wants("always", "1", "shop:1"), once]
    };
    let host = Host::open(&engine).await;
    host.apply(wanted()).await;
    drop(host);
    for module in ["always", "once"] {
        let id = engine.only(module).id;
        engine.change(|world| world.end(&id, 3));
    }
    let host = Host::open(&engine).await;
    let states = host.apply(wanted()).await;
    let once = &states[&"once".parse().unwrap()];
    assert_eq!(once.state, ModuleState::Ended);
    assert_eq!(once.last_exit.as_ref().unwrap().how, "exited with status 3");
    let always = host.runs("always").await;
    assert_eq!(always.restarts, 1);
    assert_eq!(engine.only("once").starts, 1);
}

/// A container that is renamed is taken for one that is down.
/// <https://github.com/moghtech/komodo/issues/1323>
#[tokio::test]
async fn case_c_3d2a552_a_container_is_known_by_its_labels_whatever_it_is_called() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    let id = engine.only("m").id;
    engine.change(|world| world.made(&id).unwrap().name = "4f2a_m".to_owned());
    let report = host.until("m", |it| it.repairs == 1).await;
    assert_eq!(report.state, ModuleState::Running);
    let made = engine.only("m");
    assert_eq!(
        (made.id, made.name.as_str(), made.starts),
        (id, "mesh-m-1", 1)
    );
}

/// A call of the engine hangs, and the agent with it for hours.
/// <https://github.com/Azure/iotedge/issues/2055>
#[tokio::test]
async fn case_c_dcc8b25_an_engine_that_hangs_is_said_and_holds_up_nothing_else() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    engine.quirk("GET", "/", Quirk::Hang, 6);
    let host = Host::open(&engine).await;
    let states = host
        .apply([wants("m", "1", "shop:1"), sleeper("process")])
        .await;
    assert_eq!(
        states[&"process".parse().unwrap()].state,
        ModuleState::Running
    );
    let hangs = &states[&"m".parse().unwrap()];
    let reason = hangs.reason.as_deref().unwrap();
    assert!(reason.contains("engine is unresponsive"), "{reason}");
    host.runs("m").await;
    host.apply([]).await;
}

/// A container that did not start stays when its module is removed.
/// <https://github.com/eclipse-ankaios/ankaios/issues/725>
#[tokio::test]
async fn case_c_b6664a9_a_container_is_removed_whatever_its_state() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let program = "OCI runtime create failed: exec: \"nosuch\": executable file not found in $PATH";
    engine.quirk("POST", "/start", Quirk::Refuse(400, program), u32::MAX);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    let report = host.says("m", "its program cannot be started").await;
    assert_eq!(report.state, ModuleState::Failed);
    assert_eq!(engine.only("m").state, "created");
    host.apply([]).await;
    assert!(engine.of("m").is_empty());

    engine.change(|world| world.quirks.clear());
    for state in ["exited", "paused", "dead", "running"] {
        host.apply([wants("m", "1", "shop:1")]).await;
        host.runs("m").await;
        drop(
            host.apply([wants("other", "1", "shop:1"), wants("m", "1", "shop:1")])
                .await,
        );
        let id = engine.only("m").id;
        engine.change(|world| world.made(&id).unwrap().state = state);
        let states = host.apply([wants("other", "1", "shop:1")]).await;
        assert!(engine.of("m").is_empty(), "{state}");
        assert!(!states.contains_key(&"m".parse().unwrap()), "{state}");
    }
}

/// A module for an engine that a node has not is pending for ever, without a word.
/// <https://github.com/eclipse-ankaios/ankaios/issues/401>
#[tokio::test]
async fn case_c_05e272a_a_node_without_an_engine_says_so_and_runs_the_rest() {
    let engine = Engine::start();
    let nowhere = engine.dir().join("nowhere.sock");
    for (choice, said) in [
        (EngineChoice::Auto(vec![nowhere]), "has no container engine"),
        (EngineChoice::Off, "engine = \"off\""),
    ] {
        let host = Host::choosing(&engine, choice).await;
        let states = host
            .apply([wants("m", "1", "shop:1"), sleeper("process")])
            .await;
        let report = &states[&"m".parse().unwrap()];
        assert_eq!(report.state, ModuleState::Failed);
        assert!(
            report.reason.as_deref().unwrap().contains(said),
            "{report:?}"
        );
        assert_eq!(
            states[&"process".parse().unwrap()].state,
            ModuleState::Running
        );
        assert!(host.apply([]).await.is_empty());
    }
}

/// What cannot be made leaves a volume behind for ever.
/// <https://github.com/eclipse-ankaios/ankaios/issues/110>
#[tokio::test]
async fn case_c_b03921a_a_container_that_cannot_be_made_leaves_nothing_behind() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    engine.change(|world| world.volumes.insert("kept".to_owned(), json!({})));
    let mut bad = wants("m", "1", "shop:1");
    change(&mut bad, |container| {
        container.volumes = ["kept:/kept", "fresh:/fresh", "/missing:/zzz"]
            .map(|volume| volume.parse().unwrap())
            .into();
    });
    let host = Host::open(&engine).await;
    host.apply([bad.clone()]).await;
    host.says("m", "a volume cannot be mounted").await;
    host.apply([]).await;
    assert!(engine.of("m").is_empty());
    let volumes = || -> Vec<_> { engine.world().volumes.keys().cloned().collect() };
    assert_eq!(volumes(), ["kept"], "what was there before is somebody's");

    // Nor what somebody else made while this one was asked for.
    let late = Quirk::Late(Duration::from_millis(200));
    engine.quirk("POST", "/containers/create", late, 1);
    let applied = host.runtime.apply(vec![bad]);
    let theirs = json!({"mesh.owner": "another", "mesh.module": "m"});
    let taken = async {
        until("it is made", || volumes().contains(&"fresh".to_owned())).await;
        engine.change(|world| world.volumes.insert("fresh".to_owned(), theirs));
    };
    let (applied, ()) = tokio::join!(applied, taken);
    applied.unwrap();
    host.says("m", "a volume cannot be mounted").await;
    assert_eq!(volumes(), ["fresh", "kept"]);
}

/// A removal and a creation race, and the name is in use.
/// <https://github.com/eclipse-ankaios/ankaios/issues/261>
#[tokio::test]
async fn case_c_9f1c637_a_creation_waits_until_the_removal_is_done() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    engine.change(|world| world.removal = Duration::from_millis(300));
    let removed = host.runtime.apply(vec![]);
    let again = host.runtime.apply(vec![wants("m", "2", "shop:1")]);
    let (removed, again) = tokio::join!(removed, again);
    removed.unwrap();
    again.unwrap();
    let report = host.runs("m").await;
    assert_eq!((report.release.as_str(), report.repairs), ("2", 0));
    until("the first is gone", || engine.of("m").len() == 1).await;
}

/// A container is gone between its end and its removal, and then its name is in use.
/// <https://github.com/containrrr/watchtower/issues/235>
#[tokio::test]
async fn case_c_7d5125c_a_container_that_is_gone_already_counts_as_removed() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    for at in ["/stop", "/containers/0"] {
        host.apply([wants("m", "1", "shop:1")]).await;
        host.runs("m").await;
        let method = if at == "/stop" { "POST" } else { "DELETE" };
        engine.quirk(method, at, Quirk::Vanish, 1);
        assert!(host.apply([]).await.is_empty(), "{at}");
        assert!(engine.of("m").is_empty());
    }
}
