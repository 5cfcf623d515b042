//! Nothing comes of a proof even where the server lets somebody do what it may not, or may be let by nobody.

use std::collections::BTreeSet;

use anyhow::Context;
use live_tests::Shape;
use mesh_derive::proof::{Act, Evidence, Expected};
use mesh_derive::subject;
use mesh_model::{ConsumerRef, NodeName, Principal};
use mesh_nats::proof::{Found, prove, prove_one};

use super::edit::Edit::More;
use super::edit::Entry::{Publish, Subscribe};
use super::stage::Stage;
use super::{Change, are_of, changed, said};

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_node_is_not_taken_by_a_module_that_may_hear_too_much()
-> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    let node: NodeName = "node1".parse()?;
    let widens = Change {
        who: "module/mailer",
        edit: More(&[Subscribe("mesh.>")]),
        found: &["subscribe mesh."],
    };
    let (who, changed) = changed(&stage.plan, &widens)?;
    stage.serve(&changed).await?;
    stage.declare(&node, "do this").await?;
    let before = stage.state().await?;
    let proof = stage.prove().await?;
    assert_eq!(stage.state().await?, before);
    let found = (&Expected::Refused, &Found::Allowed);
    are_of(&proof, &who, widens.found, found);
    let tries = |begins: &str| {
        let mut found = proof.differences.iter();
        found.any(|it| it.act.to_string().starts_with(begins))
    };
    assert!(tries("subscribe mesh.control."), "{:?}", proof.differences);
    assert!(!tries("subscribe mesh.deliver."), "{:?}", proof.differences);
    Ok(())
}

/// Each verb of the API, on everything there is, by whoever the server lets.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_of_the_api_changes_anything_even_where_it_is_allowed() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::ControllerMay("$JS.API.>")).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    stage.live_through_something().await?;
    let consumer = ConsumerRef::new(subject::nodes_stream(), "w")?;
    stage.pause(&consumer).await?;
    stage.declare(&"w".parse()?, "do this").await?;
    stage.stray("STRAY", "stray.>").await?;
    // By this plan the controller may not call the API, so every call is tried as one to be refused.
    let mut plan = stage.plan.clone();
    let grant = plan.grants.get_mut(&Principal::Controller);
    let publish = &mut grant.context("the controller has a grant")?.publish;
    publish.retain(|filter| !filter.as_str().starts_with("$JS.API."));
    let before = stage.state().await?;
    assert!(
        before.iter().any(|it| it.contains("Some(\"true\")")),
        "{before:#?}"
    );
    let keys = stage.keys_of(|who| *who == Principal::Controller)?;
    let proof = prove(&stage.proving, &plan, &keys).await?;
    assert_eq!(stage.state().await?, before);
    let reached: BTreeSet<String> = proof
        .differences
        .iter()
        .filter(|it| it.found == Found::Allowed)
        .map(|it| it.act.to_string())
        .collect();
    let on_stream = stage
        .plan
        .streams
        .keys()
        .flat_map(|stream| STREAM_VERBS.map(|verb| format!("publish $JS.API.{verb}.{stream}")));
    let on_consumer = stage.plan.consumers.keys().flat_map(|of| {
        let (stream, name) = (of.stream(), of.name());
        CONSUMER_VERBS.map(|verb| format!("publish $JS.API.{verb}.{stream}.{name}"))
    });
    for call in on_stream.chain(on_consumer) {
        assert!(reached.contains(&call), "{call}: {reached:#?}");
    }
    Ok(())
}

/// What a server does to a stream, and to a consumer, of those that are tried.
const STREAM_VERBS: [&str; 14] = [
    "STREAM.CREATE",
    "STREAM.UPDATE",
    "STREAM.DELETE",
    "STREAM.PURGE",
    "STREAM.INFO",
    "STREAM.MSG.GET",
    "STREAM.MSG.DELETE",
    "STREAM.SNAPSHOT",
    "STREAM.RESTORE",
    "STREAM.LEADER.STEPDOWN",
    "CONSUMER.CREATE",
    "CONSUMER.LIST",
    "CONSUMER.NAMES",
    "DIRECT.GET",
];
const CONSUMER_VERBS: [&str; 9] = [
    "CONSUMER.CREATE",
    "CONSUMER.DURABLE.CREATE",
    "CONSUMER.DELETE",
    "CONSUMER.INFO",
    "CONSUMER.MSG.NEXT",
    "CONSUMER.PAUSE",
    "CONSUMER.RESET",
    "CONSUMER.UNPIN",
    "CONSUMER.LEADER.STEPDOWN",
];

#[tokio::test(flavor = "multi_thread")]
async fn in_one_account_a_purge_and_a_pause_that_are_allowed_are_found_and_do_nothing()
-> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::OneAccount).await? else {
        return Ok(());
    };
    let widens = Change {
        who: "node/w",
        edit: More(&[
            Publish("$JS.API.STREAM.PURGE.*"),
            Publish("$JS.API.CONSUMER.PAUSE.*.*"),
        ]),
        found: &[],
    };
    let (who, changed) = changed(&stage.plan, &widens)?;
    stage.serve(&changed).await?;
    stage.live_through_something().await?;
    let consumer = ConsumerRef::new(subject::nodes_stream(), "node10")?;
    stage.pause(&consumer).await?;
    stage.declare(&"node10".parse()?, "do this").await?;
    let before = stage.state().await?;
    let keys = stage.keys_of(|it| *it == who)?;
    let proof = prove(&stage.proving, &stage.plan, &keys).await?;
    assert_eq!(stage.state().await?, before);
    let said = said(&proof.differences);
    for act in [
        "$JS.API.STREAM.PURGE.EVENTS",
        "$JS.API.STREAM.PURGE.NODES",
        "$JS.API.CONSUMER.PAUSE.NODES.node10",
    ] {
        let found = format!("node/w publish {act}: must be refused, and was allowed");
        assert!(said.contains(&found), "{said:#?}");
    }
    let of_others = proof.principals.keys().filter(|it| **it != who);
    assert_eq!(of_others.count(), 0, "nobody else was asked");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_nobodys_stores_no_probe() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::ControllerMay("stray.>")).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    stage.stray("STRAY", "stray.>").await?;
    let who = Principal::Controller;
    let act = Act::Publish("stray.x".parse()?);
    let key = stage.key(&who)?;
    let outcome = prove_one(&stage.proving, &stage.plan, &who, &key, &act).await?;
    assert_eq!(outcome.found, Found::Allowed);
    assert_eq!(stage.stored("STRAY").await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_might_do_something_of_is_not_tried() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    let purge = "$JS.API.STREAM.DELETE.MESH-PROBE".parse()?;
    for (who, act) in [
        (
            "controller",
            Act::Publish("$JS.API.STREAM.PEER.REMOVE.NODES".parse()?),
        ),
        (
            "controller",
            Act::Publish("$JS.API.META.LEADER.STEPDOWN".parse()?),
        ),
        ("node/w", Act::Publish("$JS.ACK.NODES.w.1.1.1.1.0".parse()?)),
        (
            "module/mailer",
            Act::Subscribe {
                filter: "mesh.deliver.seat.w".parse()?,
                queue: None,
            },
        ),
        (
            "module/shop",
            Act::Inject {
                subject: "mesh.mod.shop.order.placed".parse()?,
                reply: purge,
            },
        ),
    ] {
        let who: Principal = who.parse()?;
        let key = stage.key(&who)?;
        let outcome = prove_one(&stage.proving, &stage.plan, &who, &key, &act).await?;
        assert!(
            matches!(outcome.found, Found::Closed(_)),
            "{who} {act}: {}",
            outcome.found
        );
    }
    Ok(())
}

/// What the controller asks is not readable, and what says so is the API: the call has arrived.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_of_the_controllers_is_seen_to_be_allowed_and_changes_nothing()
-> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    stage.live_through_something().await?;
    let before = stage.state().await?;
    let who = Principal::Controller;
    let key = stage.key(&who)?;
    for call in [
        "INFO",
        "STREAM.NAMES",
        "STREAM.INFO.EVENTS",
        "STREAM.INFO.NOWHERE",
        "STREAM.CREATE.EVENTS",
        "STREAM.CREATE.SCRATCH",
        "STREAM.PURGE.EVENTS",
        "STREAM.DELETE.EVENTS",
        "CONSUMER.NAMES.EVENTS",
        "CONSUMER.INFO.CONTROL.controller",
        "CONSUMER.DELETE.CONTROL.controller",
        "CONSUMER.PAUSE.CONTROL.controller",
        "CONSUMER.MSG.NEXT.CONTROL.controller",
    ] {
        let act = Act::Publish(format!("$JS.API.{call}").parse()?);
        let outcome = prove_one(&stage.proving, &stage.plan, &who, &key, &act).await?;
        assert_eq!(outcome.found, Found::Allowed, "{act}: {}", outcome.found);
        let by_api = Expected::Allowed(Evidence::Api);
        assert_eq!(outcome.expected, by_api, "{act}");
    }
    assert_eq!(stage.state().await?, before);
    Ok(())
}
