//! A node's and a joiner's side: what reaches them, and what they reach.

use std::time::Duration;

use mesh_bus::{BusError, ControllerBus, JoinerBus, Link, NodeBus, NodeEvent, NodeSettlement};
use mesh_derive::subject;
use mesh_model::BusFacts;
use mesh_nats::{Dialling, Endpoint, FirstAttempt, NatsNode};
use nkeys::KeyPair;

use crate::support::{Mesh, declared, idle, public, seed, soon, take};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_its_declaration_and_reaches_no_api() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, key) = mesh.add_node("n1");
    let (other, other_key) = mesh.add_node("n2");
    let controller = mesh.controller().await;
    let node = mesh.node(&name, &key).await;
    idle(&node).await;
    controller.declare(&name, b"one".to_vec()).await.unwrap();
    let (body, receipt) = declared(&node).await;
    assert_eq!(body, b"one");
    node.settle(&receipt, NodeSettlement::Working)
        .await
        .unwrap();
    node.settle(&receipt, NodeSettlement::Done).await.unwrap();
    idle(&node).await;
    assert_eq!(
        controller.declared(&name).await.unwrap(),
        Some(b"one".to_vec())
    );
    assert_eq!(controller.declared(&other).await.unwrap(), None);

    // Listening again, and on a new connection, brings nothing that was settled, and then the next.
    node.listen_again().await.unwrap();
    idle(&node).await;
    node.reconnect().await.unwrap();
    idle(&node).await;
    controller.declare(&name, b"two".to_vec()).await.unwrap();
    assert_eq!(declared(&node).await.0, b"two");

    let rogue = mesh.bare(&other_key, "mesh.inbox.node.n2").await;
    for subject in [
        "$JS.API.INFO",
        "$JS.API.STREAM.DELETE.NODES",
        "mesh.node.n1.declare",
        "mesh.deliver.node.n1",
        "mesh.control.report.n1",
    ] {
        assert!(
            rogue.request(subject, "".into()).await.is_err(),
            "{subject}"
        );
    }
    assert_eq!(node.dropped(), 0);
}

/// The bus has no say in which of two agents with one credential is the node: each is told everything. The controller
/// believes the one that began later.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_runs_of_an_agent_each_hears_everything_and_the_end_of_one_takes_nothing_from_the_other()
 {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, key) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let earlier = mesh.node(&name, &key).await;
    let later = mesh.node(&name, &key).await;
    for node in [&earlier, &later] {
        idle(node).await;
    }
    for round in 0_u8..5 {
        controller.declare(&name, vec![round]).await.unwrap();
        let (body, _) = declared(&earlier).await;
        assert_eq!(body, [round]);
        let (body, receipt) = declared(&later).await;
        assert_eq!(body, [round]);
        later.settle(&receipt, NodeSettlement::Done).await.unwrap();
    }
    drop(earlier);
    controller.declare(&name, b"on".to_vec()).await.unwrap();
    let (body, receipt) = declared(&later).await;
    assert_eq!(body, b"on");
    later.settle(&receipt, NodeSettlement::Done).await.unwrap();
    idle(&later).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_heard_by_who_fills_it_and_by_nobody_else() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    mesh.bounds.control_per_subject = 3;
    let (one, one_key) = mesh.add_node("n1");
    let (two, two_key) = mesh.add_node("n2");
    let _controller = mesh.controller().await;
    let node = mesh.node(&one, &one_key).await;
    for _ in 0..3 {
        node.report(Vec::new()).await.unwrap();
    }
    let full = node.report(Vec::new()).await.unwrap_err();
    assert!(matches!(full, BusError::Full(_)), "{full}");
    let node = mesh.node(&two, &two_key).await;
    node.report(Vec::new()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_user_disturbs_no_connection_and_a_removed_one_is_cut_off() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (one, one_key) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let node = mesh.node(&one, &one_key).await;
    idle(&node).await;

    let (two, two_key) = mesh.add_node("n2");
    let asserted = controller.assert(&mesh.plan()).await.unwrap();
    assert_eq!(asserted.written, ["consumer NODES/n2: made", "users: 2"]);
    let second = mesh.node(&two, &two_key).await;
    controller.declare(&one, b"one".to_vec()).await.unwrap();
    controller.declare(&two, b"two".to_vec()).await.unwrap();
    assert_eq!(declared(&second).await.0, b"two");
    let heard = soon(node.next()).await;
    assert!(matches!(heard, NodeEvent::Declared { .. }), "{heard:?}");

    mesh.records.nodes.remove(&one);
    controller.assert(&mesh.plan()).await.unwrap();
    soon(async { while !matches!(node.next().await, NodeEvent::Link(Link::Down)) {} }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joiner_asks_and_hears_the_answer() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let key = mesh.add_token("t1");
    let controller = mesh.controller().await;
    let joiner = mesh.joiner("t1", &key).await;
    joiner.ask(b"please".to_vec()).await.unwrap();
    let request = take(&controller).await;
    assert_eq!(request.subject, subject::enrol(&"t1".parse().unwrap()));
    controller
        .answer(&joiner.answer_address(), b"welcome".to_vec())
        .await
        .unwrap();
    assert_eq!(soon(joiner.answer()).await.unwrap(), b"welcome");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_the_server_refuses_are_taken_back() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (one, one_key) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let users = mesh.dir.path().join("bus/edge-users.conf");
    let before = std::fs::read_to_string(&users).unwrap();

    // A key is one user's: this one is the controller's already.
    let (two, _) = mesh.add_node("n2");
    if let Some(record) = mesh.records.nodes.get_mut(&two) {
        record.key = public(&mesh.controller);
    }
    let refused = controller.assert(&mesh.plan()).await.unwrap_err();
    assert!(matches!(refused, BusError::Refused { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(&users).unwrap(), before);

    mesh.records.nodes.remove(&two);
    let asserted = controller.assert(&mesh.plan()).await.unwrap();
    assert_eq!(asserted.written, ["consumer NODES/n2: deleted"]);
    idle(&mesh.node(&one, &one_key).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_first_attempt_may_fail_waits_for_its_server() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let endpoint = Endpoint {
        urls: vec![format!("nats://127.0.0.1:{port}")],
        tls: None,
        name: "test".to_owned(),
    };
    let connect = async |first| {
        let dialling = Dialling { first, seed: 7 };
        let credential = seed(&KeyPair::new_user());
        let (node, bus) = ("n1".parse().unwrap(), BusFacts::default());
        let beat = Duration::from_secs(1);
        soon(NatsNode::connect(
            &endpoint,
            &credential,
            &node,
            bus,
            beat,
            dialling,
        ))
        .await
    };
    let refused = connect(FirstAttempt::MustSucceed).await;
    assert!(matches!(refused, Err(BusError::Away(_))), "{refused:?}");
    let node = connect(FirstAttempt::MayFail).await.unwrap();
    let first = soon(node.next()).await;
    assert!(matches!(first, NodeEvent::Link(Link::Down)), "{first:?}");
    let away = soon(node.report(Vec::new())).await.unwrap_err();
    assert!(away.is_passing(), "{away}");
}
