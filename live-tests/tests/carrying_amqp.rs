//! One bus of two, over RabbitMQ: what waits here for readers on the other, and what comes from there.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use live_tests::{AmqpWorld, soon};
use mesh_amqp::{AmqpController, AmqpModule, ModuleReceipt};
use mesh_bus::conformance::World;
use mesh_bus::{
    Carried, Carrier, ControllerBus, Incoming, Listener, ModuleBus, ModuleSettlement, Prober,
    Source,
};
use mesh_derive::topology::{Address, Exchange, login};
use mesh_derive::{Bounds, Plan, derive, part, subject};
use mesh_model::{
    BusFacts, BusKind, InstanceRecord, InstanceRef, Labels, Manifest, NodeName, NodeRecord,
    Placement, Principal, Records, Restart, Run, Sealed, SeatName, Selector, Subject, Timestamp,
};
use mesh_testkit::rabbitmq::Shape;

macro_rules! on_a_broker {
    ($($name:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> anyhow::Result<()> {
            match AmqpWorld::start().await? {
                Some(world) => claims::$name(&world).await,
                None => Ok(()),
            }
        }
    )*};
}

on_a_broker! {
    what_waits_for_readers_on_the_other_bus_is_the_controllers_until_they_are_here
    what_comes_from_the_other_bus_is_heard_as_it_was
    what_was_carried_here_and_not_heard_is_carried_on_to_where_its_reader_went
    nobody_else_says_that_something_was_carried
    no_more_is_out_than_one_reader_may_have_and_what_is_put_off_is_not_asked_for_again
    a_broker_of_a_mesh_of_one_bus_is_brought_to_one_of_two_in_place
    the_controller_may_what_carrying_takes_of_every_module_and_seat_and_nothing_beside
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_larger_than_a_broker_takes_is_said_to_be_that_and_what_is_beside_it_arrives()
-> anyhow::Result<()> {
    let shape = Shape {
        settings: "max_message_size = 65536\n".to_owned(),
        ..Shape::default()
    };
    let Some(world) = AmqpWorld::of_its_own(shape).await? else {
        return Ok(());
    };
    let here = plan(&world, BusKind::Nats, BusKind::Amqp)?;
    let controller = taken_over(&world, &here).await?;
    let mailer = world.module(&instance("mailer", "n2")?).await?;
    let mut followed = mailer.listen(Source::Followed).await?;
    for (id, bytes) in [("e1", 65537), ("e2", 1 << 20)] {
        let (event, small) = (event()?, vec![0; 65536]);
        let at_once = controller.put(&event, "large", vec![0; bytes]);
        let beside = controller.put(&event, id, small.clone());
        let (large, beside) = tokio::join!(at_once, beside);
        let said = large.err().context("it was taken")?;
        ensure!(said.is_of_the_message(), "{said}");
        // The channel of both ended: then nothing is known of the other.
        ensure!(
            beside
                .as_ref()
                .err()
                .is_none_or(mesh_bus::BusError::is_passing),
            "{beside:?}"
        );
        if beside.is_err() {
            controller.put(&event, id, small).await?;
        }
        let heard = soon("it hears", followed.next()).await?;
        is(&heard, id, "mesh.mod.shop.placed")?;
        mailer
            .settle(&heard.receipt, ModuleSettlement::Done)
            .await?;
        let said = controller.park(&event, vec![0; bytes], "why").await;
        ensure!(said.is_err_and(|it| it.is_of_the_message()));
    }
    Ok(())
}

/// A shop that emits and sends, and a mailer that follows it and holds the seat `mail`, each on a node of its own.
fn records(world: &AmqpWorld, shop_on: BusKind, mailer_on: BusKind) -> anyhow::Result<Records> {
    let mut records = Records::new("two".parse()?, BusFacts::default());
    let seat: SeatName = "mail".parse()?;
    let holder = Some("mailer".parse()?);
    records.declared.seats.insert(seat.clone(), holder.into());
    let mut shop = manifest("shop")?;
    shop.emits.insert("placed".parse()?);
    shop.sends_to.insert(seat.clone());
    let mut mailer = manifest("mailer")?;
    mailer.follows.insert("shop.placed".parse()?);
    mailer.can_hold.insert(seat);
    add(world, &mut records, shop, "n1", shop_on)?;
    add(world, &mut records, mailer, "n2", mailer_on)?;
    Ok(records)
}

fn manifest(name: &str) -> anyhow::Result<Manifest> {
    Ok(Manifest {
        module: name.parse()?,
        release: "1".to_owned(),
        run: Run::command(["true".to_owned()]).context("a program")?,
        after: [].into(),
        env: [].into(),
        restart: Restart::default(),
        emits: [].into(),
        follows: [].into(),
        can_hold: [].into(),
        sends_to: [].into(),
        health: None,
        secrets: [].into(),
    })
}

fn add(
    world: &AmqpWorld,
    records: &mut Records,
    manifest: Manifest,
    node: &str,
    bus: BusKind,
) -> anyhow::Result<()> {
    let node: NodeName = node.parse()?;
    let record = NodeRecord {
        bus,
        moving: None,
        key: world.user(&Principal::Node(node.clone())),
        box_key: world.box_key(&node),
        labels: Labels::new(),
        token: "spent".parse()?,
        enrolled: Timestamp::default(),
        scheduling: mesh_model::Scheduling::Open,
    };
    records.nodes.insert(node.clone(), record);
    add_module(world, records, manifest, node.as_str(), bus)
}

fn add_module(
    world: &AmqpWorld,
    records: &mut Records,
    manifest: Manifest,
    node: &str,
    bus: BusKind,
) -> anyhow::Result<()> {
    let node: NodeName = node.parse()?;
    let instance = InstanceRef {
        module: manifest.module.clone(),
        node: node.clone(),
    };
    let record = InstanceRecord {
        bus,
        key: world.user(&Principal::Instance(instance.clone())),
        credential: Sealed(Vec::new()),
        sealed_to: world.box_key(&node),
        secrets: [].into(),
        life: mesh_model::CredentialLife::default(),
    };
    records.instances.insert(instance, record);
    let on = Selector::Nodes([node].into());
    let module = manifest.module.clone();
    let declared = &mut records.declared;
    declared
        .placements
        .insert(module.clone(), Placement { on, count: None });
    declared.modules.insert(module, manifest);
    Ok(())
}

/// What of it this broker holds.
fn plan(world: &AmqpWorld, shop_on: BusKind, mailer_on: BusKind) -> anyhow::Result<Plan> {
    let records = records(world, shop_on, mailer_on)?;
    let plan = derive(&records, &Bounds::default());
    Ok(part(&plan, &records, BusKind::Amqp))
}

async fn taken_over(world: &AmqpWorld, plan: &Plan) -> anyhow::Result<AmqpController> {
    let controller = world.controller().await?;
    controller.assert(plan).await?;
    controller.take_over().await?;
    controller.assert(plan).await?;
    Ok(controller)
}

fn instance(module: &str, node: &str) -> anyhow::Result<InstanceRef> {
    Ok(InstanceRef {
        module: module.parse()?,
        node: node.parse()?,
    })
}

fn seat() -> anyhow::Result<SeatName> {
    Ok("mail".parse()?)
}

fn event() -> anyhow::Result<Subject> {
    Ok(subject::carry(&"mailer".parse()?, &"shop.placed".parse()?))
}

fn work() -> anyhow::Result<Subject> {
    Ok(subject::work(&seat()?, &"shop".parse()?))
}

async fn say(shop: &AmqpModule, nth: &str) -> anyhow::Result<()> {
    let placed = "placed".parse()?;
    let (e, w) = (format!("e{nth}"), format!("w{nth}"));
    shop.emit(&placed, &e, b"sold".to_vec()).await?;
    shop.send(&seat()?, &w, b"send it".to_vec()).await?;
    Ok(())
}

async fn both(controller: &AmqpController) -> anyhow::Result<[Carried<ModuleReceipt>; 2]> {
    let loads = soon("two are loaded", async {
        [controller.load().await, controller.load().await]
    });
    let mut both = loads.await?;
    both.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(both)
}

async fn nothing<T: std::fmt::Debug>(what: impl Future<Output = T>) -> anyhow::Result<()> {
    let waited = tokio::time::timeout(Duration::from_millis(700), what).await;
    ensure!(waited.is_err(), "{waited:?}");
    Ok(())
}

fn is(incoming: &Incoming<ModuleReceipt>, id: &str, subject: &str) -> anyhow::Result<()> {
    let told = (incoming.id.as_str(), incoming.subject.as_str());
    ensure!(told == (id, subject), "{told:?}");
    Ok(())
}

mod claims {
    use super::*;

    pub(super) async fn what_waits_for_readers_on_the_other_bus_is_the_controllers_until_they_are_here(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let away = plan(world, BusKind::Amqp, BusKind::Nats)?;
        let controller = taken_over(world, &away).await?;
        let shop = world.module(&instance("shop", "n1")?).await?;
        say(&shop, "1").await?;
        let [placed, letter] = both(&controller).await?;
        ensure!((placed.id.as_str(), placed.to) == ("e1", event()?));
        ensure!((letter.id.as_str(), letter.to) == ("w1", work()?));
        ensure!((placed.body, letter.body) == (b"sold".to_vec(), b"send it".to_vec()));
        let again = ModuleSettlement::Again(Duration::from_millis(100));
        controller.unload(&placed.load, again).await?;
        let placed = soon("it comes again", controller.load()).await?;
        ensure!(placed.id == "e1");
        for load in [placed.load, letter.load] {
            controller.unload(&load, ModuleSettlement::Done).await?;
        }
        nothing(controller.load()).await?;

        // One is in hand and the other waits, when the mailer comes to this bus: it has both.
        say(&shop, "2").await?;
        let in_hand = soon("it is loaded", controller.load()).await?;
        let here = plan(world, BusKind::Amqp, BusKind::Amqp)?;
        controller.assert(&here).await?;
        let mailer = world.module(&instance("mailer", "n2")?).await?;
        let mut followed = mailer.listen(Source::Followed).await?;
        let mut works = mailer.listen(Source::Seat(seat()?)).await?;
        let placed = soon("it hears", followed.next()).await?;
        is(&placed, "e2", "mesh.mod.shop.placed")?;
        let letter = soon("it works", works.next()).await?;
        is(&letter, "w2", "mesh.seat.mail.shop")?;
        for receipt in [placed.receipt, letter.receipt] {
            mailer.settle(&receipt, ModuleSettlement::Done).await?;
        }
        // What was in hand is worth nothing any more.
        let stale = controller
            .unload(&in_hand.load, ModuleSettlement::Done)
            .await;
        ensure!(
            stale.as_ref().is_err_and(mesh_bus::BusError::is_passing),
            "{stale:?}"
        );
        nothing(controller.load()).await?;

        // And away again; and what one controller has in hand comes to the next.
        controller.assert(&away).await?;
        say(&shop, "3").await?;
        let _in_hand = both(&controller).await?;
        controller.close().await;
        drop(controller);
        let next = taken_over(world, &away).await?;
        let ids = both(&next).await?.map(|load| load.id);
        ensure!(ids == ["e3", "w3"], "{ids:?}");
        Ok(())
    }

    pub(super) async fn what_comes_from_the_other_bus_is_heard_as_it_was(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let here = plan(world, BusKind::Nats, BusKind::Amqp)?;
        let controller = taken_over(world, &here).await?;
        let mailer = world.module(&instance("mailer", "n2")?).await?;
        let mut followed = mailer.listen(Source::Followed).await?;
        let mut works = mailer.listen(Source::Seat(seat()?)).await?;
        controller.put(&event()?, "e1", b"sold".to_vec()).await?;
        controller.put(&work()?, "w1", Vec::new()).await?;
        let placed = soon("it hears", followed.next()).await?;
        is(&placed, "e1", "mesh.mod.shop.placed")?;
        ensure!(placed.body == b"sold");
        let letter = soon("it works", works.next()).await?;
        is(&letter, "w1", "mesh.seat.mail.shop")?;
        for receipt in [placed.receipt, letter.receipt] {
            mailer.settle(&receipt, ModuleSettlement::Done).await?;
        }
        // What nobody takes is not said to be there.
        let to_nobody = subject::carry(&"mailer".parse()?, &"shop.placed".parse()?);
        world
            .delete_consumer(&mesh_model::ConsumerRef::new(
                subject::events_stream(),
                "mailer",
            )?)
            .await?;
        let put = controller.put(&to_nobody, "e2", Vec::new()).await;
        ensure!(
            put.as_ref().is_err_and(mesh_bus::BusError::is_passing),
            "{put:?}"
        );
        controller.assert(&here).await?;

        Ok(())
    }

    pub(super) async fn what_was_carried_here_and_not_heard_is_carried_on_to_where_its_reader_went(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let here = plan(world, BusKind::Nats, BusKind::Amqp)?;
        let controller = taken_over(world, &here).await?;
        controller.put(&event()?, "e1", b"sold".to_vec()).await?;
        controller.put(&work()?, "w1", Vec::new()).await?;
        controller
            .assert(&plan(world, BusKind::Nats, BusKind::Nats)?)
            .await?;
        let [placed, letter] = both(&controller).await?;
        ensure!((placed.id.as_str(), placed.to) == ("e1", event()?));
        ensure!((letter.id.as_str(), letter.to) == ("w1", work()?));
        Ok(())
    }

    pub(super) async fn nobody_else_says_that_something_was_carried(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let here = plan(world, BusKind::Nats, BusKind::Amqp)?;
        let _controller = taken_over(world, &here).await?;
        let who = Principal::Instance(instance("mailer", "n2")?);
        let endpoint = world.endpoint();
        let user = login(&endpoint.users, &who);
        let (host, port) = endpoint.servers.first().context("a server")?;
        let password = world.keys().password(&who)?;
        let uri = format!("amqp://{user}:{password}@{host}:{port}/{}", world.vhost());
        let connection = Connection::connect(&uri, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel
            .confirm_select(lapin::options::ConfirmSelectOptions::default())
            .await?;
        let to = Address::of(&event()?).context("an address")?;
        let properties = BasicProperties::default().with_user_id(user.into());
        let (exchange, key) = (to.exchange.as_str().into(), to.key.as_str().into());
        let options = BasicPublishOptions::default();
        let published = channel.basic_publish(exchange, key, options, b"forged", properties);
        let refused = match published.await {
            Ok(confirmed) => confirmed.await.map(drop),
            Err(error) => Err(error),
        };
        let said = refused.err().context("it was taken")?.to_string();
        ensure!(said.contains("ACCESS_REFUSED"), "{said}");
        Ok(())
    }

    pub(super) async fn no_more_is_out_than_one_reader_may_have_and_what_is_put_off_is_not_asked_for_again(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let away = plan(world, BusKind::Amqp, BusKind::Nats)?;
        let controller = taken_over(world, &away).await?;
        let shop = world.module(&instance("shop", "n1")?).await?;
        for nth in 0..9 {
            shop.send(&seat()?, &nth.to_string(), Vec::new()).await?;
        }
        let mut out = Vec::new();
        for _ in 0..8 {
            out.push(soon("it is loaded", controller.load()).await?);
        }
        nothing(controller.load()).await?;
        let long = ModuleSettlement::Again(Duration::from_mins(10));
        for load in out.iter().skip(1) {
            controller.unload(&load.load, long).await?;
        }
        nothing(controller.load()).await?;
        let first = out.first().context("one")?;
        controller
            .unload(&first.load, ModuleSettlement::Done)
            .await?;
        let ninth = soon("there is room", controller.load()).await?;
        ensure!(ninth.id == "8", "{}", ninth.id);
        Ok(())
    }

    pub(super) async fn the_controller_may_what_carrying_takes_of_every_module_and_seat_and_nothing_beside(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let mut records = records(world, BusKind::Amqp, BusKind::Nats)?;
        // Their names alone would be more than fits into a permission.
        for nth in 0..150 {
            let mut follower = manifest(&format!("follower-{}-{nth}", nth * 7919 % 1000))?;
            follower.follows.insert("shop.placed".parse()?);
            add_module(world, &mut records, follower, "n2", BusKind::Nats)?;
        }
        let whole = derive(&records, &Bounds::default());
        let away = part(&whole, &records, BusKind::Amqp);
        ensure!(away.carried.len() == 152);
        let controller = taken_over(world, &away).await?;
        let proven = controller.prove(&away, &[Prober::Controller]).await?;
        for row in &proven {
            ensure!(row.differences.is_empty(), "{row:#?}");
            ensure!(
                row.allowed > 8 && row.refused > 50 && row.untried == 0,
                "{row:?}"
            );
        }
        let shop = world.module(&instance("shop", "n1")?).await?;
        shop.emit(&"placed".parse()?, "e1", Vec::new()).await?;
        let mut to = BTreeSet::new();
        for _ in 0..151 {
            let load = soon("it is loaded", controller.load()).await?;
            controller
                .unload(&load.load, ModuleSettlement::Done)
                .await?;
            to.insert(load.to);
        }
        ensure!(to.len() == 151, "{to:?}");
        Ok(())
    }

    pub(super) async fn a_broker_of_a_mesh_of_one_bus_is_brought_to_one_of_two_in_place(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let records = records(world, BusKind::Amqp, BusKind::Amqp)?;
        let alone = derive(&records, &Bounds::default());
        let controller = taken_over(world, &alone).await?;
        // One that a release before this one set up has no such exchange.
        let path = format!("exchanges/{}/{}", world.vhost(), Exchange::Carried);
        ensure!(world.tool().ask("DELETE", &path, None)?.status == 204);
        let shop = world.module(&instance("shop", "n1")?).await?;
        say(&shop, "1").await?;
        let here = plan(world, BusKind::Amqp, BusKind::Amqp)?;
        let written = controller.assert(&here).await?.written;
        for expected in [
            "exchange mesh.carry: made",
            "queue mod.mailer: bound to mesh.carry mailer.*.#",
        ] {
            ensure!(written.iter().any(|it| it == expected), "{written:?}");
        }
        let again = controller.assert(&here).await?;
        ensure!(again.written.is_empty(), "{:?}", again.written);
        controller.put(&event()?, "e2", Vec::new()).await?;
        // What waited goes on waiting.
        let mailer = world.module(&instance("mailer", "n2")?).await?;
        let mut followed = mailer.listen(Source::Followed).await?;
        for id in ["e1", "e2"] {
            let placed = soon("it hears", followed.next()).await?;
            is(&placed, id, "mesh.mod.shop.placed")?;
        }
        Ok(())
    }
}
