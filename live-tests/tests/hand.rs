//! What went wrong in other people's production on a real server, and does not here: what only a server shows.
//!
//! `crates/mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use std::time::Duration;

use anyhow::Context;
use futures_util::{FutureExt, StreamExt};
use live_tests::{
    Agent, Founding, KeyRing, Mesh, Server, Shape, consumer, eventually, manifest, placed_on,
    quiet, soon,
};
use mesh_bus::{
    BusError, ControllerBus, Listener, ModuleBus, ModuleSettlement, NodeBus, NodeEvent, Source,
};
use mesh_control::Command;
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{
    BoxPublicKey, ConsumerKind, InstanceRef, Labels, Manifest, NodeName, NodeRecord, Principal,
    Records, SeatName, Timestamp,
};
use serde_json::{Value, json};

/// A mesh of one node with `shop`, which emits `sold` and sends to seat `mail`, and `clerk`, which follows and holds.
struct Stage {
    mesh: Mesh,
    node: NodeName,
    _agent: Agent,
}

async fn stage() -> anyhow::Result<Option<Stage>> {
    let Some(mut founding) = Founding::new().await? else {
        return Ok(None);
    };
    let node = founding.node("n1")?;
    let mesh = founding.run().await?;
    let mut declared = mesh.look(|core, _| core.records().declared.clone()).await?;
    declared
        .seats
        .insert("mail".parse()?, Some("clerk".parse()?));
    let shop = Manifest {
        emits: ["sold".parse()?].into(),
        sends_to: ["mail".parse()?].into(),
        ..manifest("shop")?
    };
    for manifest in [shop, clerk()?] {
        let module = manifest.module.clone();
        declared.placements.insert(module.clone(), placed_on(&node));
        declared.modules.insert(module, manifest);
    }
    let if_revision = None;
    mesh.command(Command::Apply {
        declared,
        if_revision,
    })
    .await?;
    let agent = mesh.agent(&node).await?;
    Ok(Some(Stage {
        mesh,
        node,
        _agent: agent,
    }))
}

fn clerk() -> anyhow::Result<Manifest> {
    Ok(Manifest {
        follows: ["shop.sold".parse()?].into(),
        can_hold: ["mail".parse()?].into(),
        ..manifest("clerk")?
    })
}

impl Stage {
    fn instance(&self, module: &str) -> anyhow::Result<InstanceRef> {
        let (module, node) = (module.parse()?, self.node.clone());
        Ok(InstanceRef { module, node })
    }

    async fn module(&self, module: &str) -> anyhow::Result<mesh_nats::NatsModule> {
        Ok(self.mesh.module(&self.instance(module)?).await?)
    }
}

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

/// A node whose grant lacks where its consumer delivers.
struct Withheld {
    server: Server,
    keys: KeyRing,
    name: NodeName,
}

impl Withheld {
    async fn start() -> anyhow::Result<Option<Self>> {
        let Some(server) = Server::start(Shape::Derived).await? else {
            return Ok(None);
        };
        let (keys, name): (_, NodeName) = (KeyRing::default(), "n1".parse()?);
        let mut records = Records::new("live".parse()?, Server::facts());
        let principal = Principal::Node(name.clone());
        let record = NodeRecord {
            key: keys.public(&principal)?,
            box_key: BoxPublicKey::from_raw([0; 32]),
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::default(),
        };
        records.nodes.insert(name.clone(), record);
        let mut plan = derive(&records, &Bounds::default());
        let grant = plan.grants.get_mut(&principal).context("it has a grant")?;
        let deliver: mesh_model::Filter = subject::deliver_node(&name).into();
        anyhow::ensure!(grant.subscribe.remove(&deliver));
        let controller = server.controller().await?;
        controller.assert(&plan).await?;
        Ok(Some(Self { server, keys, name }))
    }

    async fn node(&self) -> anyhow::Result<mesh_nats::NatsNode> {
        let key = self.keys.credential(&Principal::Node(self.name.clone()))?;
        let dialling = mesh_nats::Dialling {
            first: mesh_nats::FirstAttempt::MustSucceed,
            seed: 7,
        };
        let beat = Duration::from_secs(30);
        let facts = Server::facts();
        let endpoint = self.server.endpoint();
        Ok(
            mesh_nats::NatsNode::connect(&endpoint, &key, &self.name, facts, beat, dialling)
                .await?,
        )
    }
}

/// The application's limit of deliveries differs from the consumer's, and binding fails.
/// <https://github.com/nats-io/nats.go/issues/1035>
///
/// Readers state no definition, so none can differ from theirs. What somebody changed is brought back by the next
/// assertion: of a consumer that was changed and not deleted a server tells nobody.
#[tokio::test(flavor = "multi_thread")]
async fn case_b_b0e12dc_what_drifted_is_brought_back_in_place_and_its_reader_goes_on()
-> anyhow::Result<()> {
    let Some(stage) = stage().await? else {
        return Ok(());
    };
    let (shop, clerk) = (stage.module("shop").await?, stage.module("clerk").await?);
    let mut ear = clerk.listen(Source::Followed).await?;
    let made = changed(&stage, json!({ "max_deliver": 5 })).await?;
    stage.mesh.apply(manifest("another")?, None).await?;
    let own = consumer(subject::events_stream(), "clerk")?;
    let tool = &stage.mesh.tool;
    let back = async || {
        let found = tool.consumer(&own).await?.context("it is there")?;
        assert_eq!(found.get("created"), Some(&made), "it was made anew");
        Ok(found.pointer("/config/max_deliver") == Some(&json!(-1)))
    };
    eventually(Duration::from_secs(10), "it is brought back", back).await?;
    shop.emit(&"sold".parse()?, "1", vec![]).await?;
    let heard = soon("its reader hears", ear.next()).await?;
    clerk.settle(&heard.receipt, ModuleSettlement::Done).await?;
    Ok(())
}

/// Changes the clerk's consumer behind the controller's back; when it was made.
async fn changed(stage: &Stage, fields: Value) -> anyhow::Result<Value> {
    let own = consumer(subject::events_stream(), "clerk")?;
    let tool = &stage.mesh.tool;
    let found = tool.consumer(&own).await?.context("it is there")?;
    let mut config = found.get("config").cloned().unwrap_or_default();
    let changed = fields.as_object().context("fields")?.clone();
    config.as_object_mut().context("a config")?.extend(changed);
    let request = json!({ "stream_name": "EVENTS", "config": config, "action": "update" });
    let verb = "CONSUMER.CREATE.EVENTS.clerk";
    tool.api(verb, &request).await?.context("it is changed")?;
    Ok(found.get("created").cloned().unwrap_or_default())
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
    stage.mesh.apply(manifest("another")?, None).await?;
    let own = consumer(subject::events_stream(), "clerk")?;
    let back = async || {
        let found = stage
            .mesh
            .tool
            .consumer(&own)
            .await?
            .context("it is there")?;
        let config = found.get("config").cloned().unwrap_or_default();
        let none = config.get("backoff").is_none_or(|them| *them == json!([]));
        Ok(none && config.get("ack_wait") == Some(&json!(30 * second)))
    };
    eventually(
        Duration::from_secs(10),
        "its ack wait is its own again",
        back,
    )
    .await?;
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

/// The names in headers as a server gives them back: `NATS/1.0`, then a line each, in base64.
fn header_names(encoded: &str) -> anyhow::Result<Vec<String>> {
    let mut bits = 0_u32;
    let mut held = 0;
    let mut text = String::new();
    for letter in encoded.trim_end_matches('=').bytes() {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let value = alphabet
            .iter()
            .position(|it| *it == letter)
            .context("base64")?;
        bits = (bits << 6) | u32::try_from(value)?;
        held += 6;
        if held >= 8 {
            held -= 8;
            text.push(char::from(u8::try_from((bits >> held) & 0xff)?));
        }
    }
    let lines = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    Ok(lines.map(|(name, _)| name.to_owned()).collect())
}
