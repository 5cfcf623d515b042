//! The controller's side, one promise after another.

use std::time::Duration;

use mesh_bus::{BusError, ControllerBus, NodeBus, Queue, Settlement};
use mesh_derive::subject;
use mesh_model::NodeName;
use tokio::time::Instant;

use crate::support::{Mesh, declared, manifest, soon, take, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_mesh_asserted_again_is_not_written_again() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let names: Vec<NodeName> = (0..300)
        .map(|n| mesh.add_node(&format!("n{n}")).0)
        .collect();
    mesh.records
        .declared
        .seats
        .insert("mail".parse().unwrap(), None.into());
    let mut shop = manifest("shop");
    shop.emits.insert("order.placed".parse().unwrap());
    let mut audit = manifest("audit");
    audit.follows.insert("shop.order.placed".parse().unwrap());
    audit.follows.insert("shop.announced".parse().unwrap());
    mesh.add_module(shop, &names[0]);
    mesh.add_module(audit, &names[0]);

    let controller = mesh.connect().await;
    let first = within(60, controller.assert(&mesh.plan())).await.unwrap();
    assert!(first.written.len() > 300, "{}", first.written.len());
    let writes = controller.api_calls().writes;

    let began = Instant::now();
    let again = controller.assert(&mesh.plan()).await.unwrap();
    let took = began.elapsed();
    assert_eq!(again.written, Vec::<String>::new());
    assert_eq!(again.strays, Vec::<String>::new());
    assert_eq!(controller.api_calls().writes, writes);
    assert!(took < Duration::from_secs(1), "{took:?}");

    // Another controller finds it as it is.
    let other = mesh.connect().await;
    let found = other.assert(&mesh.plan()).await.unwrap();
    assert_eq!(found.written, Vec::<String>::new());
    assert_eq!(other.api_calls().writes, 0);

    // What one derived and no longer does is deleted; what it never derived is a stray.
    mesh.records.nodes.remove(&names[7]);
    let removed = controller.assert(&mesh.plan()).await.unwrap();
    assert!(
        removed
            .written
            .contains(&"consumer NODES/n7: deleted".to_owned()),
        "{:?}",
        removed.written
    );
    mesh.records.nodes.remove(&names[8]);
    let fresh = mesh.connect().await.assert(&mesh.plan()).await.unwrap();
    assert_eq!(fresh.strays, ["consumer NODES/n8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_deleted_by_somebody_else_is_noticed_and_restored() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    mesh.add_node("n1");
    let controller = mesh.controller().await;
    let quiet = tokio::time::timeout(Duration::from_secs(4), controller.disturbed()).await;
    assert!(quiet.is_err(), "its own changes disturb it");

    let tool = mesh
        .bare(&mesh.controller, "mesh.inbox.controller.tool")
        .await;
    for what in ["CONSUMER.DELETE.NODES.n1", "STREAM.DELETE.PARKED"] {
        let began = Instant::now();
        tool.request(format!("$JS.API.{what}"), "".into())
            .await
            .unwrap();
        soon(controller.disturbed()).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{what}");
        let asserted = controller.assert(&mesh.plan()).await.unwrap();
        assert_eq!(asserted.written.len(), 1, "{:?}", asserted.written);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_changed_by_somebody_else_is_brought_back() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    mesh.add_node("n1");
    let controller = mesh.controller().await;
    // An idle heartbeat cannot be changed in place, and a node's consumer may be made anew.
    mesh.bounds.idle_heartbeat_secs = 2;
    mesh.bounds.control_per_subject = 3;
    let asserted = controller.assert(&mesh.plan()).await.unwrap();
    assert_eq!(asserted.written.len(), 2, "{:?}", asserted.written);
    assert!(asserted.written[0].contains("max_msgs_per_subject"));
    assert!(asserted.written[1].contains("made anew for idle_heartbeat"));
    // A work queue cannot become a stream with limits.
    let mut plan = mesh.plan();
    if let Some(stream) = plan.streams.get_mut(&subject::control_stream()) {
        stream.retention = mesh_model::Retention::Limits;
    }
    let refused = controller.assert(&plan).await.unwrap_err();
    assert!(
        matches!(&refused, BusError::Immutable { field, .. } if field == "retention"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_report_stays_on_the_server_and_comes_back() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, key) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let node = mesh.node(&name, &key).await;
    node.report(b"r".to_vec()).await.unwrap();
    let first = take(&controller).await;
    assert_eq!(first.subject, subject::report(&name));
    assert_eq!(first.key.queue, Queue::Control);
    let began = Instant::now();
    let delay = Duration::from_millis(700);
    controller
        .settle(&first.receipt, Settlement::Hold(delay))
        .await
        .unwrap();
    let again = take(&controller).await;
    assert!(began.elapsed() >= delay, "{:?}", began.elapsed());
    assert_eq!((again.key, again.body), (first.key, first.body));
    controller
        .settle(&again.receipt, Settlement::Done)
        .await
        .unwrap();
    assert!(controller.take(9).await.unwrap().is_empty());

    node.heartbeat(b"alive".to_vec()).await.unwrap();
    let (of, body) = soon(controller.heartbeat()).await;
    assert_eq!((of, body), (subject::heartbeat(&name), b"alive".to_vec()));

    controller
        .park(&first.subject, b"r".to_vec(), "no\nroom")
        .await
        .unwrap();
    assert_eq!(controller.mark().await.unwrap(), None);
    let findings = soon(controller.findings()).await.unwrap();
    assert!(
        findings
            .iter()
            .any(|finding| finding.text.contains("version 2."))
    );
    controller.leave_mark(b"7".to_vec()).await.unwrap();
    assert_eq!(controller.mark().await.unwrap(), Some(b"7".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_another_took_over_from_declares_nothing_more() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, _) = mesh.add_node("n1");
    let old = mesh.controller().await;
    old.declare(&name, b"one".to_vec()).await.unwrap();
    let new = mesh.controller().await;
    let fenced = old.declare(&name, b"two".to_vec()).await.unwrap_err();
    assert!(matches!(fenced, BusError::Fenced(_)), "{fenced}");
    new.declare(&name, b"three".to_vec()).await.unwrap();

    // The stream is made anew: the epoch goes on, and the old one's is none of it.
    let tool = mesh
        .bare(&mesh.controller, "mesh.inbox.controller.tool")
        .await;
    tool.request("$JS.API.STREAM.DELETE.NODES", "".into())
        .await
        .unwrap();
    let gone = new.declare(&name, b"four".to_vec()).await.unwrap_err();
    assert!(gone.is_passing(), "{gone}");
    new.assert(&mesh.plan()).await.unwrap();
    new.declare(&name, b"four".to_vec()).await.unwrap();
    let fenced = old.declare(&name, b"five".to_vec()).await.unwrap_err();
    assert!(matches!(fenced, BusError::Fenced(_)), "{fenced}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_gone_is_waited_for_without_spinning() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, key) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let node = mesh.node(&name, &key).await;
    assert!(controller.take(4).await.unwrap().is_empty());
    let tool = mesh
        .bare(&mesh.controller, "mesh.inbox.controller.tool")
        .await;
    tool.request("$JS.API.CONSUMER.DELETE.CONTROL.controller", "".into())
        .await
        .unwrap();
    let began = Instant::now();
    let gone = soon(async {
        loop {
            if let Err(error) = controller.take(4).await {
                return error;
            }
        }
    })
    .await;
    assert!(gone.is_passing(), "{gone}");
    assert!(began.elapsed() > Duration::from_secs(1));
    controller.assert(&mesh.plan()).await.unwrap();
    node.report(b"r".to_vec()).await.unwrap();
    assert_eq!(take(&controller).await.body, b"r");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_come_back_to_by_everybody() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, key) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let node = mesh.node(&name, &key).await;
    assert!(controller.take(4).await.unwrap().is_empty());
    mesh.kill_server();
    // Until it is dead it takes reports, and when it has many enough, says so. One that is said
    // while it is away may as well wait in the client for the next server: none need fail.
    let reporting = async {
        loop {
            if let Err(error) = node.report(b"r".to_vec()).await {
                let full = matches!(error, BusError::Full(_));
                assert!(full || error.is_passing(), "{error}");
            }
        }
    };
    within(30, async {
        tokio::select! {
            () = reporting => {}
            _ = controller.disturbed() => {}
        }
    })
    .await;
    let asserted = controller.assert(&mesh.plan()).await.unwrap();
    assert_eq!(asserted.written, Vec::<String>::new());
    controller.declare(&name, b"one".to_vec()).await.unwrap();
    assert_eq!(declared(&node).await.0, b"one");
    while let Err(error) = node.report(b"after".to_vec()).await {
        assert!(matches!(error, BusError::Full(_)), "{error}");
        let before = take(&controller).await;
        let settled = controller.settle(&before.receipt, Settlement::Done).await;
        settled.unwrap();
    }
    while take(&controller).await.body != b"after" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_assertion_leaves_no_stream_of_declarations_without_an_epoch() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, _) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let tool = mesh
        .bare(&mesh.controller, "mesh.inbox.controller.tool")
        .await;
    for stream in ["NODES", "PARKED"] {
        tool.request(format!("$JS.API.STREAM.DELETE.{stream}"), "".into())
            .await
            .unwrap();
    }
    // More than any server has: the assertion ends there, after the stream of declarations.
    let mut plan = mesh.plan();
    for (stream, spec) in &mut plan.streams {
        if stream.as_str() == "PARKED" {
            spec.max_bytes = Some(1 << 61);
        }
    }
    let failed = controller.assert(&plan).await.unwrap_err();
    assert!(matches!(failed, BusError::Refused { .. }), "{failed}");
    controller.declare(&name, b"one".to_vec()).await.unwrap();
    controller.assert(&mesh.plan()).await.unwrap();
    controller.declare(&name, b"two".to_vec()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_whose_answer_was_lost_is_known_for_the_controllers_own() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (name, _) = mesh.add_node("n1");
    let controller = mesh.controller().await;
    let tool = mesh
        .bare(&mesh.controller, "mesh.inbox.controller.tool")
        .await;
    let epoch = async_nats::jetstream::new(tool.clone())
        .get_stream("NODES")
        .await
        .unwrap()
        .get_last_raw_message_by_subject(subject::epoch().as_str())
        .await
        .unwrap();
    // Stored once more, as far as the controller knows by nobody.
    let subject = subject::epoch();
    tool.request(subject.as_str().to_owned(), epoch.payload)
        .await
        .unwrap();
    let refused = controller.declare(&name, b"one".to_vec()).await;
    assert!(refused.unwrap_err().is_passing());
    controller.declare(&name, b"one".to_vec()).await.unwrap();
}
