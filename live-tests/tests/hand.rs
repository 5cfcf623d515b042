//! What went wrong in other people's production on a real server, and does not here: what only a server shows.
//!
//! `crates/mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

#[path = "hand/consumers.rs"]
mod consumers;
#[path = "hand/stage.rs"]
mod stage;

use std::time::Duration;

use anyhow::Context;
use futures_util::{FutureExt, StreamExt};
use live_tests::{eventually, placed_on, quiet, soon};
use mesh_bus::{
    BusError, ControllerBus, Listener, ModuleBus, ModuleSettlement, NodeBus, NodeEvent, Source,
};
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{ConsumerKind, Manifest, Principal, SeatName};
use serde_json::{Value, json};

use stage::{Withheld, clerk, header_names, stage};

/// A pull over an account's export ends at the first message without a body, and what comes after is lost.
/// <https://github.com/nats-io/nats-server/pull/6172>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_ceb4706_a_message_without_a_body_hides_none_behind_it() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let (shop, clerk) = (stage.module("shop").await?, stage.module("clerk").await?);
    let mut ear = clerk.listen(Source::Followed).await?;
    let sold = "sold".parse()?;
    let bodies = ["one", "", "", "four"];
    for (id, body) in bodies.iter().enumerate() {
        let id = id.to_string();
        shop.emit(&sold, &id, body.as_bytes().to_vec()).await?;
    }
    for body in bodies {
        let heard = soon("an event comes", ear.next()).await?;
        assert_eq!(heard.body, body.as_bytes());
        clerk.settle(&heard.receipt, ModuleSettlement::Done).await?;
    }
    // None is stored without a header.
    let last = json!({ "last_by_subj": "mesh.mod.shop.sold" });
    let stored = stage.mesh.tool.api("STREAM.MSG.GET.EVENTS", &last).await?;
    let stored = stored.context("it is stored")?;
    assert!(stored.pointer("/message/hdrs").is_some(), "{stored}");
    Ok(())
}

/// A push consumer exceeded what may be out unsettled, and never delivered again.
/// <https://github.com/nats-io/nats-server/issues/4112>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_3b78065_a_consumer_that_is_full_delivers_again_once_something_is_settled()
-> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let (shop, clerk) = (stage.module("shop").await?, stage.module("clerk").await?);
    let seat: SeatName = "mail".parse()?;
    let mut ear = clerk.listen(Source::Seat(seat.clone())).await?;
    for id in 0..70 {
        shop.send(&seat, &id.to_string(), vec![]).await?;
    }
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(soon("work comes", ear.next()).await?);
    }
    assert!(quiet(ear.next()).await, "more than may be out came");
    for work in held {
        clerk.settle(&work.receipt, ModuleSettlement::Done).await?;
    }
    for _ in 64..70 {
        let work = soon("the rest comes", ear.next()).await?;
        clerk.settle(&work.receipt, ModuleSettlement::Done).await?;
    }
    let stream = subject::seat_stream(&seat);
    let empty = async || Ok(stage.mesh.tool.stored(&stream).await? == 0);
    eventually(Duration::from_secs(10), "the queue is empty", empty).await?;
    Ok(())
}

/// Publishing without a right returns `Ok`, and the refusal is in a callback nobody reads.
/// <https://github.com/nats-io/nats.rs/issues/1485>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_5d32572_a_refused_message_is_an_error_that_names_its_subject() -> anyhow::Result<()>
{
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let clerk = stage.module("clerk").await?;
    let refused = soon("it is refused", clerk.emit(&"sold".parse()?, "1", vec![])).await?;
    assert!(
        matches!(&refused, Err(BusError::Refused { what, .. }) if what == "mesh.mod.clerk.sold"),
        "{refused:?}"
    );
    let seat = "mail".parse()?;
    let refused = soon("it is refused", clerk.send(&seat, "2", vec![])).await?;
    assert!(
        matches!(&refused, Err(BusError::Refused { what, .. }) if what == "mesh.seat.mail.clerk"),
        "{refused:?}"
    );
    Ok(())
}

/// A subscription without a right is refused in a callback, and the code believes that it is live.
/// <https://github.com/nats-io/nats.rs/issues/1284>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_d73e8ba_a_node_that_may_not_listen_is_told_so() -> anyhow::Result<()> {
    let Some(world) = Withheld::start().await? else {
        return Ok(());
    };
    let node = world.node().await?;
    let denied = async {
        loop {
            if let NodeEvent::Denied(why) = node.next().await {
                return why;
            }
        }
    };
    let why = soon("it is told", denied).await?;
    assert!(why.contains("mesh.deliver.node.n1"), "{why}");
    Ok(())
}

/// What is not said of a consumer is a default: 30 s, any number of deliveries, a thousand out.
/// <https://www.tiarebalbi.com/en/blog/nats-jetstream-ackwait-redelivery-contract-go>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_94fb0f8_a_server_was_told_all_of_every_consumer() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let records = stage.mesh.look(|core, _| core.records().clone()).await?;
    let plan = derive(&records, &Bounds::default());
    assert_eq!(plan.consumers.len(), 5);
    for spec in plan.consumers.values() {
        let found = stage.mesh.tool.consumer(&spec.consumer).await?;
        let found = found.with_context(|| format!("{} is there", spec.consumer))?;
        let config = found.get("config").cloned().unwrap_or_default();
        let wait = u64::from(spec.ack_wait_secs) * 1_000_000_000;
        let group = match &spec.kind {
            ConsumerKind::Push { group, .. } => group.clone(),
            ConsumerKind::Pull => None,
        };
        for (field, wanted) in [
            ("ack_policy", json!("explicit")),
            ("ack_wait", json!(wait)),
            ("max_deliver", json!(-1)),
            ("max_ack_pending", json!(spec.max_ack_pending)),
            ("deliver_group", json!(group)),
        ] {
            let has = config.get(field).cloned().unwrap_or_default();
            assert_eq!(has, wanted, "{}: {field}", spec.consumer);
        }
    }
    Ok(())
}

/// A changed right is not applied to what runs, until somebody restarts the server.
/// <https://github.com/nats-io/nats-server/issues/2969>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_3ac667c_a_right_that_is_withdrawn_ends_what_it_allowed_at_once()
-> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let shop = stage.module("shop").await?;
    let who = Principal::Instance(stage.instance("clerk")?);
    let rogue = stage.mesh.rogue(&who).await?;
    let deliver = "mesh.deliver.module.clerk".to_owned();
    let mut ear = rogue
        .client()
        .queue_subscribe(deliver, "clerk".to_owned())
        .await?;
    rogue.client().flush().await?;
    let sold = "sold".parse()?;
    shop.emit(&sold, "1", vec![]).await?;
    soon("it hears while it may", ear.next())
        .await?
        .context("a message")?;
    let no_longer = Manifest {
        follows: [].into(),
        ..clerk()?
    };
    stage
        .mesh
        .apply(no_longer, Some(placed_on(&stage.node)))
        .await?;
    let said = rogue.refusal().await?;
    assert!(said.contains("mesh.deliver.module.clerk"), "{said}");
    shop.emit(&sold, "2", vec![]).await?;
    rogue.client().flush().await?;
    assert!(ear.next().now_or_never().flatten().is_none());
    Ok(())
}

/// A header whose name ends like one of the server's own is taken for it.
/// <https://github.com/nats-io/nats-server/issues/3645>
#[tokio::test(flavor = "multi_thread")]
async fn case_b_903ad6d_no_header_of_ours_ends_like_one_of_the_servers() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let shop = stage.module("shop").await?;
    shop.emit(&"sold".parse()?, "1", vec![]).await?;
    let of: mesh_model::Subject = "mesh.control.report.n1".parse()?;
    stage
        .mesh
        .bus
        .park(&of, b"a copy".to_vec(), "a reason")
        .await?;
    let mut names = Vec::new();
    for (stream, subject) in [
        ("EVENTS", "mesh.mod.shop.sold"),
        ("PARKED", "mesh.parked.control.report.n1"),
        ("NODES", "mesh.node.n1.declare"),
        ("NODES", "mesh.ctl.epoch"),
    ] {
        let get = format!("STREAM.MSG.GET.{stream}");
        let last = json!({ "last_by_subj": subject });
        let stored = stage
            .mesh
            .tool
            .api(&get, &last)
            .await?
            .context("it is stored")?;
        let headers = stored.pointer("/message/hdrs").and_then(Value::as_str);
        names.extend(header_names(headers.unwrap_or_default())?);
    }
    assert!(names.len() >= 4, "{names:?}");
    let theirs = |name: &&String| {
        let name = name.to_lowercase();
        name.contains("nats-") && !name.starts_with("nats-")
    };
    assert_eq!(names.iter().find(theirs), None);
    Ok(())
}
