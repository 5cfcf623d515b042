//! The three mistakes a server takes without a word, made on one, and what comes of each: why no definition is written
//! by hand.

use std::time::Duration;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt;
use live_tests::{KeyRing, Rogue, Server, Shape, Tool, consumer, quiet, soon};
use mesh_bus::ControllerBus;
use mesh_derive::{Bounds, Mismatch, Plan, check, derive, subject};
use mesh_model::{ConsumerKind, ConsumerRef, ConsumerSpec, NodeName, Principal, Selects};
use mesh_nats::NatsController;

/// A mesh of two nodes in which the consumer of the first is defined by hand.
struct Stage {
    server: Server,
    keys: KeyRing,
    controller: NatsController,
    tool: Tool,
    found: Result<(), Mismatch>,
    node: NodeName,
}

impl Stage {
    /// `mistake` is made in an otherwise right definition, and the whole is brought to the server.
    async fn with(mistake: impl FnOnce(&mut ConsumerSpec)) -> anyhow::Result<Option<Self>> {
        let Some(server) = Server::start(Shape::Derived).await? else {
            return Ok(None);
        };
        let keys = KeyRing::default();
        let records = keys.records_of(&["n1", "n2"])?;
        let (plan, found) = mistaken(derive(&records, &Bounds::default()), mistake)?;
        let controller = server.controller().await?;
        // The server takes it all.
        controller.assert(&plan).await?;
        controller.take_over().await?;
        Ok(Some(Self {
            tool: server.tool().await?,
            server,
            keys,
            controller,
            found,
            node: "n1".parse()?,
        }))
    }

    /// A client with the node's own credential, and what it hears.
    async fn listens(&self) -> anyhow::Result<(Rogue, Subscriber)> {
        let who = Principal::Node(self.node.clone());
        let client = self.server.rogue(&self.keys.user(&who)?, &who).await?;
        let ear = client.client().subscribe("mesh.deliver.node.n1").await?;
        client.client().flush().await?;
        Ok((client, ear))
    }

    async fn declare(&self, node: &str, body: &[u8]) -> anyhow::Result<()> {
        Ok(self
            .controller
            .declare(&node.parse()?, body.to_vec())
            .await?)
    }
}

/// The plan with its one mistake, and what the check makes of the consumer.
fn mistaken(
    mut plan: Plan,
    mistake: impl FnOnce(&mut ConsumerSpec),
) -> anyhow::Result<(Plan, Result<(), Mismatch>)> {
    let right = consumer(subject::nodes_stream(), "n1")?;
    let owner = Principal::Node("n1".parse()?);
    let mut spec = plan.consumers.remove(&right);
    let mut found = Ok(());
    if let (Some(spec), Some(grant)) = (&mut spec, plan.grants.get(&owner)) {
        spec.ack_wait_secs = 1;
        mistake(spec);
        found = check(spec, grant, &Server::facts());
        plan.consumers.insert(spec.consumer.clone(), spec.clone());
    }
    Ok((plan, found))
}

async fn next(ear: &mut Subscriber) -> anyhow::Result<Message> {
    let heard = soon("a message comes", ear.next()).await?;
    heard.ok_or_else(|| anyhow::anyhow!("the connection is over"))
}

/// Which delivery of a message this is: the fifth token of the ack subject.
fn delivery(message: &Message) -> Option<u64> {
    message.reply.as_deref()?.split('.').nth(4)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rightly_defined_consumer_is_heard_and_acknowledged_once() -> anyhow::Result<()> {
    let Some(stage) = Stage::with(|_| {}).await? else {
        return Ok(());
    };
    assert_eq!(stage.found, Ok(()));
    let (client, mut ear) = stage.listens().await?;
    stage.declare("n1", b"one").await?;
    let message = next(&mut ear).await?;
    let ack = message.reply.as_deref().unwrap_or_default();
    client.publish(ack, None, b"+ACK").await?;
    let own = consumer(subject::nodes_stream(), "n1")?;
    let settled = async || Ok(stage.tool.unsettled(&own).await? == 0);
    live_tests::eventually(Duration::from_secs(10), "it is settled", settled).await?;
    assert_eq!(client.refusals().await, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_wrong_name_acks_are_refused_and_each_message_comes_again() -> anyhow::Result<()> {
    let otherwise = consumer(subject::nodes_stream(), "node-n1")?;
    let called = otherwise.clone();
    let Some(stage) = Stage::with(|spec| spec.consumer = called).await? else {
        return Ok(());
    };
    assert!(
        matches!(&stage.found, Err(Mismatch::CannotAck { consumer, .. }) if *consumer == otherwise),
        "{:?}",
        stage.found
    );
    let (client, mut ear) = stage.listens().await?;
    stage.declare("n1", b"one").await?;
    // Heard it is, which is what makes it look right.
    for nth in 1..=3 {
        let message = next(&mut ear).await?;
        assert_eq!(
            (message.payload.as_ref(), delivery(&message)),
            (&b"one"[..], Some(nth))
        );
        let ack = message.reply.as_deref().unwrap_or_default();
        assert!(ack.starts_with("$JS.ACK.NODES.node-n1."), "{ack}");
        client.is_refused_publishing(ack, b"+ACK").await?;
    }
    assert_eq!(stage.tool.unsettled(&otherwise).await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_wrong_filter_anothers_messages_are_heard_and_ones_own_are_not()
-> anyhow::Result<()> {
    let others = subject::declare(&"n2".parse()?);
    let filter = others.clone();
    let wrong = |spec: &mut ConsumerSpec| spec.selects = Selects::Only([filter.into()].into());
    let Some(stage) = Stage::with(wrong).await? else {
        return Ok(());
    };
    let (client, mut ear) = stage.listens().await?;
    stage.declare("n1", b"mine").await?;
    stage.declare("n2", b"another's").await?;
    let message = next(&mut ear).await?;
    assert_eq!(message.subject.as_str(), others.as_str());
    assert_eq!(message.payload.as_ref(), b"another's");
    let ack = message.reply.as_deref().unwrap_or_default();
    client.publish(ack, None, b"+ACK").await?;
    stage.declare("n1", b"mine again").await?;
    assert!(quiet(ear.next()).await, "its own was heard");
    assert_eq!(client.refusals().await, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_filter_for_nobody_nothing_is_heard() -> anyhow::Result<()> {
    let filter = subject::declare(&"n-1".parse()?);
    let wrong = |spec: &mut ConsumerSpec| spec.selects = Selects::Only([filter.into()].into());
    let Some(stage) = Stage::with(wrong).await? else {
        return Ok(());
    };
    let (client, mut ear) = stage.listens().await?;
    stage.declare("n1", b"mine").await?;
    assert!(quiet(ear.next()).await, "something was heard");
    let own = consumer(subject::nodes_stream(), "n1")?;
    assert_eq!(stage.tool.unsettled(&own).await?, 0);
    assert_eq!(client.refusals().await, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_pull_consumer_nothing_is_heard_and_nothing_can_be_asked() -> anyhow::Result<()> {
    let wrong = |spec: &mut ConsumerSpec| spec.kind = ConsumerKind::Pull;
    let Some(stage) = Stage::with(wrong).await? else {
        return Ok(());
    };
    assert!(
        matches!(stage.found, Err(Mismatch::PullCannotBind { .. })),
        "{:?}",
        stage.found
    );
    let (client, mut ear) = stage.listens().await?;
    stage.declare("n1", b"mine").await?;
    assert!(quiet(ear.next()).await, "something was heard");
    let ask = "$JS.API.CONSUMER.MSG.NEXT.NODES.n1";
    client.is_refused_publishing(ask, b"").await?;
    let own: ConsumerRef = consumer(subject::nodes_stream(), "n1")?;
    assert_eq!(stage.tool.unsettled(&own).await?, 1);
    Ok(())
}
