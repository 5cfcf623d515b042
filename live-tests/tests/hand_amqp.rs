//! What went wrong in other people's production on a RabbitMQ, and does not here: what only a broker shows.
//!
//! `crates/mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use anyhow::Context;
use live_tests::{AmqpWorld, manifest, quiet, soon};
use mesh_amqp::{AmqpController, AmqpModule};
use mesh_bus::conformance::World;
use mesh_bus::{ControllerBus, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_derive::{Bounds, Plan, derive};
use mesh_model::{BusFacts, InstanceRef, Manifest, Principal, Records};

/// `shop`, which emits `sold`, and `clerk`, which follows it, both on `n1`; and seat `mail`, which nobody holds.
struct Stage {
    world: AmqpWorld,
    controller: AmqpController,
    plan: Plan,
}

async fn stage() -> anyhow::Result<Option<Stage>> {
    let Some(world) = AmqpWorld::start().await? else {
        return Ok(None);
    };
    let facts = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new("live".parse()?, facts);
    records.declared.seats.insert("mail".parse()?, None);
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
    Ok(Some(Stage {
        world,
        controller,
        plan,
    }))
}

fn instance(module: &str) -> anyhow::Result<InstanceRef> {
    Ok(InstanceRef {
        module: module.parse()?,
        node: "n1".parse()?,
    })
}

impl Stage {
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
