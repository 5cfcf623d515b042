//! A module's side: what it follows, emits, sends and works.

use std::time::Duration;

use mesh_bus::{
    BusError, ControllerBus, Listener, ModuleBus, ModuleSettlement, Queue, Settlement, Source,
};
use mesh_model::{SeatName, SeatRecord};
use mesh_nats::NatsModule;

use crate::support::{Mesh, manifest, module, soon, take};

/// A shop that emits and sends, and a mailer that follows and may hold the seat `mail`.
async fn shop_and_mailer() -> Option<(Mesh, NatsModule, NatsModule)> {
    let mut mesh = Mesh::start().await?;
    let (host, _) = mesh.add_node("n1");
    let seat: SeatName = "mail".parse().unwrap();
    mesh.records
        .declared
        .seats
        .insert(seat.clone(), None.into());
    let mut shop = manifest("shop");
    shop.emits.insert("placed".parse().unwrap());
    shop.sends_to.insert(seat.clone());
    let mut mailer = manifest("mailer");
    mailer.follows.insert("shop.placed".parse().unwrap());
    mailer.can_hold.insert(seat);
    let (shop, shop_key) = mesh.add_module(shop, &host);
    let (mailer, mailer_key) = mesh.add_module(mailer, &host);
    drop(mesh.controller().await);
    let shop = mesh.module(&shop, &shop_key).await;
    let mailer = mesh.module(&mailer, &mailer_key).await;
    Some((mesh, shop, mailer))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_hears_what_it_follows_and_emits_what_it_may() {
    let Some((mesh, shop, mailer)) = shop_and_mailer().await else {
        return;
    };
    let controller = mesh.controller().await;
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_works_a_seat_for_as_long_as_it_is_given_it() {
    let Some((mut mesh, shop, mailer)) = shop_and_mailer().await else {
        return;
    };
    let seat: SeatName = "mail".parse().unwrap();
    let controller = mesh.controller().await;
    // Work waits while nobody holds the seat; whoever is given it hears it, without a new connection.
    shop.send(&seat, "w1", b"work".to_vec()).await.unwrap();
    let mut work = mailer.listen(Source::Seat(seat.clone())).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_secs(2), work.next()).await;
    assert!(nothing.is_err());
    let given = SeatRecord {
        assigned: Some(module("mailer")),
        by: mesh_model::Assigner::Operator,
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
    mesh.records.seats.insert(
        seat.clone(),
        SeatRecord {
            assigned: None,
            by: mesh_model::Assigner::Operator,
        },
    );
    controller.assert(&mesh.plan()).await.unwrap();
    shop.send(&seat, "w2", Vec::new()).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_secs(2), work.next()).await;
    assert!(nothing.is_err());
    let given = SeatRecord {
        assigned: Some(module("mailer")),
        by: mesh_model::Assigner::Operator,
    };
    mesh.records.seats.insert(seat, given);
    controller.assert(&mesh.plan()).await.unwrap();
    assert_eq!(soon(work.next()).await.id, "w2");
}
