//! One bus of two: what waits here for readers on the other, and what comes from there.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_bus::{
    Carried, Carrier, ControllerBus, Incoming, Listener, ModuleBus, ModuleSettlement, Source,
};
use mesh_derive::subject;
use mesh_model::{BusKind, InstanceRef, NodeName, SeatName, Subject};
use mesh_nats::{NatsController, NatsListener, NatsLoad, NatsModule, Receipt};
use nkeys::KeyPair;

use crate::support::{Mesh, manifest, soon};

/// A shop that emits and sends, and a mailer that follows it and holds the seat `mail`, each on a node of its own.
struct Two {
    mesh: Mesh,
    shop: (NodeName, InstanceRef, KeyPair),
    mailer: (NodeName, InstanceRef, KeyPair),
}

async fn two(shop_on: BusKind, mailer_on: BusKind) -> Option<Two> {
    let mut mesh = Mesh::start_one_of_two().await?;
    let [(n1, _), (n2, _)] = ["n1", "n2"].map(|name| mesh.add_node(name));
    let seat: SeatName = "mail".parse().unwrap();
    let holder = Some("mailer".parse().unwrap());
    mesh.records
        .declared
        .seats
        .insert(seat.clone(), holder.into());
    let mut shop = manifest("shop");
    shop.emits.insert("placed".parse().unwrap());
    shop.sends_to.insert(seat.clone());
    let mut mailer = manifest("mailer");
    mailer.follows.insert("shop.placed".parse().unwrap());
    mailer.can_hold.insert(seat);
    let (shop, shop_key) = mesh.add_module(shop, &n1);
    let (mailer, mailer_key) = mesh.add_module(mailer, &n2);
    mesh.put(&n1, shop_on);
    mesh.put(&n2, mailer_on);
    Some(Two {
        mesh,
        shop: (n1, shop, shop_key),
        mailer: (n2, mailer, mailer_key),
    })
}

impl Two {
    async fn controller(&self) -> NatsController {
        let controller = self.mesh.connect().await;
        controller.assert(&self.mesh.part()).await.unwrap();
        controller.take_over().await.unwrap();
        controller
    }

    async fn shop(&self) -> NatsModule {
        self.mesh.module(&self.shop.1, &self.shop.2).await
    }

    /// The mailer, and what it hears and works.
    async fn mailer(&self) -> (NatsModule, NatsListener, NatsListener) {
        let mailer = self.mesh.module(&self.mailer.1, &self.mailer.2).await;
        let followed = mailer.listen(Source::Followed).await.unwrap();
        let work = mailer.listen(Source::Seat(seat())).await.unwrap();
        (mailer, followed, work)
    }
}

fn seat() -> SeatName {
    "mail".parse().unwrap()
}

fn event() -> Subject {
    subject::carry(&"mailer".parse().unwrap(), &"shop.placed".parse().unwrap())
}

fn work() -> Subject {
    subject::work(&seat(), &"shop".parse().unwrap())
}

async fn say(shop: &NatsModule, nth: &str) {
    let placed = "placed".parse().unwrap();
    shop.emit(&placed, &format!("e{nth}"), b"sold".to_vec())
        .await
        .unwrap();
    shop.send(&seat(), &format!("w{nth}"), b"send it".to_vec())
        .await
        .unwrap();
}

async fn both(controller: &NatsController) -> [Carried<NatsLoad>; 2] {
    let mut both = [soon(controller.load()).await, soon(controller.load()).await];
    both.sort_by(|one, other| one.id.cmp(&other.id));
    both
}

async fn nothing<T: std::fmt::Debug>(what: impl Future<Output = T>) {
    let waited = tokio::time::timeout(Duration::from_millis(700), what).await;
    assert!(waited.is_err(), "{waited:?}");
}

fn told(incoming: &Incoming<Receipt>) -> (&str, &str) {
    (incoming.id.as_str(), incoming.subject.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_readers_on_the_other_bus_is_the_controllers_until_they_are_here() {
    let Some(mut two) = two(BusKind::Nats, BusKind::Amqp).await else {
        return;
    };
    let controller = two.controller().await;
    let shop = two.shop().await;
    say(&shop, "1").await;
    let [placed, letter] = both(&controller).await;
    assert_eq!((placed.id.as_str(), placed.to), ("e1", event()));
    assert_eq!((letter.id.as_str(), letter.to), ("w1", work()));
    assert_eq!(
        (placed.body, letter.body),
        (b"sold".to_vec(), b"send it".to_vec())
    );
    // The other bus cannot take it now: it comes again, and once.
    let again = ModuleSettlement::Again(Duration::from_millis(100));
    controller.unload(&placed.load, again).await.unwrap();
    let placed = soon(controller.load()).await;
    assert_eq!(placed.id, "e1");
    for load in [placed.load, letter.load] {
        let done = controller.unload(&load, ModuleSettlement::Done);
        done.await.unwrap();
    }
    nothing(controller.load()).await;

    // One is in hand and the other waits, when the mailer comes to this bus. It has both, long before an ack wait passes.
    say(&shop, "2").await;
    let in_hand = soon(controller.load()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let node = two.mailer.0.clone();
    two.mesh.put(&node, BusKind::Nats);
    controller.assert(&two.mesh.part()).await.unwrap();
    let at_once = ModuleSettlement::Again(Duration::ZERO);
    controller.unload(&in_hand.load, at_once).await.unwrap();
    let (mailer, mut followed, mut works) = two.mailer().await;
    let placed = soon(followed.next()).await;
    let letter = soon(works.next()).await;
    assert_eq!(told(&placed), ("e2", "mesh.mod.shop.placed"));
    assert_eq!(told(&letter), ("w2", "mesh.seat.mail.shop"));
    for receipt in [placed.receipt, letter.receipt] {
        let done = mailer.settle(&receipt, ModuleSettlement::Done);
        done.await.unwrap();
    }
    nothing(controller.load()).await;

    // And away again.
    drop((mailer, followed, works));
    two.mesh.put(&node, BusKind::Amqp);
    controller.assert(&two.mesh.part()).await.unwrap();
    say(&shop, "3").await;
    let ids = both(&controller).await.map(|load| load.id);
    assert_eq!(ids, ["e3", "w3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_from_the_other_bus_is_heard_as_it_was_each_time_it_is_carried() {
    let Some(two) = two(BusKind::Amqp, BusKind::Nats).await else {
        return;
    };
    let controller = two.controller().await;
    let (mailer, mut followed, mut works) = two.mailer().await;
    for _ in 0..2 {
        controller
            .put(&event(), "e1", b"sold".to_vec())
            .await
            .unwrap();
        controller.put(&work(), "w1", Vec::new()).await.unwrap();
        let placed = soon(followed.next()).await;
        assert_eq!(told(&placed), ("e1", "mesh.mod.shop.placed"));
        assert_eq!(placed.body, b"sold");
        let letter = soon(works.next()).await;
        assert_eq!(told(&letter), ("w1", "mesh.seat.mail.shop"));
        for receipt in [placed.receipt, letter.receipt] {
            let done = mailer.settle(&receipt, ModuleSettlement::Done);
            done.await.unwrap();
        }
    }
    // What nobody takes is not said to be there.
    let nowhere = Subject::new("mesh.seat.none.shop").unwrap();
    let put = controller.put(&nowhere, "w2", Vec::new()).await;
    assert!(
        put.as_ref().is_err_and(mesh_bus::BusError::is_passing),
        "{put:?}"
    );

    // Nobody else says that something was carried.
    let rogue = two
        .mesh
        .bare(&two.mailer.2, "mesh.inbox.module.mailer.n2")
        .await;
    rogue
        .publish(event().to_string(), "forged".into())
        .await
        .unwrap();
    rogue.flush().await.unwrap();
    controller
        .put(&event(), "e3", b"own".to_vec())
        .await
        .unwrap();
    assert_eq!(soon(followed.next()).await.body, b"own");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_larger_than_the_server_takes_is_said_to_be_that_and_ends_nothing() {
    let Some(two) = two(BusKind::Amqp, BusKind::Nats).await else {
        return;
    };
    let controller = two.controller().await;
    let (_mailer, mut followed, _works) = two.mailer().await;
    // With its headers the first is larger, too.
    for bytes in [1 << 20, 17 << 20] {
        let put = controller.put(&event(), "e1", vec![0; bytes]).await;
        let said = put.unwrap_err();
        assert!(said.is_of_the_message(), "{said}");
        assert!(said.to_string().contains("1048576 bytes at most"), "{said}");
    }
    let nearly = vec![0; (1 << 20) - 512];
    controller.put(&event(), "e2", nearly).await.unwrap();
    assert_eq!(soon(followed.next()).await.id, "e2");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_no_header_takes_is_carried_as_one_that_does() {
    let Some(two) = two(BusKind::Amqp, BusKind::Nats).await else {
        return;
    };
    let controller = two.controller().await;
    let (_mailer, mut followed, _works) = two.mailer().await;
    let id = "e1\r\nNats-Rollup: all";
    controller.put(&event(), id, Vec::new()).await.unwrap();
    let heard = soon(followed.next()).await;
    assert_eq!(
        told(&heard),
        ("e1\\r\\nNats-Rollup: all", "mesh.mod.shop.placed")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_carried_here_and_not_heard_is_carried_on_to_where_its_reader_went() {
    let Some(mut two) = two(BusKind::Amqp, BusKind::Nats).await else {
        return;
    };
    let controller = two.controller().await;
    controller
        .put(&event(), "e1", b"sold".to_vec())
        .await
        .unwrap();
    controller.put(&work(), "w1", Vec::new()).await.unwrap();
    let node = two.mailer.0.clone();
    two.mesh.put(&node, BusKind::Amqp);
    controller.assert(&two.mesh.part()).await.unwrap();
    let [placed, letter] = both(&controller).await;
    assert_eq!((placed.id.as_str(), placed.to), ("e1", event()));
    assert_eq!((letter.id.as_str(), letter.to), ("w1", work()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_controller_had_in_hand_comes_to_the_next() {
    let Some(two) = two(BusKind::Nats, BusKind::Amqp).await else {
        return;
    };
    let mut part = two.mesh.part();
    for spec in part.consumers.values_mut() {
        spec.ack_wait_secs = spec.ack_wait_secs.min(2);
    }
    let killed = two.mesh.connect().await;
    killed.assert(&part).await.unwrap();
    say(&two.shop().await, "1").await;
    drop(both(&killed).await);
    drop(killed);
    let next = two.mesh.connect().await;
    next.assert(&part).await.unwrap();
    let both = both(&next).await;
    assert_eq!(both.map(|load| load.id), ["e1", "w1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_mesh_of_one_bus_is_brought_to_one_of_two_in_place_and_back() {
    let Some(two) = two(BusKind::Nats, BusKind::Nats).await else {
        return;
    };
    let controller = two.mesh.connect().await;
    controller.assert(&two.mesh.plan()).await.unwrap();
    say(&two.shop().await, "1").await;
    let widened = controller.assert(&two.mesh.part()).await.unwrap();
    let widened: BTreeSet<String> = widened.written.into_iter().collect();
    let changed = |events: &str, mailer: &str| {
        BTreeSet::from([
            format!("stream EVENTS: changed {events}"),
            format!("consumer EVENTS/mailer: changed {mailer}"),
        ])
    };
    assert_eq!(widened, changed("subjects", "filter_subjects"));
    let again = controller.assert(&two.mesh.part()).await.unwrap();
    assert!(again.written.is_empty(), "{:?}", again.written);
    // What waited goes on waiting.
    let (_mailer, mut followed, mut works) = two.mailer().await;
    assert_eq!(soon(followed.next()).await.id, "e1");
    assert_eq!(soon(works.next()).await.id, "w1");
    controller.put(&event(), "e2", Vec::new()).await.unwrap();
    assert_eq!(soon(followed.next()).await.id, "e2");
    let back = controller.assert(&two.mesh.plan()).await.unwrap();
    let back: BTreeSet<String> = back.written.into_iter().collect();
    assert_eq!(back, changed("subjects", "filter_subjects"));
}
