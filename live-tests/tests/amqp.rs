//! What is so on RabbitMQ and on no other bus.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::join_all;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use live_tests::{AmqpWorld, eventually, soon};
use mesh_amqp::{AmqpController, AmqpNode};
use mesh_bus::conformance::World;
use mesh_bus::{
    BusError, ControllerBus, Delivery, Link, NodeBus, NodeEvent, NodeSettlement, Settlement,
};
use mesh_derive::topology::{Address, Queue, login};
use mesh_derive::{Bounds, Plan, derive, subject};
use mesh_model::{BusFacts, Labels, NodeName, NodeRecord, Principal, Records, Timestamp};
use serde_json::json;

macro_rules! on_a_broker {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
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
    a_plan_that_is_there_already_writes_nothing
    of_many_that_take_over_at_once_one_is_left
    a_node_that_is_no_longer_of_the_mesh_is_cut_off_at_once
    the_later_run_of_an_agent_hears_everything_and_the_earlier_ones_end_takes_nothing_from_it
    a_report_without_the_brokers_word_for_who_sent_it_is_nobodys
    a_queue_that_cannot_be_changed_in_place_is_said_and_left
    what_is_held_comes_again_when_its_connection_ends
    no_more_is_held_than_may_be_out_and_a_full_queue_is_heard
    what_a_topic_permission_left_over_allows_is_closed
    what_a_broker_would_not_read_is_refused_and_nothing_of_it_written
}

/// A mesh of some nodes.
fn plan(world: &AmqpWorld, nodes: &[&str]) -> anyhow::Result<Plan> {
    Ok(derive(&records(world, nodes)?, &Bounds::default()))
}

fn records(world: &AmqpWorld, nodes: &[&str]) -> anyhow::Result<Records> {
    let mut records = Records::new("proof".parse()?, BusFacts::default());
    for name in nodes {
        let node: NodeName = name.parse()?;
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: world.user(&Principal::Node(node.clone())),
            box_key: world.box_key(&node),
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node, record);
    }
    Ok(records)
}

/// A controller that has taken over a mesh of these nodes.
async fn taken_over(
    world: &AmqpWorld,
    bounds: Bounds,
    nodes: &[&str],
) -> anyhow::Result<AmqpController> {
    let controller = AmqpController::connect(world.setup(bounds)?).await?;
    controller.assert(&plan(world, nodes)?).await?;
    controller.take_over().await?;
    controller.assert(&plan(world, nodes)?).await?;
    Ok(controller)
}

async fn take(
    controller: &AmqpController,
) -> anyhow::Result<Delivery<<AmqpController as ControllerBus>::Receipt>> {
    let taken = soon("a message is taken", async {
        loop {
            match controller.take(1).await {
                Ok(mut taken) if !taken.is_empty() => return Ok(taken.remove(0)),
                Ok(_) | Err(BusError::Away(_)) => {}
                Err(error) => return Err(error),
            }
        }
    });
    Ok(taken.await??)
}

/// The next declaration a node hears.
async fn declared(bus: &AmqpNode) -> anyhow::Result<(Vec<u8>, <AmqpNode as NodeBus>::Receipt)> {
    loop {
        match bus.next().await {
            NodeEvent::Declared { body, receipt } => return Ok((body, receipt)),
            NodeEvent::Denied(why) => anyhow::bail!(why),
            NodeEvent::Link(_) | NodeEvent::Idle => {}
        }
    }
}

mod claims {
    use super::*;

    pub(super) async fn a_plan_that_is_there_already_writes_nothing(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a", "b"]).await?;
        let plan = plan(world, &["a", "b"])?;
        let again = controller.assert(&plan).await?;
        ensure!(again.written.is_empty(), "{:?}", again.written);
        ensure!(again.strays.is_empty(), "{:?}", again.strays);
        let fewer = controller.assert(&super::plan(world, &["a"])?).await?;
        // Its user, its queue, and the one it is asked over.
        ensure!(fewer.written.len() == 3, "{:?}", fewer.written);
        let other = world
            .controller()
            .await?
            .assert(&super::plan(world, &["a"])?)
            .await?;
        ensure!(other.written.is_empty(), "{:?}", other.written);
        Ok(())
    }

    pub(super) async fn of_many_that_take_over_at_once_one_is_left(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        world
            .controller()
            .await?
            .assert(&plan(world, &["a"])?)
            .await?;
        let mut controllers = Vec::new();
        for _ in 0..4 {
            controllers.push(world.controller().await?);
        }
        let taking = controllers.iter().map(|controller| async {
            while let Err(error) = controller.take_over().await {
                ensure!(error.is_passing(), "{error}");
            }
            Ok(())
        });
        let taken = soon("everybody has taken over", join_all(taking)).await?;
        taken.into_iter().collect::<anyhow::Result<()>>()?;
        let marks = controllers.iter().map(|it| it.leave_mark(b"here".to_vec()));
        let marks = join_all(marks).await;
        let left = marks.iter().filter(|left| left.is_ok()).count();
        let fenced = |left: &&Result<_, _>| matches!(left, Err(BusError::Fenced(_)));
        ensure!(left == 1, "{marks:?}");
        ensure!(marks.iter().filter(fenced).count() == 3, "{marks:?}");
        Ok(())
    }

    pub(super) async fn a_node_that_is_no_longer_of_the_mesh_is_cut_off_at_once(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a", "b"]).await?;
        let (gone, stays) = (
            world.node(&"a".parse()?).await?,
            world.node(&"b".parse()?).await?,
        );
        gone.report(b"one".to_vec()).await?;
        stays.report(b"one".to_vec()).await?;
        let up = soon("the link is up", gone.next()).await?;
        ensure!(matches!(up, NodeEvent::Link(Link::Up)), "{up:?}");
        controller.assert(&plan(world, &["b"])?).await?;
        let down = soon("the link goes down", gone.next()).await?;
        ensure!(matches!(down, NodeEvent::Link(Link::Down)), "{down:?}");
        ensure!(gone.report(b"two".to_vec()).await.is_err(), "it may report");
        stays.report(b"two".to_vec()).await?;
        Ok(())
    }

    pub(super) async fn the_later_run_of_an_agent_hears_everything_and_the_earlier_ones_end_takes_nothing_from_it(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a"]).await?;
        let node: NodeName = "a".parse()?;
        // It reads what it is asked on the same connection, which says that it listens.
        let listens = async |session: u64| {
            let bus = world.node_since(&node, session).await?;
            let body = session.to_string().into_bytes();
            let heard = eventually(Duration::from_secs(20), "it listens", async || {
                controller.declare(&node, body.clone()).await?;
                let next = tokio::time::timeout(Duration::from_millis(500), declared(&bus)).await;
                let Ok(next) = next else { return Ok(false) };
                let (heard, receipt) = next?;
                bus.settle(&receipt, NodeSettlement::Done).await?;
                Ok(heard == body)
            });
            heard.await?;
            anyhow::Ok(bus)
        };
        let earlier = listens(1_000).await?;
        let later = listens(1_001).await?;
        // What came while the later one was not there yet.
        while let Ok(heard) =
            tokio::time::timeout(Duration::from_millis(300), declared(&earlier)).await
        {
            earlier.settle(&heard?.1, NodeSettlement::Done).await?;
        }
        for round in 0_u8..20 {
            controller.declare(&node, vec![round]).await?;
            let (body, receipt) = soon("the later one hears", declared(&later)).await??;
            ensure!(body == [round], "{body:?}");
            // One that is not settled keeps the rest from nobody.
            if round % 2 == 0 {
                later.settle(&receipt, NodeSettlement::Done).await?;
            }
        }
        let silent = tokio::time::timeout(Duration::from_millis(300), declared(&earlier)).await;
        ensure!(silent.is_err(), "the earlier one heard something");
        drop(earlier);
        controller.declare(&node, b"on".to_vec()).await?;
        let (body, receipt) = soon("the later one hears on", declared(&later)).await??;
        ensure!(body == b"on", "{body:?}");
        later.settle(&receipt, NodeSettlement::Done).await?;
        // One that connects after it and began before it is no later run.
        let stale = world.node_since(&node, 999).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        controller.declare(&node, b"still".to_vec()).await?;
        let (body, receipt) = soon("the later one hears still", declared(&later)).await??;
        ensure!(body == b"still", "{body:?}");
        later.settle(&receipt, NodeSettlement::Done).await?;
        // Once nobody else is there, it has what there is.
        drop(later);
        controller.declare(&node, b"alone".to_vec()).await?;
        let alone = eventually(Duration::from_secs(20), "the last one hears", async || {
            let (body, receipt) = declared(&stale).await?;
            stale.settle(&receipt, NodeSettlement::Done).await?;
            Ok(body == b"alone")
        });
        alone.await?;
        Ok(())
    }

    pub(super) async fn a_report_without_the_brokers_word_for_who_sent_it_is_nobodys(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a"]).await?;
        let node: NodeName = "a".parse()?;
        let (endpoint, who) = (world.endpoint(), Principal::Node(node.clone()));
        let user = login(&endpoint.users, &who);
        let (host, port) = endpoint.servers.first().context("a server")?;
        let password = world.keys().password(&who)?;
        let uri = format!("amqp://{user}:{password}@{host}:{port}/{}", world.vhost());
        let connection = Connection::connect(&uri, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let to = Address::of(&subject::report(&node)).context("an address")?;
        for (body, properties) in [
            ("nobody's", BasicProperties::default()),
            (
                "its own",
                BasicProperties::default().with_user_id(ShortString::from(user.as_str())),
            ),
        ] {
            let options = BasicPublishOptions::default();
            let (exchange, key) = (to.exchange.as_str().into(), to.key.as_str().into());
            let published =
                channel.basic_publish(exchange, key, options, body.as_bytes(), properties);
            published.await?.await?;
        }
        let taken = take(&controller).await?;
        ensure!(taken.body == b"its own", "{taken:?}");
        Ok(())
    }

    pub(super) async fn a_queue_that_cannot_be_changed_in_place_is_said_and_left(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a"]).await?;
        let queue = Queue::Node("b".parse()?).name();
        let path = format!("queues/{}/{queue}", world.vhost());
        let other = json!({ "durable": true, "arguments": { "x-max-length": 7 } });
        world.tool().send("PUT", &path, &other)?;
        let asserted = controller.assert(&plan(world, &["a", "b", "c"])?).await;
        let said =
            matches!(&asserted, Err(BusError::Immutable { what, .. }) if what.contains(&queue));
        ensure!(said, "{asserted:?}");
        // The rest is as it should be.
        world
            .node(&"c".parse()?)
            .await?
            .report(b"here".to_vec())
            .await?;
        Ok(())
    }

    pub(super) async fn what_is_held_comes_again_when_its_connection_ends(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a"]).await?;
        world
            .node(&"a".parse()?)
            .await?
            .report(b"one".to_vec())
            .await?;
        let first = take(&controller).await?;
        let long = Settlement::Hold(Duration::from_hours(1));
        controller.settle(&first.receipt, long).await?;
        let own = format!("{}.controller", world.vhost());
        let ended = eventually(Duration::from_secs(20), "its connections end", async || {
            let all = world.tool().get("definitions")?;
            let users = all.get("users").and_then(|users| users.as_array().cloned());
            let names = users.unwrap_or_default().into_iter();
            let user = names
                .filter_map(|user| user.get("name")?.as_str().map(str::to_owned))
                .find(|name| name.starts_with(&own))
                .context("the controller has a user")?;
            let path = format!("connections/username/{user}");
            Ok(world.tool().ask("DELETE", &path, None)?.status == 204)
        });
        ended.await?;
        let again = take(&controller).await?;
        ensure!(again.key == first.key, "it came again as another");
        // What it takes to settle the first is worth nothing any more, and harms nobody.
        let stale = controller.settle(&first.receipt, Settlement::Done).await;
        ensure!(matches!(stale, Err(BusError::Away(_))), "{stale:?}");
        controller.settle(&again.receipt, Settlement::Done).await?;
        Ok(())
    }

    pub(super) async fn no_more_is_held_than_may_be_out_and_a_full_queue_is_heard(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let bounds = Bounds {
            held: 2,
            control_bytes: 4096,
            ..Bounds::default()
        };
        let controller = taken_over(world, bounds, &["a"]).await?;
        let node = world.node(&"a".parse()?).await?;
        let mut sent = 0_u8;
        let full = soon("the queue is full", async {
            loop {
                let mut body = vec![0; 1024];
                body.push(sent);
                match node.report(body).await {
                    Ok(()) => sent += 1,
                    Err(error) => return error,
                }
            }
        });
        let full = full.await?;
        ensure!(matches!(full, BusError::Full(_)), "{full}");
        ensure!(sent < 16, "{sent} of a kilobyte each");
        let held = controller.take(512).await?;
        ensure!((1..=2).contains(&held.len()), "{} are held", held.len());
        for message in &held {
            controller
                .settle(&message.receipt, Settlement::Done)
                .await?;
        }
        let room = eventually(Duration::from_secs(20), "there is room again", async || {
            for message in controller.take(512).await? {
                controller
                    .settle(&message.receipt, Settlement::Done)
                    .await?;
            }
            Ok(node.report(b"more".to_vec()).await.is_ok())
        });
        room.await?;
        Ok(())
    }

    pub(super) async fn what_a_topic_permission_left_over_allows_is_closed(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a"]).await?;
        let user = login(&world.endpoint().users, &Principal::Node("a".parse()?));
        let path = format!("topic-permissions/{}/{user}", world.vhost());
        let left = json!({ "exchange": "mesh.ev", "write": ".*", "read": ".*" });
        world.tool().send("PUT", &path, &left)?;
        let asserted = controller.assert(&plan(world, &["a"])?).await?;
        ensure!(asserted.written.len() == 1, "{:?}", asserted.written);
        let again = controller.assert(&plan(world, &["a"])?).await?;
        ensure!(again.written.is_empty(), "{:?}", again.written);
        let rows = world.tool().get(&path)?;
        ensure!(!rows.to_string().contains(".*"), "{rows}");
        Ok(())
    }

    /// RabbitMQ reads 1,024 bytes of a pattern; from 4.3 on a longer one lets nothing match, and nobody is told.
    pub(super) async fn what_a_broker_would_not_read_is_refused_and_nothing_of_it_written(
        world: &AmqpWorld,
    ) -> anyhow::Result<()> {
        let controller = taken_over(world, Bounds::default(), &["a"]).await?;
        let held = || {
            let vhost = world.vhost();
            let definitions = world.tool().get(&format!("definitions/{vhost}"))?;
            let users = world.tool().get(&format!("vhosts/{vhost}/permissions"))?;
            anyhow::Ok((definitions, users))
        };
        let before = held()?;
        let mut records = records(world, &["a", "b"])?;
        let who = Principal::Node("b".parse()?);
        let name = format!("{:0>60}", "b");
        let mut plan = derive(&records, &Bounds::default());
        let grant = plan.grants.get_mut(&who).context("b has a grant")?;
        for n in 0_u64..100 {
            let digits = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            grant
                .publish
                .insert(format!("mesh.mod.{name}.{digits:016x}").parse()?);
        }
        let asserted = controller.assert(&plan).await;
        let said = matches!(&asserted, Err(BusError::Refused { why, .. })
            if why.contains("node/b: what it may write to mesh.ev") && why.contains("at most 1024"));
        ensure!(said, "{asserted:?}");
        ensure!(held()? == before, "something was written");
        // What fits goes on.
        records.nodes.remove(&"b".parse()?);
        controller
            .assert(&derive(&records, &Bounds::default()))
            .await?;
        Ok(())
    }
}
