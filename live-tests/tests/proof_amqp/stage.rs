//! A mesh on a broker whose names are hard to tell apart, and its controller.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use live_tests::{AmqpWorld, manifest, placed_on};
use mesh_amqp::AmqpController;
use mesh_bus::conformance::World;
use mesh_bus::{ControllerBus, Prober, Proven};
use mesh_derive::topology::login;
use mesh_derive::{Bounds, Plan, derive};
use mesh_model::{
    BusFacts, InstanceRecord, InstanceRef, Labels, Manifest, NodeName, NodeRecord, Principal,
    PublicKey, Records, Sealed, Timestamp, TokenRecord,
};
use serde_json::{Value, json};

/// A mesh on a broker, and its controller.
pub(crate) struct Stage<'a> {
    pub(crate) world: &'a AmqpWorld,
    pub(crate) controller: AmqpController,
    pub(crate) plan: Plan,
}

impl<'a> Stage<'a> {
    pub(crate) async fn new(world: &'a AmqpWorld) -> anyhow::Result<Self> {
        let controller = AmqpController::connect(world.setup(Bounds::default())?).await?;
        let plan = derive(&records(world)?, &Bounds::default());
        controller.make_streams(&[]).await?;
        controller.take_over().await?;
        controller.assert(&plan).await?;
        Ok(Self {
            world,
            controller,
            plan,
        })
    }

    pub(crate) async fn prove(&self) -> anyhow::Result<Vec<Proven>> {
        let probers = self.plan.grants.keys().map(prober);
        let probers: Vec<Prober> = probers.collect::<anyhow::Result<_>>()?;
        let proven = self.controller.prove(&self.plan, &probers).await?;
        ensure!(proven.len() == probers.len(), "{proven:?}");
        Ok(proven)
    }

    pub(crate) async fn differences(&self) -> anyhow::Result<Vec<String>> {
        let proven = self.prove().await?;
        Ok(proven.into_iter().flat_map(|it| it.differences).collect())
    }

    pub(crate) fn user(&self, who: &str) -> anyhow::Result<String> {
        Ok(login(&self.world.endpoint().users, &who.parse()?))
    }

    /// Everything the broker holds of this mesh.
    pub(crate) fn held(&self) -> anyhow::Result<BTreeMap<&'static str, Value>> {
        let vhost = self.world.vhost();
        let tool = self.world.tool();
        let users = tool.get("users")?;
        let users = users.as_array().context("users are a list")?;
        let ours = users.iter().filter(|user| {
            let name = user.get("name").and_then(Value::as_str);
            name.is_some_and(|name| name.starts_with(&format!("{vhost}.")))
        });
        let mut queues = BTreeMap::new();
        let listed = tool.get(&format!("queues/{vhost}?columns=name"))?;
        for queue in listed.as_array().context("queues are a list")? {
            let name = queue.get("name").and_then(Value::as_str);
            let name = name.context("a queue has a name")?;
            let look = json!({ "count": 100, "ackmode": "ack_requeue_true", "encoding": "auto" });
            let path = format!("queues/{vhost}/{name}/get");
            let waits = tool.ask("POST", &path, Some(&look.to_string()))?;
            let waits: Value = serde_json::from_str(&waits.body)?;
            let bodies = waits.as_array().context("messages are a list")?.iter();
            let bodies: Vec<_> = bodies.map(|it| it.get("payload").cloned()).collect();
            queues.insert(name.to_owned(), bodies);
        }
        Ok([
            ("users", json!(ours.collect::<Vec<_>>())),
            (
                "exchanges",
                tool.get(&format!("exchanges/{vhost}?columns=name,type,durable"))?,
            ),
            ("bindings", tool.get(&format!("bindings/{vhost}"))?),
            (
                "permissions",
                tool.get(&format!("vhosts/{vhost}/permissions"))?,
            ),
            (
                "topics",
                tool.get(&format!("vhosts/{vhost}/topic-permissions"))?,
            ),
            ("queues", json!(queues)),
        ]
        .into())
    }
}

pub(crate) fn prober(principal: &Principal) -> anyhow::Result<Prober> {
    if *principal == Principal::Controller {
        return Ok(Prober::Controller);
    }
    let key = mesh_auth::keys::UserKey::generate()?;
    Ok(Prober::Guest {
        principal: principal.clone(),
        key: PublicKey::new(key.public().as_str())?,
        seed: key.seed().expose().to_owned(),
    })
}

/// Names that are hard to tell apart: a prefix of another, a node, a module, a seat and a token alike.
pub(crate) fn records(world: &AmqpWorld) -> anyhow::Result<Records> {
    let mut records = Records::new("proof".parse()?, BusFacts::default());
    for name in ["node1", "node10", "w"] {
        let node: NodeName = name.parse()?;
        let record = NodeRecord {
            bus: mesh_model::BusKind::Amqp,
            moving: None,
            key: world.user(&Principal::Node(node.clone())),
            box_key: world.box_key(&node),
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node, record);
    }
    records
        .declared
        .seats
        .insert("w".parse()?, Some("w".parse()?).into());
    records.declared.seats.insert("spare".parse()?, None.into());
    let shop = Manifest {
        emits: ["order.placed".parse()?].into(),
        sends_to: ["w".parse()?].into(),
        ..manifest("shop")?
    };
    let w = Manifest {
        emits: ["w".parse()?].into(),
        follows: ["shop.order.placed".parse()?].into(),
        can_hold: ["w".parse()?].into(),
        sends_to: ["spare".parse()?].into(),
        ..manifest("w")?
    };
    for (manifest, on) in [(shop, "node1"), (w, "w")] {
        let (module, node): (_, NodeName) = (manifest.module.clone(), on.parse()?);
        let instance = InstanceRef {
            module: module.clone(),
            node: node.clone(),
        };
        let record = InstanceRecord {
            bus: mesh_model::BusKind::Amqp,
            key: world.user(&Principal::Instance(instance.clone())),
            credential: Sealed(vec![1]),
            sealed_to: world.box_key(&node),
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        };
        records.instances.insert(instance, record);
        let placement = placed_on(&node);
        records
            .declared
            .placements
            .insert(module.clone(), placement);
        records.declared.modules.insert(module, manifest);
    }
    records.tokens.insert("w".parse()?, token(world)?);
    Ok(records)
}

fn token(world: &AmqpWorld) -> anyhow::Result<TokenRecord> {
    Ok(TokenRecord {
        bus: mesh_model::BusKind::Amqp,
        key: world.user(&Principal::Joiner("w".parse()?)),
        expires: mesh_host::now().plus(3_600_000),
        node: None,
        labels: Labels::new(),
        rejoin: false,
        spent: None,
    })
}

/// Whether something is said of this attempt of this principal: more than that rows differ.
pub(crate) fn names(differences: &[String], attempt: &str) -> bool {
    differences.iter().any(|it| it.starts_with(attempt))
}
