//! A server, a mesh on it whose names are hard to tell apart, and a further key for everybody in it.

use std::collections::BTreeMap;

use anyhow::Context;
use futures_util::StreamExt;
use live_tests::{KeyRing, Server, Shape, Tool, manifest, soon};
use mesh_bus::ControllerBus;
use mesh_derive::proof::{Extent, probed, with_probers};
use mesh_derive::{Bounds, Plan, derive, subject};
use mesh_model::{
    ConsumerRef, InstanceRecord, InstanceRef, Labels, Manifest, NodeName, NodeRecord, Placement,
    Principal, PublicKey, Records, Sealed, Selector, StreamName, Timestamp, TokenRecord,
};
use mesh_nats::proof::{Proof, Proving, prove};
use mesh_nats::{Credential, NatsController};
use serde_json::{Value, json};

/// The server and everything on it.
pub(crate) struct Stage {
    /// What it is to hold.
    pub(crate) plan: Plan,
    /// How it is proven.
    pub(crate) proving: Proving,
    shape: Shape,
    server: Server,
    controller: NatsController,
    tool: Tool,
    keys: KeyRing,
    probers: KeyRing,
    forgotten: Option<Principal>,
}

impl Stage {
    /// Starts the server; nothing when there is none to start.
    pub(crate) async fn new(shape: Shape) -> anyhow::Result<Option<Self>> {
        let Some(server) = Server::start(shape).await? else {
            return Ok(None);
        };
        let keys = KeyRing::default();
        let plan = derive(&records(&keys)?, &Bounds::default());
        assert_eq!(plan.check(&Server::facts()), vec![]);
        if shape == Shape::OneAccount {
            server.serve_all_in_one_account(&plan).await?;
        }
        let proving = Proving {
            endpoint: server.endpoint(),
            controller: server.controller_credential(),
            facts: Server::facts(),
            extent: Extent::Whole,
            at_a_time: 8,
            within: std::time::Duration::from_secs(90),
        };
        Ok(Some(Self {
            plan,
            proving,
            shape,
            controller: server.controller().await?,
            tool: server.tool().await?,
            server,
            keys,
            probers: KeyRing::default(),
            forgotten: None,
        }))
    }

    /// Brings the server to a plan, with the further keys in it.
    pub(crate) async fn serve(&self, plan: &Plan) -> anyhow::Result<()> {
        let mut users: BTreeMap<PublicKey, Principal> = BTreeMap::new();
        for who in probed(plan).filter(|who| Some(*who) != self.forgotten.as_ref()) {
            users.insert(self.probers.public(who)?, who.clone());
        }
        let plan = with_probers(plan, &users)?;
        if self.shape == Shape::OneAccount {
            self.server.serve_all_in_one_account(&plan).await?;
        }
        self.controller.assert(&plan).await?;
        Ok(())
    }

    /// Has the server not know somebody's further key.
    pub(crate) fn forget(&mut self, who: &str) -> anyhow::Result<()> {
        self.forgotten = Some(who.parse()?);
        Ok(())
    }

    /// What somebody of the plan is proven with, the controller with its own key.
    pub(crate) fn keys_of(
        &self,
        of: impl Fn(&Principal) -> bool,
    ) -> anyhow::Result<BTreeMap<Principal, Credential>> {
        let those = self.plan.grants.keys().filter(|who| of(who));
        let keys = those.map(|who| Ok((who.clone(), self.key(who)?)));
        keys.collect()
    }

    /// What somebody is proven with.
    pub(crate) fn key(&self, who: &Principal) -> anyhow::Result<Credential> {
        if *who == Principal::Controller {
            return Ok(self.server.controller_credential());
        }
        self.probers.credential(who)
    }

    /// Proves what the server is to hold.
    pub(crate) async fn prove(&self) -> anyhow::Result<Proof> {
        let everybody = self.keys_of(|_| true)?;
        Ok(prove(&self.proving, &self.plan, &everybody).await?)
    }

    /// Declares to a node.
    pub(crate) async fn declare(&self, node: &NodeName, body: &str) -> anyhow::Result<()> {
        self.controller.take_over().await?;
        Ok(self.controller.declare(node, body.into()).await?)
    }

    /// What a node hears before long, with its own key, and settles.
    pub(crate) async fn hears_declaration(&self, node: &NodeName) -> anyhow::Result<String> {
        let heard = Box::pin(self.hears(node));
        soon("a declaration is heard", heard).await?
    }

    async fn hears(&self, node: &NodeName) -> anyhow::Result<String> {
        let who = Principal::Node(node.clone());
        let client = self.server.rogue(&self.keys.user(&who)?, &who).await?;
        let deliver = subject::deliver_node(node).to_string();
        let mut ear = client.client().subscribe(deliver).await?;
        let heard = ear.next().await.context("the connection is over")?;
        let ack = heard.reply.context("it can be settled")?;
        client.client().request(ack, "+ACK".into()).await?;
        Ok(String::from_utf8(heard.payload.to_vec())?)
    }

    /// A declaration that is heard, a report and work that wait, an event: streams and consumers that stand somewhere.
    pub(crate) async fn live_through_something(&self) -> anyhow::Result<()> {
        let node: NodeName = "node1".parse()?;
        self.declare(&node, "one").await?;
        self.hears_declaration(&node).await?;
        for (who, on) in [
            ("node/node1", "mesh.control.report.node1"),
            ("module/shop@node1", "mesh.mod.shop.order.placed"),
            ("module/shop@node1", "mesh.seat.w.shop"),
        ] {
            let who: Principal = who.parse()?;
            let client = self.server.rogue(&self.keys.user(&who)?, &who).await?;
            client.stores(on, b"body").await?;
        }
        Ok(())
    }

    /// Pauses a consumer for longer than any test: what comes for it waits.
    pub(crate) async fn pause(&self, consumer: &ConsumerRef) -> anyhow::Result<()> {
        let (stream, name) = (consumer.stream(), consumer.name());
        let until = json!({ "pause_until": "2100-01-01T00:00:00Z" });
        let verb = format!("CONSUMER.PAUSE.{stream}.{name}");
        let paused = self.tool.api(&verb, &until).await?;
        let paused = paused.context("the consumer is there")?;
        anyhow::ensure!(paused.get("paused") == Some(&json!(true)), "{paused}");
        Ok(())
    }

    /// A stream nobody derived.
    pub(crate) async fn stray(&self, name: &str, on: &str) -> anyhow::Result<()> {
        let config = json!({ "name": name, "subjects": [on], "storage": "memory" });
        self.tool
            .api(&format!("STREAM.CREATE.{name}"), &config)
            .await?;
        Ok(())
    }

    /// How many messages a stream holds.
    pub(crate) async fn stored(&self, stream: &str) -> anyhow::Result<u64> {
        self.tool.stored(&StreamName::new(stream)?).await
    }

    /// Where every stream and every consumer stands.
    pub(crate) async fn state(&self) -> anyhow::Result<Vec<String>> {
        let mut state = Vec::new();
        for stream in self.plan.streams.keys() {
            let found = self.tool.stream(stream).await?.context("it is there")?;
            state.push(format!("{stream}: {:?}", found.get("state")));
        }
        for consumer in self.plan.consumers.keys() {
            let found = self.tool.consumer(consumer).await?.context("it is there")?;
            let at = |key: &str| found.get(key).map(Value::to_string);
            let stands = [
                "config",
                "paused",
                "delivered",
                "ack_floor",
                "num_ack_pending",
                "num_pending",
                "num_redelivered",
            ];
            state.push(format!("{consumer}: {:?}", stands.map(at)));
        }
        let streams = self.tool.api("STREAM.NAMES", &Value::Null).await?;
        let streams = streams.as_ref().and_then(|it| it.get("streams"));
        state.push(format!("streams: {streams:?}"));
        Ok(state)
    }
}

/// Nodes whose names begin alike, one that is a number, and a node, a module, a seat and a token all called `w`.
fn records(keys: &KeyRing) -> anyhow::Result<Records> {
    let mut records = Records::new("live".parse()?, Server::facts());
    for node in ["node1", "node10", "5", "w"] {
        let node: NodeName = node.parse()?;
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: keys.public(&Principal::Node(node.clone()))?,
            box_key: keys.box_key(&node)?,
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node, record);
    }
    for seat in ["5", "events", "mail", "w"] {
        let holder = match seat {
            "mail" => Some("mailer".parse()?),
            "5" => Some("5".parse()?),
            _ => None,
        };
        records.declared.seats.insert(seat.parse()?, holder.into());
    }
    for (module, nodes) in modules()? {
        place(&mut records, keys, module, nodes)?;
    }
    for token in ["t1", "w"] {
        let record = TokenRecord {
            bus: mesh_model::BusKind::Nats,
            key: keys.public(&Principal::Joiner(token.parse()?))?,
            expires: mesh_host::now().plus(3_600_000),
            node: None,
            labels: Labels::new(),
            rejoin: false,
            spent: None,
        };
        records.tokens.insert(token.parse()?, record);
    }
    Ok(records)
}

fn modules() -> anyhow::Result<[(Manifest, &'static [&'static str]); 4]> {
    let shop = Manifest {
        emits: ["order.placed".parse()?, "order.paid".parse()?].into(),
        sends_to: ["mail".parse()?, "w".parse()?].into(),
        ..manifest("shop")?
    };
    let mailer = Manifest {
        follows: ["shop.order.placed".parse()?].into(),
        can_hold: ["mail".parse()?].into(),
        ..manifest("mailer")?
    };
    let w = Manifest {
        emits: ["w".parse()?].into(),
        follows: ["shop.order.paid".parse()?, "mailer.announced".parse()?].into(),
        sends_to: ["5".parse()?].into(),
        can_hold: ["w".parse()?].into(),
        ..manifest("w")?
    };
    let five = Manifest {
        can_hold: ["5".parse()?].into(),
        ..manifest("5")?
    };
    Ok([
        (shop, &["node1"]),
        (mailer, &["node1", "node10"]),
        (w, &["w"]),
        (five, &["5", "w"]),
    ])
}

fn place(
    records: &mut Records,
    keys: &KeyRing,
    manifest: Manifest,
    on: &[&str],
) -> anyhow::Result<()> {
    let module = manifest.module.clone();
    let mut nodes = std::collections::BTreeSet::new();
    for node in on {
        let node: NodeName = node.parse()?;
        let instance = InstanceRef {
            module: module.clone(),
            node: node.clone(),
        };
        let record = InstanceRecord {
            bus: mesh_model::BusKind::Nats,
            key: keys.public(&Principal::Instance(instance.clone()))?,
            credential: Sealed(vec![1]),
            sealed_to: keys.box_key(&node)?,
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        };
        records.instances.insert(instance, record);
        nodes.insert(node);
    }
    let placement = Placement {
        on: Selector::Nodes(nodes),
        count: None,
    };
    records
        .declared
        .placements
        .insert(module.clone(), placement);
    records.declared.modules.insert(module, manifest);
    Ok(())
}
