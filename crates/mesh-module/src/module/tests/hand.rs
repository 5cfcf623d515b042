//! What went wrong in other people's production for whoever reads messages, and cannot for a module.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use mesh_bus::{Listener, ModuleBus, ModuleSettlement, Source};

use super::*;

/// Library defaults: 31 s of work are delivered four times in a minute.
/// <https://www.tiarebalbi.com/en/blog/nats-jetstream-ackwait-redelivery-contract-go>
#[tokio::test(start_paused = true)]
async fn case_b_94fb0f8_work_of_half_a_minute_is_delivered_once() {
    let mesh = Mesh::new().await;
    let mut sales = mesh.clerk.follow().await.unwrap();
    mesh.shop.emit("sold", "a lamp").await.unwrap();
    let sale = sales.next().await;
    sleep(Duration::from_secs(31)).await;
    assert!(timeout(Duration::from_mins(1), sales.next()).await.is_err());
    sale.done().await.unwrap();
    assert_eq!(mesh.unsettled(), 0);
    assert!(is_silent(sales.next()).await);
}

/// A message goes to a second worker while the first still works on it, and both are acknowledged.
/// <https://github.com/nats-io/nats-server/issues/4786>
#[tokio::test(start_paused = true)]
async fn case_b_6e08ccd_what_is_worked_on_goes_to_nobody_else_and_comes_again_under_its_id() {
    let mesh = Mesh::new().await;
    let (mut first, mut second) = (
        mesh.clerk.follow().await.unwrap(),
        mesh.clerk.follow().await.unwrap(),
    );
    mesh.shop.emit("sold", "a lamp").await.unwrap();
    let sale = tokio::select! {
        sale = first.next() => sale,
        sale = second.next() => sale,
    };
    let id = sale.id.clone();
    sleep(Duration::from_secs(40)).await;
    let both = async {
        tokio::select! {
            sale = first.next() => sale,
            sale = second.next() => sale,
        }
    };
    assert!(timeout(Duration::from_mins(1), both).await.is_err());
    // Its worker dies: whoever does it twice can tell by the id.
    drop(sale);
    let again = tokio::select! {
        sale = first.next() => sale,
        sale = second.next() => sale,
    };
    assert_eq!(again.id, id);
    again.done().await.unwrap();
}

/// A message a worker failed on is delivered three times, and then never again.
/// <https://github.com/nats-io/nats-server/issues/4956>
#[tokio::test(start_paused = true)]
async fn case_b_567df34_work_that_fails_often_is_never_stuck() {
    let mut mesh = Mesh::new().await;
    mesh.assign("clerk").await;
    let mut mail = mesh.clerk.work("mail").await.unwrap();
    mesh.shop.send("mail", "a letter").await.unwrap();
    for _ in 0..20 {
        let letter = mail.next().await;
        letter.again(Duration::from_secs(5)).await.unwrap();
    }
    mail.next().await.done().await.unwrap();
    let queue = subject::seat_stream(&"mail".parse().unwrap());
    assert_eq!(mesh.bus.stored(&queue), 0);
}

/// Messages that reached their limit of deliveries during an outage are stuck, and only deleting the consumer helps.
/// <https://til.computer/2025/01/07/a-way-to-resolve-redelivered.html>
#[tokio::test(start_paused = true)]
async fn case_b_2e3be51_an_outage_of_what_a_worker_needs_loses_no_work() {
    let mut mesh = Mesh::new().await;
    mesh.assign("clerk").await;
    let mut mail = mesh.clerk.work("mail").await.unwrap();
    for letter in ["one", "two", "three"] {
        mesh.shop.send("mail", letter).await.unwrap();
    }
    let outage = Instant::now();
    while outage.elapsed() < Duration::from_mins(30) {
        mail.next()
            .await
            .again(Duration::from_secs(10))
            .await
            .unwrap();
    }
    let mut letters = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let letter = mail.next().await;
        letters.insert(letter.body.clone());
        letter.done().await.unwrap();
    }
    assert_eq!(letters.len(), 3);
    assert!(is_silent(mail.next()).await);
}

/// What is put back goes to the head of the queue: the first that always fails blocks the rest.
/// <https://github.com/amqp-node/amqplib/issues/293>
#[tokio::test(start_paused = true)]
async fn case_b_8fa30b2_the_second_is_worked_while_the_first_always_fails() {
    let mut mesh = Mesh::new().await;
    mesh.assign("clerk").await;
    let mut mail = mesh.clerk.work("mail").await.unwrap();
    for letter in ["poison", "fine"] {
        mesh.shop.send("mail", letter).await.unwrap();
    }
    let began = Instant::now();
    loop {
        let letter = mail.next().await;
        if letter.body == b"fine" {
            letter.done().await.unwrap();
            break;
        }
        letter.again(Duration::from_secs(1)).await.unwrap();
    }
    assert!(began.elapsed() <= Duration::from_secs(1));
}

/// A consumer stalls once as many messages are out as may be, and delivers nothing ever after.
/// <https://github.com/nats-io/nats-server/issues/4112>
///
/// The case asks for pulls; consumers push here. What has to hold is that a stall ends with its cause, which a real
/// server is asked for by the test of the same name in `live-tests`.
#[tokio::test(start_paused = true)]
async fn case_b_3b78065_a_reader_that_holds_all_it_may_goes_on_when_it_settles() {
    let mut mesh = Mesh::new().await;
    mesh.assign("clerk").await;
    let mut mail = mesh.clerk.work("mail").await.unwrap();
    for letter in 0..70 {
        mesh.shop.send("mail", letter.to_string()).await.unwrap();
    }
    let mut held = Vec::new();
    while let Ok(letter) = timeout(Duration::from_secs(1), mail.next()).await {
        held.push(letter);
    }
    assert_eq!(held.len(), 64);
    for letter in held {
        letter.done().await.unwrap();
    }
    for _ in 64..70 {
        mail.next().await.done().await.unwrap();
    }
}

/// A copy under the same id is answered as stored, nobody receives it, and its sender gives it up.
/// <https://github.com/alexfrmn/murmur/issues/141>
#[tokio::test(start_paused = true)]
async fn case_b_fd62595_a_copy_counts_as_stored_and_the_first_comes_until_it_is_done() {
    let mesh = Mesh::new().await;
    let [shop, clerk] = ["shop", "clerk"].map(|module| {
        let (module, node) = (module.parse().unwrap(), "web-1".parse().unwrap());
        mesh.bus.module(InstanceRef { module, node }).unwrap()
    });
    let mut ear = clerk.listen(Source::Followed).await.unwrap();
    let sold = "sold".parse().unwrap();
    for _ in 0..5 {
        shop.emit(&sold, "1", b"a lamp".to_vec()).await.unwrap();
        sleep(Duration::from_secs(20)).await;
    }
    // It failed where it was worked on: no copy brings it again, the consumer does.
    for _ in 0..3 {
        let heard = ear.next().await;
        assert_eq!(heard.id, "1");
        let again = ModuleSettlement::Again(Duration::from_secs(1));
        clerk.settle(&heard.receipt, again).await.unwrap();
    }
    let heard = ear.next().await;
    clerk
        .settle(&heard.receipt, ModuleSettlement::Done)
        .await
        .unwrap();
    assert!(is_silent(ear.next()).await);
}

/// A library makes the stream from every client, whatever rights that takes.
/// <https://github.com/dotnetcore/CAP/issues/1545>
#[tokio::test(start_paused = true)]
async fn case_b_5e9645f_a_stream_that_is_missing_is_told_of_and_not_made() {
    let mesh = Mesh::new().await;
    assert!(mesh.bus.delete_stream(&subject::events_stream()));
    let (emitted, followed) = tokio::join!(mesh.shop.emit("sold", "a lamp"), mesh.clerk.follow());
    assert!(
        matches!(&emitted, Err(EmitError::Unconfirmed { .. })),
        "{emitted:?}"
    );
    assert!(is_silent(followed.unwrap().next()).await);
    assert!(
        !mesh.bus.delete_stream(&subject::events_stream()),
        "it was made"
    );
}

/// Publishing where one may not is answered with success, and refused behind one's back.
/// <https://github.com/nats-io/nats.rs/issues/1485>
#[tokio::test(start_paused = true)]
async fn case_b_5d32572_what_may_not_be_published_is_an_error_that_names_it() {
    let mesh = Mesh::new().await;
    let refused = mesh.clerk.emit("sold", "").await.unwrap_err();
    assert!(refused.to_string().contains("event \"sold\""), "{refused}");
    assert!(refused.to_string().contains("module clerk"), "{refused}");
    assert_eq!(mesh.bus.stored(&subject::events_stream()), 0);
}
