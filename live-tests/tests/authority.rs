//! What a node's credential is refused on a running server, each by the server's own word and without an effect.

use futures_util::{FutureExt, StreamExt};
use live_tests::{Founding, Mesh, Rogue, consumer, soon};
use mesh_derive::subject;
use mesh_model::{NodeName, Principal};
use serde_json::json;

/// A mesh with a node whose credential is misused, and another, both told something.
struct Stage {
    mesh: Mesh,
    rogue: Rogue,
    victim: NodeName,
}

async fn stage() -> anyhow::Result<Option<Stage>> {
    let Some(mut founding) = Founding::new().await? else {
        return Ok(None);
    };
    let (node, victim) = (founding.node("n1")?, founding.node("n2")?);
    let mesh = founding.run().await?;
    let rogue = mesh.rogue(&Principal::Node(node)).await?;
    Ok(Some(Stage {
        mesh,
        rogue,
        victim,
    }))
}

impl Stage {
    /// Publishing there is refused, and nothing the server holds is another after it. The credential is good for what
    /// it is granted: otherwise a refusal would prove nothing.
    async fn refuses(&self, subject: &str, body: &[u8]) -> anyhow::Result<()> {
        let before = self.mesh.tool.calm().await?;
        self.rogue.is_refused_publishing(subject, body).await?;
        let after = self.mesh.tool.snapshot().await?;
        assert_eq!(after.changes_since(&before, &[]), Vec::<String>::new());
        self.rogue.stores("mesh.control.report.n1", b"").await?;
        assert_eq!(self.rogue.refusals().await, Vec::<String>::new());
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_look_at_a_consumer() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    for consumer in ["n1", "x"] {
        let look = format!("$JS.API.CONSUMER.INFO.NODES.{consumer}");
        stage.rogue.is_refused_publishing(&look, b"").await?;
    }
    stage.refuses("$JS.API.CONSUMER.INFO.NODES.n2", b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_make_a_consumer() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let config = json!({
        "stream_name": "NODES",
        "config": {
            "durable_name": "rogue",
            "name": "rogue",
            "filter_subject": "mesh.node.n2.declare",
            "deliver_subject": "mesh.deliver.node.n1",
            "ack_policy": "explicit",
        },
    });
    let body = serde_json::to_vec(&config)?;
    for verb in ["CREATE.NODES", "DURABLE.CREATE.NODES.rogue"] {
        let make = format!("$JS.API.CONSUMER.{verb}");
        stage.rogue.is_refused_publishing(&make, &body).await?;
    }
    let made = consumer(subject::nodes_stream(), "rogue")?;
    assert_eq!(stage.mesh.tool.consumer(&made).await?, None);
    // Its own, changed to read another's, would be the same.
    let own = "$JS.API.CONSUMER.CREATE.NODES.n1.mesh.node.n2.declare";
    stage.rogue.is_refused_publishing(own, &body).await?;
    stage
        .refuses("$JS.API.CONSUMER.CREATE.NODES.rogue", &body)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_hear_another_nodes_deliver_subject() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let mut deaf = Vec::new();
    for subject in ["mesh.deliver.node.n2", "mesh.deliver.node.*", "mesh.>", ">"] {
        deaf.push(stage.rogue.is_refused_subscribing(subject).await?);
    }
    let agent = stage.mesh.agent(&stage.victim).await?;
    assert_eq!(agent.workloads.carried_out().len(), 1);
    // What was on its way to the rogue when it asks is there when it is answered.
    stage.rogue.client().flush().await?;
    for ear in &mut deaf {
        assert!(ear.next().now_or_never().flatten().is_none());
    }
    stage.refuses("mesh.deliver.node.n2", b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_hear_another_nodes_inbox() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let victim = Principal::Node(stage.victim.clone());
    let own = stage.mesh.rogue(&victim).await?;
    let mut hears = own.client().subscribe("mesh.inbox.node.n2.x").await?;
    own.client().flush().await?;
    let mut deaf = Vec::new();
    for subject in [
        "mesh.inbox.node.n2.x",
        "mesh.inbox.node.n2.>",
        "mesh.inbox.>",
        "_INBOX.>",
    ] {
        deaf.push(stage.rogue.is_refused_subscribing(subject).await?);
    }
    let controller = stage.mesh.tool.client();
    controller
        .publish("mesh.inbox.node.n2.x", "for n2".into())
        .await?;
    let heard = soon("its owner hears it", hears.next()).await?;
    assert_eq!(heard.map(|m| m.payload), Some("for n2".into()));
    stage.rogue.client().flush().await?;
    for ear in &mut deaf {
        assert!(ear.next().now_or_never().flatten().is_none());
    }
    stage.refuses("mesh.inbox.node.n2.x", b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_settle_another_nodes_declaration() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    // The victim has its declaration in hand, and the rogue knows the very ack subject.
    let victim = Principal::Node(stage.victim.clone());
    let own = stage.mesh.rogue(&victim).await?;
    let mut hears = own.client().subscribe("mesh.deliver.node.n2").await?;
    let heard = soon("the declaration comes", hears.next()).await?;
    let ack = heard
        .and_then(|message| message.reply)
        .map(|r| r.to_string());
    let ack = ack.unwrap_or_default();
    assert!(ack.starts_with("$JS.ACK.NODES.n2."), "{ack}");
    for body in ["+TERM", "-NAK", "+WPI"] {
        stage
            .rogue
            .is_refused_publishing(&ack, body.as_bytes())
            .await?;
    }
    let held = consumer(subject::nodes_stream(), "n2")?;
    assert_eq!(stage.mesh.tool.unsettled(&held).await?, 1);
    // Its owner could, at any moment.
    let tool = &stage.mesh.tool;
    stage.refuses(&ack, b"+ACK").await?;
    own.publish(&ack, None, b"+ACK").await?;
    let settled = async || Ok(tool.unsettled(&held).await? == 0);
    let deadline = std::time::Duration::from_secs(10);
    live_tests::eventually(deadline, "its owner settles it", settled).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_declare_to_another_node() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    for subject in ["mesh.node.n1.declare", "mesh.ctl.epoch", "mesh.ctl.mark"] {
        stage.rogue.is_refused_publishing(subject, b"").await?;
    }
    stage.refuses("mesh.node.n2.declare", b"do this").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_speak_for_another_node() -> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    for subject in ["mesh.heartbeat.n2", "mesh.log.n2", "mesh.control.enrol.t1"] {
        stage.rogue.is_refused_publishing(subject, b"").await?;
    }
    for subject in ["mesh.log.>", "mesh.inbox.node.n2.ask"] {
        stage.rogue.is_refused_subscribing(subject).await?;
    }
    stage.refuses("mesh.control.report.n2", b"").await
}
