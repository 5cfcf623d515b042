//! Cases about consumers that somebody deletes or changes while a controller runs, and while none does.

use std::time::Duration;

use anyhow::Context;
use live_tests::{KeyRing, Server, Shape, consumer, eventually, manifest, placed_on, soon};
use mesh_bus::{ControllerBus, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{InstanceRef, Manifest, Principal, Records};
use serde_json::{Value, json};

use crate::stage::{changed, clerk, stage};

const PROMISED: Duration = Duration::from_secs(5);

/// A consumer that begins with what is new was lost, and when it was made again it skipped what had waited in it.
/// <https://github.com/kyma-project/kyma/issues/14371>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_216f21d_what_waits_in_a_consumer_that_is_deleted_arrives() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let (shop, clerk) = (stage.module("shop").await?, stage.module("clerk").await?);
    let (own, tool) = (
        consumer(subject::events_stream(), "clerk")?,
        &stage.mesh.tool,
    );
    let sold = "sold".parse()?;
    let mut ear = clerk.listen(Source::Followed).await?;
    for body in ["one", "two", "three"] {
        shop.emit(&sold, body, body.as_bytes().to_vec()).await?;
    }
    let first = soon("the first comes", ear.next()).await?;
    clerk.settle(&first.receipt, ModuleSettlement::Done).await?;
    let second = soon("the second comes", ear.next()).await?;
    assert_eq!(second.body, b"two");
    // Nobody listens: the third waits in the consumer, or is out and not settled, and so is the second.
    drop((ear, clerk));
    let lost = tool.consumer(&own).await?.context("it is there")?;
    assert!(tool.delete_consumer(&own).await?);
    let back = async || {
        let found = tool.consumer(&own).await?;
        Ok(found.is_some_and(|found| found.get("created") != lost.get("created")))
    };
    eventually(PROMISED, "the consumer is back", back).await?;
    let clerk = stage.module("clerk").await?;
    let mut ear = clerk.listen(Source::Followed).await?;
    let mut heard = Vec::new();
    while !heard.ends_with(&["three".to_owned()]) {
        let event = soon("what waited comes", ear.next()).await?;
        clerk.settle(&event.receipt, ModuleSettlement::Done).await?;
        heard.push(String::from_utf8(event.body)?);
    }
    // What was settled just before may come again.
    assert!(
        heard == ["two", "three"] || heard == ["one", "two", "three"],
        "{heard:?}"
    );
    // How it began is not held against it, and one that is new begins with what is new.
    let newcomer = Manifest {
        follows: ["shop.sold".parse()?].into(),
        ..manifest("newcomer")?
    };
    let here = Some(placed_on(&stage.node));
    stage.mesh.apply(newcomer, here).await?;
    let newcomer = consumer(subject::events_stream(), "newcomer")?;
    assert_eq!(tool.unsettled(&newcomer).await?, 0);
    let made = tool.consumer(&newcomer).await?.context("it is there")?;
    assert_eq!(made.pointer("/config/deliver_policy"), Some(&json!("new")));
    let kept = tool.consumer(&own).await?.context("it is there")?;
    assert_eq!(
        kept.pointer("/config/deliver_policy"),
        Some(&json!("by_start_sequence"))
    );
    Ok(())
}

/// As above, while no controller runs: nobody knows where it stood, and that is said.
/// <https://github.com/kyma-project/kyma/issues/14371>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_216f21d_one_that_was_deleted_while_no_controller_ran_is_told_of()
-> anyhow::Result<()> {
    let Some(server) = Server::start(Shape::Derived).await? else {
        return Ok(());
    };
    let mut records = Records::new("live".parse()?, Server::facts());
    let shop = Manifest {
        emits: ["sold".parse()?].into(),
        ..manifest("shop")?
    };
    let clerk = Manifest {
        can_hold: [].into(),
        ..clerk()?
    };
    for manifest in [shop, clerk] {
        let modules = &mut records.declared.modules;
        modules.insert(manifest.module.clone(), manifest);
    }
    let mut plan = derive(&records, &Bounds::default());
    let keys = KeyRing::default();
    let shop = InstanceRef {
        module: "shop".parse()?,
        node: "n1".parse()?,
    };
    let mut grant = plan.grants[&Principal::Module(shop.module.clone())].clone();
    let shop = Principal::Instance(shop);
    grant.subscribe.insert(subject::inbox(&shop));
    plan.grants.insert(shop.clone(), grant);
    plan.users.insert(keys.public(&shop)?, shop.clone());
    let tool = server.tool().await?;
    let skipped = async || {
        let controller = server.controller().await?;
        controller.assert(&plan).await?;
        let found = controller.findings().await?;
        let texts = found.into_iter().filter(|it| it.warning).map(|it| it.text);
        let of = |text: &String| text.contains("skipped");
        anyhow::Ok(texts.filter(of).collect::<Vec<_>>())
    };
    assert_eq!(skipped().await?, [""; 0]);
    let shop = server.rogue(&keys.user(&shop)?, &shop).await?;
    let stored = shop.client().request("mesh.mod.shop.sold", "1".into());
    soon("it is stored", stored).await??;
    assert_eq!(skipped().await?, [""; 0]);
    let own = consumer(subject::events_stream(), "clerk")?;
    assert!(tool.delete_consumer(&own).await?);
    let told = skipped().await?;
    assert!(
        matches!(&told[..], [one] if one.contains("consumer EVENTS/clerk")),
        "{told:?}"
    );
    Ok(())
}

/// The application's limit of deliveries differs from the consumer's, and binding fails.
/// <https://github.com/nats-io/nats.go/issues/1035>
///
/// Readers state no definition, so none can differ from theirs. What somebody changed is brought back.
#[tokio::test(flavor = "multi_thread")]
async fn case_b_b0e12dc_what_drifted_is_brought_back_in_place_and_its_reader_goes_on()
-> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let (shop, clerk) = (stage.module("shop").await?, stage.module("clerk").await?);
    let mut ear = clerk.listen(Source::Followed).await?;
    let own = consumer(subject::events_stream(), "clerk")?;
    let tool = &stage.mesh.tool;
    let as_derived = tool.consumer(&own).await?.context("it is there")?;
    for fields in [
        json!({ "max_deliver": 5 }),
        json!({ "ack_wait": 1_000_000_000_u64 }),
        json!({ "filter_subject": "mesh.mod.shop.returned", "filter_subjects": null }),
    ] {
        changed(&stage, fields.clone()).await?;
        let back = async || {
            let found = tool.consumer(&own).await?.context("it is there")?;
            assert_eq!(found.get("created"), as_derived.get("created"), "{fields}");
            Ok(same_config(&found, &as_derived))
        };
        eventually(PROMISED, &format!("{fields} is undone"), back).await?;
    }
    shop.emit(&"sold".parse()?, "1", vec![]).await?;
    let heard = soon("its reader hears", ear.next()).await?;
    clerk.settle(&heard.receipt, ModuleSettlement::Done).await?;
    Ok(())
}

/// A backoff stands in for the ack wait, whatever that says.
/// <https://github.com/nats-io/nats-server/issues/5856>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_cf02e35_no_consumer_has_a_backoff_that_overrides_its_ack_wait() -> anyhow::Result<()>
{
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let second = 1_000_000_000_u64;
    let short = json!({ "backoff": [2 * second, 4 * second], "max_deliver": 5 });
    changed(&stage, short).await?;
    let own = consumer(subject::events_stream(), "clerk")?;
    let back = async || {
        let found = stage.mesh.tool.consumer(&own).await?;
        let found = found.context("it is there")?;
        let config = found.get("config").cloned().unwrap_or_default();
        let none = config.get("backoff").is_none_or(|them| *them == json!([]));
        Ok(none && config.get("ack_wait") == Some(&json!(30 * second)))
    };
    eventually(PROMISED, "its ack wait is its own again", back).await?;
    Ok(())
}

/// Whether two are defined the same, one filter and a list of one being so.
fn same_config(one: &Value, other: &Value) -> bool {
    let config = |of: &Value| {
        let mut config = of.get("config").cloned().unwrap_or_default();
        if let Some(fields) = config.as_object_mut() {
            fields.remove("metadata");
            if let Some(filter) = fields.remove("filter_subject") {
                fields.insert("filter_subjects".to_owned(), json!([filter]));
            }
        }
        config
    };
    config(one) == config(other)
}
