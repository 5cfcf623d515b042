//! What went wrong in other people's production on a RabbitMQ, and does not here: what only a broker shows.
//!
//! `crates/mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::{AmqpWorld, eventually, manifest, quiet, soon};
use mesh_amqp::{AmqpController, AmqpModule, Receipt};
use mesh_bus::conformance::World;
use mesh_bus::{
    BusError, ControllerBus, Delivery, Listener, ModuleBus, ModuleSettlement, NodeBus, Settlement,
    Source,
};
use mesh_derive::topology::BrokerVersion;
use mesh_derive::{Bounds, Plan, derive};
use mesh_model::{
    BusFacts, BusKind, InstanceRef, Labels, Manifest, NodeName, NodeRecord, Principal, Records,
    Timestamp,
};
use mesh_testkit::rabbitmq::Shape;
use serde_json::Value;
use tokio::time::timeout;

/// `shop`, which emits `sold`, and `clerk`, which follows it, both on `n1`; and seat `mail`, which nobody holds.
struct Stage {
    world: AmqpWorld,
    controller: AmqpController,
    plan: Plan,
}

async fn stage() -> anyhow::Result<Option<Stage>> {
    match AmqpWorld::start().await? {
        Some(world) => stage_in(world).await.map(Some),
        None => Ok(None),
    }
}

async fn stage_in(world: AmqpWorld) -> anyhow::Result<Stage> {
    let facts = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new("live".parse()?, facts);
    records.declared.seats.insert("mail".parse()?, None.into());
    let shop = Manifest {
        emits: ["sold".parse()?].into(),
        ..manifest("shop")?
    };
    let clerk = Manifest {
        follows: ["shop.sold".parse()?].into(),
        can_hold: ["mail".parse()?].into(),
        ..manifest("clerk")?
    };
    for manifest in [shop, clerk] {
        let modules = &mut records.declared.modules;
        modules.insert(manifest.module.clone(), manifest);
    }
    let node: NodeName = "n1".parse()?;
    let record = NodeRecord {
        bus: BusKind::Nats,
        moving: None,
        key: world.user(&Principal::Node(node.clone())),
        box_key: world.box_key(&node),
        labels: Labels::new(),
        token: "spent".parse()?,
        enrolled: Timestamp::default(),
        scheduling: mesh_model::Scheduling::Open,
    };
    records.nodes.insert(node, record);
    let mut plan = derive(&records, &Bounds::default());
    for module in ["shop", "clerk"] {
        let who = instance(module)?;
        let grant = plan.grants.get(&Principal::Module(who.module.clone()));
        let grant = grant.context("a grant")?.clone();
        let who = Principal::Instance(who);
        plan.grants.insert(who.clone(), grant);
        plan.users.insert(world.user(&who), who);
    }
    let controller = world.controller().await?;
    controller.assert(&plan).await?;
    Ok(Stage {
        world,
        controller,
        plan,
    })
}

fn instance(module: &str) -> anyhow::Result<InstanceRef> {
    Ok(InstanceRef {
        module: module.parse()?,
        node: "n1".parse()?,
    })
}

impl Stage {
    /// By what each queue is read, once each is read by one of something else than `before`.
    async fn readers(
        &self,
        before: &BTreeMap<String, String>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let (tool, vhost) = (self.world.tool(), self.world.vhost());
        let read = [
            "ask.n1",
            "ctl.beat",
            "ctl.enrol",
            "ctl.events",
            "ctl.log",
            "ctl.report",
            "mod.clerk",
            "node.n1",
        ];
        let mut found = Vec::new();
        let anew = eventually(DEADLINE, "each queue is read by one", async || {
            let all = tool.get(&format!("consumers/{vhost}"))?;
            let all = all.as_array().map(Vec::as_slice).unwrap_or_default();
            let text = |of: &Value, at: &str| of.pointer(at)?.as_str().map(str::to_owned);
            let reader =
                |it| text(it, "/queue/name").zip(text(it, "/channel_details/connection_name"));
            found = all.iter().filter_map(reader).collect();
            found.sort();
            let queues: Vec<&str> = found.iter().map(|(queue, _)| queue.as_str()).collect();
            Ok(queues == read
                && found
                    .iter()
                    .all(|(queue, by)| before.get(queue) != Some(by)))
        });
        let anew = anew.await;
        anew.with_context(|| format!("{found:?}, and before {before:?}"))?;
        Ok(found.into_iter().collect())
    }

    /// Ends every connection of everybody.
    fn end_connections(&self) -> anyhow::Result<()> {
        let (tool, vhost) = (self.world.tool(), self.world.vhost());
        let users = tool.get("users?columns=name")?;
        let users = users.as_array().into_iter().flatten();
        let users = users.filter_map(|user| user.get("name")?.as_str());
        for user in users.filter(|user| user.starts_with(&format!("{vhost}."))) {
            let path = format!("connections/username/{user}");
            let ended = tool.ask("DELETE", &path, None)?;
            ensure!(ended.status == 204, "{user}: {ended:?}");
        }
        Ok(())
    }

    /// Takes over, and has what a controller may do written.
    async fn takes_over(&self) -> anyhow::Result<()> {
        self.controller.take_over().await?;
        self.controller.assert(&self.plan).await?;
        Ok(())
    }

    /// The next message for the controller, soon.
    async fn take(&self) -> anyhow::Result<Delivery<Receipt>> {
        soon("a message is taken", self.next()).await?
    }

    async fn next(&self) -> anyhow::Result<Delivery<Receipt>> {
        loop {
            match self.controller.take(1).await {
                Ok(taken) if taken.is_empty() => {}
                Ok(mut taken) => return Ok(taken.remove(0)),
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What an operator is warned of.
    async fn warnings(&self) -> anyhow::Result<Vec<String>> {
        let found = self.controller.findings().await?.into_iter();
        Ok(found.filter(|it| it.warning).map(|it| it.text).collect())
    }

    /// How many messages of a queue there are, waiting and out.
    fn messages(&self, queue: &str) -> anyhow::Result<Option<u64>> {
        let (tool, vhost) = (self.world.tool(), self.world.vhost());
        let all = tool.get(&format!("queues/{vhost}?columns=name,messages"))?;
        let mut all = all.as_array().into_iter().flatten();
        let found = all.find(|it| it.get("name").and_then(Value::as_str) == Some(queue));
        Ok(found.and_then(|it| it.get("messages")?.as_u64()))
    }

    async fn module(&self, module: &str) -> anyhow::Result<AmqpModule> {
        Ok(self.world.module(&instance(module)?).await?)
    }
}

/// An error of one channel ended every consumer in the process, since they shared it.
/// <https://github.com/iii-hq/iii/issues/1958>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_ff7561a_what_one_ear_is_refused_ends_no_other() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let (shop, clerk) = (stage.module("shop").await?, stage.module("clerk").await?);
    let mut followed = clerk.listen(Source::Followed).await?;
    // A queue it may not read: the broker ends the channel it was asked on.
    let mut refused = clerk.listen(Source::Seat("mail".parse()?)).await?;
    for id in ["1", "2"] {
        shop.emit(&"sold".parse()?, id, id.into()).await?;
        let heard = soon("it is heard", followed.next()).await?;
        assert_eq!(heard.body, id.as_bytes());
        clerk.settle(&heard.receipt, ModuleSettlement::Done).await?;
        assert!(quiet(refused.next()).await);
    }
    Ok(())
}

/// A broker answered with an error and had made the queue all the same.
/// <https://github.com/cloudamqp/lavinmq/issues/2193>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_c814316_each_assertion_makes_what_is_not_there_and_nothing_else()
-> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let (tool, vhost) = (stage.world.tool(), stage.world.vhost());
    for queue in ["mod.clerk", "seat.mail"] {
        let gone = tool.ask("DELETE", &format!("queues/{vhost}/{queue}"), None)?;
        assert_eq!(gone.status, 204, "{queue}");
    }
    // One of the two is there after all, as if it had been made by what failed.
    let body = serde_json::json!({ "durable": true, "auto_delete": false, "arguments": { "x-queue-type": "classic" } });
    tool.send("PUT", &format!("queues/{vhost}/seat.mail"), &body)?;
    let asserted = stage.controller.assert(&stage.plan).await?;
    let made = |what: &str| asserted.written.iter().any(|text| text.contains(what));
    assert!(made("queue mod.clerk: made"), "{:?}", asserted.written);
    assert!(!made("seat.mail: made"), "{:?}", asserted.written);
    let again = stage.controller.assert(&stage.plan).await?;
    assert_eq!(again.written, [""; 0]);
    Ok(())
}

/// A client restored connection and channels after the broker had ended them, and no consumer: nothing was heard any more.
/// <https://github.com/rabbitmq/rabbitmq-dotnet-client/issues/1061>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_d5ddb2a_who_read_before_its_connection_ended_reads_after() -> anyhow::Result<()> {
    let Some(world) = AmqpWorld::with_statistics().await? else {
        return Ok(());
    };
    let stage = stage_in(world).await?;
    stage.takes_over().await?;
    let (shop, clerk) = (stage.module("shop").await?, stage.module("clerk").await?);
    let mut followed = clerk.listen(Source::Followed).await?;
    let node = stage.world.node(&"n1".parse()?).await?;
    let mut readers = BTreeMap::new();
    for id in ["1", "2"] {
        readers = stage.readers(&readers).await?;
        eventually(DEADLINE, "both publish", async || {
            let emitted = shop.emit(&"sold".parse()?, id, id.into()).await;
            Ok(emitted.is_ok() && node.report(id.into()).await.is_ok())
        })
        .await?;
        let heard = soon("it is heard", followed.next()).await?;
        assert_eq!(heard.body, id.as_bytes());
        clerk.settle(&heard.receipt, ModuleSettlement::Done).await?;
        let taken = stage.take().await?;
        assert_eq!(taken.body, id.as_bytes());
        stage
            .controller
            .settle(&taken.receipt, Settlement::Done)
            .await?;
        stage.end_connections()?;
    }
    Ok(())
}

/// Readers died now and then, since one message was stuck in them: the broker waits for a settlement for so long only.
/// <https://github.com/amqp-rs/lapin/issues/427>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_b17ab17_what_is_held_outlives_the_brokers_patience() -> anyhow::Result<()> {
    let shape = Shape {
        settings: "consumer_timeout = 2000\n".to_owned(),
        // It looks once a minute otherwise.
        advanced: Some("[{rabbit, [{channel_tick_interval, 500}]}].\n".to_owned()),
        ..Shape::default()
    };
    let Some(world) = AmqpWorld::of_its_own(shape).await? else {
        return Ok(());
    };
    let stage = stage_in(world).await?;
    stage.takes_over().await?;
    let node = stage.world.node(&"n1".parse()?).await?;
    node.report(b"held".to_vec()).await?;
    let first = stage.take().await?;
    let long = Settlement::Hold(Duration::from_hours(1));
    stage.controller.settle(&first.receipt, long).await?;
    let version = stage.controller.broker_facts().version;
    let last = if version < BrokerVersion::new(4, 0, 0) {
        // Nothing but the broker's own settings says how long it waits: what it took back comes again, as the same.
        let again = stage.take().await?;
        assert_eq!(again.key, first.key);
        assert_eq!(again.body, b"held");
        let warned = stage.warnings().await?;
        let said = warned
            .iter()
            .any(|it| it.contains("held for 2 s (consumer_timeout)"));
        assert!(said, "{warned:?}");
        again
    } else {
        // Its policies say it, and they are the mesh's.
        let cut = timeout(Duration::from_secs(6), stage.next());
        assert!(cut.await.is_err(), "it was taken back");
        first
    };
    stage
        .controller
        .settle(&last.receipt, Settlement::Done)
        .await?;
    // The next is the next, and what was settled is gone.
    node.report(b"next".to_vec()).await?;
    let next = stage.take().await?;
    assert_eq!(next.body, b"next");
    stage
        .controller
        .settle(&next.receipt, Settlement::Done)
        .await?;
    eventually(DEADLINE, "nothing is left", async || {
        Ok(stage.messages("ctl.report")? == Some(0))
    })
    .await?;
    Ok(())
}

/// A broker took connections and answered that it was alive, and whatever was published hung: it was short of disk.
/// <https://github.com/rabbitmq/rabbitmq-server/issues/23>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_ddbf32c_a_broker_short_of_disk_is_seen_by_what_it_does_not_confirm()
-> anyhow::Result<()> {
    let shape = Shape {
        statistics: true,
        ..Shape::default()
    };
    let Some(world) = AmqpWorld::of_its_own(shape).await? else {
        return Ok(());
    };
    let stage = stage_in(world).await?;
    stage.takes_over().await?;
    let node = stage.world.node(&"n1".parse()?).await?;
    node.report(b"before".to_vec()).await?;
    let before = stage.take().await?;

    let runs_short = |short| {
        let broker = stage.world.broker();
        tokio::task::block_in_place(|| broker.run_short_of_disk(short))
    };
    runs_short(true)?;
    let told = node.report(b"meanwhile".to_vec()).await;
    let said =
        matches!(&told, Err(BusError::Away(why)) if why.contains("short of memory or of disk"));
    assert!(said, "{told:?}");
    let warned = stage.warnings().await?;
    assert!(
        warned.iter().any(|it| it.contains("short of disk")),
        "{warned:?}"
    );
    // What came before is settled all the same: that goes another way.
    stage
        .controller
        .settle(&before.receipt, Settlement::Done)
        .await?;
    eventually(DEADLINE, "it is settled", async || {
        Ok(stage.messages("ctl.report")? == Some(0))
    })
    .await?;

    runs_short(false)?;
    eventually(DEADLINE, "it is confirmed", async || {
        Ok(node.report(b"meanwhile".to_vec()).await.is_ok())
    })
    .await?;
    let taken = stage.take().await?;
    assert_eq!(taken.body, b"meanwhile");
    eventually(DEADLINE, "nobody is warned any more", async || {
        let warned = stage.warnings().await?;
        Ok(!warned.iter().any(|it| it.contains("short of disk")))
    })
    .await?;
    Ok(())
}

const DEADLINE: Duration = Duration::from_secs(40);
