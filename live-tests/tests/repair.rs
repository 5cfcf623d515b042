//! What is deleted behind a running controller's back is back within five seconds, and everybody goes on.

use std::time::Duration;

use anyhow::Context;
use live_tests::{Agent, Founding, Mesh, consumer, eventually, manifest, placed_on};
use mesh_bus::ModuleBus;
use mesh_derive::subject;
use mesh_model::{ConsumerRef, EventName, InstanceRef, NodeName, StreamName};
use mesh_wire::encode_announcement;
use serde_json::{Value, json};

const PROMISED: Duration = Duration::from_secs(5);

/// A mesh of one node that runs one module, and has said so.
struct Stage {
    mesh: Mesh,
    agent: Agent,
    node: NodeName,
}

async fn stage() -> anyhow::Result<Option<Stage>> {
    let Some(mut founding) = Founding::new().await? else {
        return Ok(None);
    };
    let node = founding.node("n1")?;
    let mesh = founding.run().await?;
    mesh.apply(manifest("m")?, Some(placed_on(&node))).await?;
    let agent = mesh.agent(&node).await?;
    let stage = Stage { mesh, agent, node };
    stage
        .reports(stage.mesh.told(&stage.node).await?.generation)
        .await?;
    Ok(Some(stage))
}

impl Stage {
    async fn reports(&self, generation: mesh_model::Generation) -> anyhow::Result<()> {
        let reported = async || {
            let node = self.node.clone();
            let newest = self
                .mesh
                .look(move |core, _| core.newest_report(&node).cloned());
            Ok(newest
                .await?
                .is_some_and(|report| report.id.generation == generation))
        };
        let what = "what it applied is reported and recorded";
        eventually(Duration::from_secs(20), what, reported).await?;
        Ok(())
    }

    /// Declares something new, which the node hears, applies and reports.
    async fn hears_the_next(&mut self) -> anyhow::Result<()> {
        let before = self.mesh.told(&self.node).await?.generation;
        let next = manifest("next")?;
        self.mesh.apply(next, Some(placed_on(&self.node))).await?;
        let told = self.mesh.told(&self.node).await?;
        assert!(told.generation > before);
        self.agent.applies(&told).await?;
        self.reports(told.generation).await?;
        self.mesh.still_runs()
    }

    /// Deletes a stream, and waits until it is back with all these consumers.
    async fn loses(&self, stream: &StreamName, consumers: &[ConsumerRef]) -> anyhow::Result<()> {
        let tool = &self.mesh.tool;
        let lost = tool.stream(stream).await?.context("it is there")?;
        assert!(tool.delete_stream(stream).await?);
        let back = async || {
            let Some(found) = tool.stream(stream).await? else {
                return Ok(false);
            };
            for consumer in consumers {
                if tool.consumer(consumer).await?.is_none() {
                    return Ok(false);
                }
            }
            Ok(found.get("created") != lost.get("created"))
        };
        let took = eventually(PROMISED, "the stream is back", back).await?;
        assert!(took < PROMISED);
        Ok(())
    }

    async fn announces(&self, module: &str) -> anyhow::Result<()> {
        let instance = InstanceRef {
            module: module.parse()?,
            node: self.node.clone(),
        };
        let module = self.mesh.module(&instance).await?;
        let body = encode_announcement(&mesh_wire::Announcement {
            release: "1.0.0".to_owned(),
            node: self.node.clone(),
            instance: None,
            key: None,
        });
        module.emit(&EventName::announced(), "a1", body).await?;
        let heard = async || {
            let of = instance.clone();
            self.mesh
                .look(move |core, _| core.announced().contains_key(&of))
                .await
        };
        let what = "the controller hears the announcement";
        eventually(Duration::from_secs(20), what, heard).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_consumer_of_a_node_is_back_and_the_node_hears_the_next_declaration()
-> anyhow::Result<()> {
    let Some(mut stage) = stage().await? else {
        return Ok(());
    };
    let own = consumer(subject::nodes_stream(), "n1")?;
    let tool = &stage.mesh.tool;
    assert!(tool.delete_consumer(&own).await?);
    let back = async || Ok(tool.consumer(&own).await?.is_some());
    eventually(PROMISED, "the consumer is back", back).await?;
    stage.hears_the_next().await
}

/// No sweep looks at the nodes' consumers, which are many: the server says who called its API.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_consumer_of_a_node_is_as_it_was_and_the_node_hears_the_next_declaration()
-> anyhow::Result<()> {
    let Some(mut stage) = stage().await? else {
        return Ok(());
    };
    let own = consumer(subject::nodes_stream(), "n1")?;
    let tool = &stage.mesh.tool;
    let ack_wait = async || {
        let found = tool.consumer(&own).await?.context("it is there")?;
        let ack_wait = found.pointer("/config/ack_wait").cloned();
        anyhow::Ok((found, ack_wait))
    };
    let (found, derived) = ack_wait().await?;
    let mut config = found.get("config").cloned().context("a config")?;
    *config.pointer_mut("/ack_wait").context("an ack wait")? = 1_000_000_000_u64.into();
    let request = json!({ "stream_name": "NODES", "config": config });
    tool.api("CONSUMER.DURABLE.CREATE.NODES.n1", &request)
        .await?
        .context("it is changed")?;
    let back = async || Ok(ack_wait().await?.1 == derived);
    eventually(PROMISED, "it is as it was", back).await?;
    stage.hears_the_next().await
}

/// With roll-ups, whoever may publish one event may delete all the others; a paused consumer delivers nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_would_let_somebody_do_more_or_hear_nothing_is_as_it_was() -> anyhow::Result<()> {
    let Some(mut stage) = stage().await? else {
        return Ok(());
    };
    let (events, own) = (
        subject::events_stream(),
        consumer(subject::nodes_stream(), "n1")?,
    );
    let tool = &stage.mesh.tool;
    let found = tool.stream(&events).await?.context("it is there")?;
    let mut config = found.get("config").cloned().context("a config")?;
    let fields = config.as_object_mut().context("fields")?;
    fields.insert("allow_rollup_hdrs".to_owned(), true.into());
    fields.insert("allow_direct".to_owned(), true.into());
    let leak = json!({ "src": ">", "dest": "leak.>" });
    fields.insert("republish".to_owned(), leak);
    let changed = tool.api("STREAM.UPDATE.EVENTS", &config).await?;
    changed.context("it is changed")?;
    let pause = json!({ "pause_until": "2100-01-01T00:00:00Z" });
    let paused = tool.api("CONSUMER.PAUSE.NODES.n1", &pause).await?;
    paused.context("it is paused")?;
    let back =
        async || {
            let stream = tool.stream(&events).await?.context("it is there")?;
            let is = |field: &str| stream.pointer(&format!("/config/{field}")).cloned();
            let off = |field: &str| is(field).is_none_or(|value| value == Value::Bool(false));
            let reader = tool.consumer(&own).await?.context("it is there")?;
            let delivers = reader.pointer("/config/pause_until").is_none();
            Ok(delivers
                && off("allow_rollup_hdrs")
                && off("allow_direct")
                && is("republish").is_none())
        };
    eventually(PROMISED, "both are as they were", back).await?;
    stage.hears_the_next().await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_declarations_are_back_and_a_node_hears_its_current_one_and_the_next()
-> anyhow::Result<()> {
    let Some(mut stage) = stage().await? else {
        return Ok(());
    };
    let own = consumer(subject::nodes_stream(), "n1")?;
    stage
        .loses(&subject::nodes_stream(), std::slice::from_ref(&own))
        .await?;
    // The current one is there again, and its node has heard and settled it, without applying it twice.
    let told = stage.mesh.told(&stage.node).await?;
    let tool = &stage.mesh.tool;
    let declared = subject::declare(&stage.node);
    let again =
        async || {
            let found = tool.stream(&subject::nodes_stream()).await?;
            let held = found.as_ref().and_then(|f| f.pointer("/state/subjects"));
            let declared = held.and_then(|held| held.get(declared.as_str())).is_some();
            let reader = tool.consumer(&own).await?;
            let heard = reader
                .as_ref()
                .and_then(|r| r.pointer("/ack_floor/consumer_seq"));
            Ok(declared
                && heard.and_then(Value::as_u64) == Some(1)
                && tool.unsettled(&own).await? == 0)
        };
    eventually(PROMISED, "the current declaration is back", again).await?;
    assert_eq!(
        stage.mesh.told(&stage.node).await?.generation,
        told.generation
    );
    assert_eq!(stage.agent.workloads.carried_out(), [told.generation]);
    stage.hears_the_next().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_queue_of_reports_is_back_and_reports_are_recorded() -> anyhow::Result<()> {
    let Some(mut stage) = stage().await? else {
        return Ok(());
    };
    let own = consumer(subject::control_stream(), "controller")?;
    stage.loses(&subject::control_stream(), &[own]).await?;
    stage.hears_the_next().await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_events_are_back_and_announcements_are_heard() -> anyhow::Result<()> {
    let Some(mut stage) = stage().await? else {
        return Ok(());
    };
    let own = consumer(subject::events_stream(), "controller")?;
    stage.loses(&subject::events_stream(), &[own]).await?;
    stage.announces("m").await?;
    stage.hears_the_next().await
}
