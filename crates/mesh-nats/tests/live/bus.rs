//! The seam over JetStream, one promise after another.

use std::time::Duration;

use mesh_bus::{
    BusError, ControllerBus, Delivery, JoinerBus, Link, Listener, ModuleBus, ModuleSettlement,
    NodeBus, NodeEvent, NodeSettlement, Queue, Settlement, Source,
};
use mesh_derive::subject;
use mesh_model::{Manifest, NodeName, Restart, Run, SeatRecord};
use mesh_nats::{NatsController, NatsNode, Receipt};
use tokio::time::Instant;

use crate::support::{Mesh, module, soon, within};

fn manifest(name: &str) -> Manifest {
    Manifest {
        module: module(name),
        release: "1".to_owned(),
        run: Run::Command {
            program: "true".to_owned(),
            args: Vec::new(),
        },
        after: [].into(),
        env: [].into(),
        restart: Restart::default(),
        emits: [].into(),
        follows: [].into(),
        can_hold: [].into(),
        sends_to: [].into(),
    }
}

/// Takes until there is something.
async fn take(controller: &NatsController) -> Delivery<Receipt> {
    soon(async {
        loop {
            if let Some(delivery) = controller.take(1).await.unwrap().pop() {
                return delivery;
            }
        }
    })
    .await
}

/// What the node hears next that is a declaration.
async fn declared(node: &NatsNode) -> (Vec<u8>, Receipt) {
    soon(async {
        loop {
            match node.next().await {
                NodeEvent::Declared { body, receipt } => return (body, receipt),
                NodeEvent::Denied(why) => panic!("{why}"),
                NodeEvent::Idle | NodeEvent::Link(_) => {}
            }
        }
    })
    .await
}

async fn idle(node: &NatsNode) {
    soon(async {
        loop {
            match node.next().await {
                NodeEvent::Idle => return,
                NodeEvent::Link(_) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mesh_asserted_again_is_not_written_again() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let names: Vec<NodeName> = (0..600)
        .map(|n| mesh.add_node(&format!("n{n}")).0)
        .collect();
    mesh.records
        .declared
        .seats
        .insert("mail".parse().unwrap(), None);
    let mut shop = manifest("shop");
    shop.emits.insert("order.placed".parse().unwrap());
    let mut audit = manifest("audit");
    audit.follows.insert("shop.order.placed".parse().unwrap());
    audit.follows.insert("shop.announced".parse().unwrap());
    mesh.add_module(shop, &names[0]);
    mesh.add_module(audit, &names[0]);

    let controller = mesh.connect().await;
    let first = within(60, controller.assert(&mesh.plan())).await.unwrap();
    assert!(first.written.len() > 600, "{}", first.written.len());
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
    mesh.stop().await;
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
    mesh.stop().await;
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
    mesh.stop().await;
}

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
    mesh.stop().await;
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
    controller.leave_mark(b"7".to_vec()).await.unwrap();
    assert_eq!(controller.mark().await.unwrap(), Some(b"7".to_vec()));
    mesh.stop().await;
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
    mesh.stop().await;
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
    mesh.stop().await;
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
    mesh.stop().await;
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
    mesh.stop().await;
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
    mesh.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_follows_emits_and_works_the_seat_it_is_given() {
    let Some(mut mesh) = Mesh::start().await else {
        return;
    };
    let (host, _) = mesh.add_node("n1");
    let seat: mesh_model::SeatName = "mail".parse().unwrap();
    mesh.records.declared.seats.insert(seat.clone(), None);
    let mut shop = manifest("shop");
    shop.emits.insert("placed".parse().unwrap());
    shop.sends_to.insert(seat.clone());
    let mut mailer = manifest("mailer");
    mailer.follows.insert("shop.placed".parse().unwrap());
    mailer.can_hold.insert(seat.clone());
    let (shop, shop_key) = mesh.add_module(shop, &host);
    let (mailer, mailer_key) = mesh.add_module(mailer, &host);
    let controller = mesh.controller().await;
    let shop = mesh.module(&shop, &shop_key).await;
    let mailer = mesh.module(&mailer, &mailer_key).await;

    let mut followed = mailer.listen(Source::Followed).await.unwrap();
    let placed = "placed".parse().unwrap();
    shop.emit(&placed, "e1", Vec::new()).await.unwrap();
    shop.emit(&placed, "e1", Vec::new()).await.unwrap();
    let event = soon(followed.next()).await;
    assert_eq!(
        (event.id.as_str(), event.subject.as_str()),
        ("e1", "mesh.mod.shop.placed")
    );
    let again = ModuleSettlement::Again(Duration::from_millis(50));
    mailer.settle(&event.receipt, again).await.unwrap();
    let event = soon(followed.next()).await;
    assert_eq!(event.id, "e1");
    mailer
        .settle(&event.receipt, ModuleSettlement::Done)
        .await
        .unwrap();
    let refused = mailer.emit(&placed, "e2", Vec::new()).await.unwrap_err();
    assert!(matches!(refused, BusError::Refused { .. }), "{refused}");

    // The announcement of a module is the controller's to hear.
    shop.emit(&"announced".parse().unwrap(), "a1", b"hello".to_vec())
        .await
        .unwrap();
    let announced = take(&controller).await;
    assert_eq!(announced.key.queue, Queue::Events);
    controller
        .settle(&announced.receipt, Settlement::Done)
        .await
        .unwrap();

    // Work waits while nobody holds the seat; whoever is given it hears it, without a new connection.
    shop.send(&seat, "w1", b"work".to_vec()).await.unwrap();
    let mut work = mailer.listen(Source::Seat(seat.clone())).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_secs(2), work.next()).await;
    assert!(nothing.is_err());
    let given = SeatRecord {
        assigned: Some(module("mailer")),
    };
    mesh.records.seats.insert(seat.clone(), given);
    controller.assert(&mesh.plan()).await.unwrap();
    let item = soon(work.next()).await;
    assert_eq!(
        (item.id.as_str(), item.subject.as_str()),
        ("w1", "mesh.seat.mail.shop")
    );
    mailer
        .settle(&item.receipt, ModuleSettlement::Done)
        .await
        .unwrap();

    // Taken away and given back, it listens again.
    mesh.records
        .seats
        .insert(seat.clone(), SeatRecord { assigned: None });
    controller.assert(&mesh.plan()).await.unwrap();
    shop.send(&seat, "w2", Vec::new()).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_secs(2), work.next()).await;
    assert!(nothing.is_err());
    let given = SeatRecord {
        assigned: Some(module("mailer")),
    };
    mesh.records.seats.insert(seat, given);
    controller.assert(&mesh.plan()).await.unwrap();
    assert_eq!(soon(work.next()).await.id, "w2");
    mesh.stop().await;
}
