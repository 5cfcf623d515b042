//! Meshes to try the cases on, and what is done to them behind the controller's back.

use std::time::Duration;

use anyhow::Context;
use data_encoding::BASE64;
use live_tests::{Agent, Founding, KeyRing, Mesh, Server, Shape, consumer, manifest, placed_on};
use mesh_bus::ControllerBus;
use mesh_control::Command;
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{
    BoxPublicKey, InstanceRef, Labels, Manifest, NodeName, NodeRecord, Principal, Records,
    Timestamp,
};
use serde_json::{Value, json};

/// A mesh of one node with `shop`, which emits `sold` and sends to seat `mail`, and `clerk`, which follows and holds.
pub(crate) struct Stage {
    pub(crate) mesh: Mesh,
    pub(crate) node: NodeName,
    _agent: Agent,
}

pub(crate) async fn stage() -> anyhow::Result<Option<Stage>> {
    let Some(mut founding) = Founding::new().await? else {
        return Ok(None);
    };
    let node = founding.node("n1")?;
    let mesh = founding.run().await?;
    let mut declared = mesh.look(|core, _| core.records().declared.clone()).await?;
    declared
        .seats
        .insert("mail".parse()?, Some("clerk".parse()?).into());
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

pub(crate) fn clerk() -> anyhow::Result<Manifest> {
    Ok(Manifest {
        follows: ["shop.sold".parse()?].into(),
        can_hold: ["mail".parse()?].into(),
        ..manifest("clerk")?
    })
}

impl Stage {
    pub(crate) fn instance(&self, module: &str) -> anyhow::Result<InstanceRef> {
        let (module, node) = (module.parse()?, self.node.clone());
        Ok(InstanceRef { module, node })
    }

    pub(crate) async fn module(&self, module: &str) -> anyhow::Result<mesh_nats::NatsModule> {
        Ok(self.mesh.module(&self.instance(module)?).await?)
    }
}

/// A node whose grant lacks where its consumer delivers.
pub(crate) struct Withheld {
    server: Server,
    keys: KeyRing,
    name: NodeName,
}

impl Withheld {
    pub(crate) async fn start() -> anyhow::Result<Option<Self>> {
        let Some(server) = Server::start(Shape::Derived).await? else {
            return Ok(None);
        };
        let (keys, name): (_, NodeName) = (KeyRing::default(), "n1".parse()?);
        let mut records = Records::new("live".parse()?, Server::facts());
        let principal = Principal::Node(name.clone());
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: keys.public(&principal)?,
            box_key: BoxPublicKey::from_raw([0; 32]),
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
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

    pub(crate) async fn node(&self) -> anyhow::Result<mesh_nats::NatsNode> {
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

/// Changes the clerk's consumer behind the controller's back; when it was made.
pub(crate) async fn changed(stage: &Stage, fields: Value) -> anyhow::Result<Value> {
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

/// The names in headers as a server gives them back: `NATS/1.0`, then a line each, in base64.
pub(crate) fn header_names(encoded: &str) -> anyhow::Result<Vec<String>> {
    let text = String::from_utf8(BASE64.decode(encoded.as_bytes())?)?;
    let lines = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    Ok(lines.map(|(name, _)| name.to_owned()).collect())
}
