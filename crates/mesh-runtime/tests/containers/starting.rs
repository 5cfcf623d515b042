//! Starts: in their order across both kinds, one at a time as each kind, and the last of many orders.

use mesh_model::ModuleState;

use crate::engine::{Engine, Part, Quirk};
use crate::host::{Host, change, sleeper, until, wants};

#[tokio::test]
async fn what_comes_after_another_waits_for_it_whichever_kind_it_is() {
    let engine = Engine::start();
    engine.delivers(
        "slow:1",
        vec![Part::Pause(std::time::Duration::from_millis(300))],
    );
    engine.delivers("shop:1", vec![]);
    let mut process = sleeper("process");
    process.workload.after = ["slow".parse().unwrap()].into();
    let mut last = wants("last", "1", "shop:1");
    last.workload.after = ["process".parse().unwrap()].into();
    let free = wants("free", "1", "shop:1");
    let host = Host::open(&engine).await;
    let applied = host
        .runtime
        .apply(vec![process, last, free, wants("slow", "1", "slow:1")]);
    let looked = async {
        host.runs("free").await;
        let states = host.runtime.states();
        assert_eq!(states[&"slow".parse().unwrap()].state, ModuleState::Pulling);
        assert!(engine.of("last").is_empty());
        host.runs("process").await;
        assert_eq!(engine.only("slow").state, "running");
    };
    let (applied, ()) = tokio::join!(applied, looked);
    applied.unwrap();
    host.runs("last").await;
    host.apply([]).await;
}

#[tokio::test]
async fn a_module_that_becomes_the_other_kind_is_never_both() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([sleeper("m")]).await;
    let pid = host.runs("m").await.pid.unwrap();
    let runs = || std::path::Path::new(&format!("/proc/{pid}/cwd")).exists();
    assert!(runs() && engine.of("m").is_empty());
    host.apply([wants("m", "2", "shop:1")]).await;
    assert!(!runs());
    assert_eq!(host.runs("m").await.release, "2");
    assert_eq!(engine.only("m").state, "running");
    host.apply([sleeper("m")]).await;
    host.runs("m").await;
    assert!(engine.of("m").is_empty());
    host.apply([]).await;
}

#[tokio::test]
async fn a_module_that_became_the_other_kind_while_no_agent_was_there_is_never_both() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    drop(host);
    engine.change(|world| world.removal = std::time::Duration::from_millis(300));
    let host = Host::open(&engine).await;
    let applied = host.runtime.apply(vec![sleeper("m"), sleeper("other")]);
    let looked = async {
        host.runs("other").await;
        assert_eq!(engine.of("m").len(), 1, "which holds up nothing else");
        // The engine's process is 4711 here.
        host.until("m", |it| it.pid.is_some_and(|pid| pid != 4711))
            .await;
        assert!(engine.of("m").is_empty());
    };
    let (applied, ()) = tokio::join!(applied, looked);
    applied.unwrap();
    host.runs("m").await;
    host.apply([]).await;
}

#[tokio::test]
async fn twenty_orders_in_a_row_end_at_the_last_with_one_container() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    let steady = || wants("steady", "1", "shop:1");
    host.apply([steady()]).await;
    let orders = (1..=20).map(|n| {
        let m = wants("m", &n.to_string(), "shop:1");
        host.runtime.apply(vec![steady(), m])
    });
    for outcome in futures_util::future::join_all(orders).await {
        outcome.unwrap();
    }
    assert_eq!(host.runs("m").await.release, "20");
    until("the others are gone", || engine.of("m").len() == 1).await;
    assert_eq!(engine.only("steady").starts, 1);
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_and_the_start_tried_again() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let taken = "driver failed programming external connectivity: Bind for 0.0.0.0:80 failed: port is already allocated";
    engine.quirk("POST", "/start", Quirk::Refuse(500, taken), 2);
    let mut wanted = wants("m", "1", "shop:1");
    change(&mut wanted, |it| {
        it.ports = ["80:80".parse().unwrap()].into();
    });
    let host = Host::open(&engine).await;
    host.apply([wanted]).await;
    host.says("m", "a port it is to have is taken").await;
    host.runs("m").await;
    assert_eq!(engine.only("m").starts, 1);
}

#[tokio::test]
async fn an_engine_without_what_is_nice_to_have_is_asked_for_less() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let refused = "lookup init binary: could not find \"catatonit\"";
    engine.quirk("POST", "/containers/create", Quirk::Refuse(500, refused), 1);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    let host_config = &engine.only("m").body["HostConfig"];
    assert_eq!(host_config["Init"], serde_json::Value::Null);
}
