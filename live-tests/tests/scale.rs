//! A thousand of each, and one more: a server that is not told otherwise ends there without a word before.

use std::time::Duration;

use anyhow::Context;
use live_tests::{
    Founding, Mesh, Server, Shape, consumer, eventually, manifest, placed_on, soon, within,
};
use mesh_bus::{ControllerBus, JoinerBus, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_derive::subject;
use mesh_model::{
    Enrolment, EnrolmentAnswer, EventRef, InstanceRef, Manifest, NodeName, Principal, StreamName,
    TokenId,
};
use mesh_wire::{SignedKind, decode_enrolment_answer, encode_enrolment};
use serde_json::{Value, json};
use tokio::time::Instant;

const MANY: usize = 1000;

/// A mesh of a thousand nodes and a thousand modules, each module with something it follows: a consumer of each.
async fn thousands() -> anyhow::Result<Option<Mesh>> {
    let Some(mut founding) = Founding::new().await? else {
        return Ok(None);
    };
    let heard: EventRef = "m0.said".parse()?;
    for nth in 0..MANY {
        founding.node(&format!("n{nth}"))?;
        let mut module = manifest(&format!("m{nth}"))?;
        module.follows = [heard.clone()].into();
        founding.module(if nth == 0 { speaker(&heard)? } else { module });
    }
    Ok(Some(founding.run().await?))
}

/// The module everybody follows, itself among them.
fn speaker(heard: &EventRef) -> anyhow::Result<Manifest> {
    let mut module = manifest(heard.module.as_str())?;
    module.emits = [heard.event.clone()].into();
    module.follows = [heard.clone()].into();
    Ok(module)
}

async fn consumers(mesh: &Mesh, stream: &StreamName) -> anyhow::Result<Option<u64>> {
    let found = mesh.tool.stream(stream).await?;
    let found = found.context("the stream is there")?;
    Ok(found
        .pointer("/state/consumer_count")
        .and_then(Value::as_u64))
}

fn instance(module: &str, node: &NodeName) -> anyhow::Result<InstanceRef> {
    Ok(InstanceRef {
        module: module.parse()?,
        node: node.clone(),
    })
}

/// What a host with a token does, up to the answer.
async fn enrols(mesh: &Mesh, token: &TokenId, name: &str) -> anyhow::Result<NodeName> {
    let node: NodeName = name.parse()?;
    let joiner = mesh.joiner(token).await?;
    let request = Enrolment {
        node: Some(node.clone()),
        key: mesh.keys.public(&Principal::Node(node.clone()))?,
        box_key: mesh.keys.box_key(&node)?,
        reply: joiner.answer_address(),
        clock: mesh_host::now(),
    };
    joiner.ask(encode_enrolment(&request)).await?;
    let waits = Duration::from_mins(1);
    let body = within(waits, "the answer comes", joiner.answer()).await??;
    let body = mesh.verifier().open(SignedKind::EnrolmentAnswer, &body)?;
    match decode_enrolment_answer(&body)? {
        EnrolmentAnswer::Accepted { node, .. } => Ok(node),
        EnrolmentAnswer::Refused(why) => anyhow::bail!("the host was refused: {why}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_thousand_of_each_one_more_node_enrols_and_one_more_module_registers()
-> anyhow::Result<()> {
    let Some(mut mesh) = thousands().await? else {
        return Ok(());
    };
    let (nodes, events) = (subject::nodes_stream(), subject::events_stream());
    assert_eq!(consumers(&mesh, &nodes).await?, Some(1000));
    // One for each module, and the controller's.
    assert_eq!(consumers(&mesh, &events).await?, Some(1001));

    let token = mesh.token("t1").await?;
    let node = enrols(&mesh, &token, "one-more").await?;
    assert_eq!(consumers(&mesh, &nodes).await?, Some(1001));
    let agent = mesh.agent(&node).await?;

    // The module it follows runs here too, or nobody could be heard.
    let heard: EventRef = "m0.said".parse()?;
    mesh.apply(speaker(&heard)?, Some(placed_on(&node))).await?;
    let mut more = manifest("one-more")?;
    more.follows = [heard.clone()].into();
    mesh.apply(more, Some(placed_on(&node))).await?;
    assert_eq!(consumers(&mesh, &events).await?, Some(1002));
    agent.applies(&mesh.told(&node).await?).await?;
    let speaker = mesh.module(&instance("m0", &node)?).await?;
    let listener = mesh.module(&instance("one-more", &node)?).await?;
    let mut ear = listener.listen(Source::Followed).await?;
    speaker.emit(&heard.event, "1", b"hello".to_vec()).await?;
    let event = soon("the event comes", ear.next()).await?;
    assert_eq!(event.body, b"hello");
    let done = ModuleSettlement::Done;
    listener.settle(&event.receipt, done).await?;
    let own = consumer(events, "one-more")?;
    let settled = async || Ok(mesh.tool.unsettled(&own).await? == 0);
    eventually(Duration::from_secs(10), "it is settled", settled).await?;
    mesh.still_runs()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mesh_of_thousands_asserted_again_is_read_and_not_written() -> anyhow::Result<()> {
    let Some(mut mesh) = thousands().await? else {
        return Ok(());
    };
    let plan = mesh.look(|core, _| core.plan()).await?;
    assert!(plan.consumers.len() > 2 * MANY);
    let calls = mesh.bus.api_calls();
    let began = Instant::now();
    let asserted = mesh.bus.assert(&plan).await?;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(asserted.written, Vec::<String>::new());
    assert_eq!(asserted.strays, Vec::<String>::new());
    let after = mesh.bus.api_calls();
    assert_eq!(after.writes, calls.writes);
    // Lists of 256 each, and what the sweep reads meanwhile: never a call for each consumer.
    assert!(after.reads - calls.reads < 30, "{calls:?} {after:?}");
    // Nor is anything written by a controller that has asserted none of it.
    let other = mesh.another_controller().await?;
    let asserted = other.assert(&plan).await?;
    assert_eq!(asserted.written, Vec::<String>::new());
    assert_eq!(other.api_calls().writes, 0);
    mesh.still_runs()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_told_otherwise_refuses_the_thousand_and_first() -> anyhow::Result<()>
{
    let Some(server) = Server::start(Shape::Derived).await? else {
        return Ok(());
    };
    let tool = server.tool().await?;
    let stream = json!({ "name": "BARE", "subjects": ["bare.>"], "storage": "memory" });
    tool.api("STREAM.CREATE.BARE", &stream).await?;
    for nth in 0..=MANY {
        let name = format!("c{nth}");
        let config = json!({ "name": name, "durable_name": name, "ack_policy": "explicit" });
        let body = json!({ "stream_name": "BARE", "config": config });
        let verb = format!("CONSUMER.CREATE.BARE.{name}");
        match tool.api(&verb, &body).await {
            Ok(_) => assert!(nth < MANY, "a server of today has no such cap"),
            Err(error) if nth == MANY => assert!(format!("{error}").contains("10026"), "{error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
