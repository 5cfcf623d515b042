//! One mesh on one broker, imported once for all tests here.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use anyhow::{Context, anyhow};
use live_tests::{KeyRing, manifest};
use mesh_derive::render::rabbitmq::{PasswordHash, Secrets, definitions};
use mesh_derive::topology::{BrokerFacts, BrokerVersion, QueueKind, Topology, topology};
use mesh_derive::{Bounds, derive};
use mesh_model::{
    BusFacts, InstanceRecord, InstanceRef, Labels, Manifest, NodeRecord, Placement, Principal,
    Records, Sealed, Selector, Timestamp, TokenRecord,
};
use mesh_testkit::rabbitmq::{Broker, Management};
use serde_json::Value;

/// Where the mesh of these tests is.
pub(crate) const VHOST: &str = "mesh-live-tests";
/// The token whose holder would come with a certificate.
pub(crate) const WITHOUT_PASSWORD: &str = "joiner/t2";

/// A broker that holds what was derived.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) broker: &'static Broker,
    pub(crate) topology: Topology,
    pub(crate) document: Value,
}

impl Site {
    /// The one of this process; nothing when there is no broker, which has then been said aloud.
    pub(crate) fn shared() -> anyhow::Result<Option<&'static Self>> {
        static SHARED: OnceLock<Result<Option<Site>, String>> = OnceLock::new();
        let site = SHARED.get_or_init(|| Self::make().map_err(|error| format!("{error:#}")));
        site.as_ref()
            .map(Option::as_ref)
            .map_err(|error| anyhow!("{error}"))
    }

    fn make() -> anyhow::Result<Option<Self>> {
        let Some(broker) = Broker::shared_with_statistics()? else {
            return Ok(None);
        };
        Self::import(broker, VHOST, QueueKind::Classic).map(Some)
    }

    /// The same mesh once more, in this virtual host and with queues of this kind.
    pub(crate) fn import(
        broker: &'static Broker,
        vhost: &str,
        queues: QueueKind,
    ) -> anyhow::Result<Self> {
        let management = broker.management();
        let plan = derive(&mesh()?, &Bounds::default());
        let facts = BrokerFacts {
            vhost: vhost.to_owned(),
            version: version(management)?,
            queues,
            users: String::new(),
        };
        let topology = topology(&plan, &Bounds::default(), &facts);
        let faults = topology.check();
        anyhow::ensure!(faults.is_empty(), "{faults:?}");
        let document = definitions(&topology, &secrets(&topology));
        // Left over from another run, or not there.
        management.ask("DELETE", &format!("vhosts/{vhost}"), None)?;
        management.send("POST", "definitions", &document)?;
        Ok(Self {
            broker,
            topology,
            document,
        })
    }

    pub(crate) fn management(&self) -> &'static Management {
        self.broker.management()
    }
}

/// What the broker says it is.
pub(crate) fn version(management: &Management) -> anyhow::Result<BrokerVersion> {
    let overview = management.get("overview")?;
    let version = overview["rabbitmq_version"].as_str();
    Ok(version.context("a broker has a version")?.parse()?)
}

/// A user's password.
pub(crate) fn password(principal: &Principal) -> String {
    format!("of {principal}")
}

fn secrets(topology: &Topology) -> Secrets {
    let with_password = topology
        .users
        .keys()
        .filter(|it| it.to_string() != WITHOUT_PASSWORD);
    let hashes = with_password.zip(1_u32..).map(|(it, number)| {
        let hash = PasswordHash::new(number.to_be_bytes(), &password(it));
        (it.clone(), hash)
    });
    hashes.collect::<BTreeMap<_, _>>()
}

/// Three nodes, one's name the beginning of another's; modules that emit, follow, send and hold; a seat nobody holds.
fn mesh() -> anyhow::Result<Records> {
    let keys = KeyRing::default();
    let bus = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new("live".parse()?, bus);
    let nodes = ["node1", "node10", "web"];
    for node in nodes {
        let principal: Principal = format!("node/{node}").parse()?;
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: keys.public(&principal)?,
            box_key: keys.box_key(&node.parse()?)?,
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::from_millis(1),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node.parse()?, record);
    }
    let seats = &mut records.declared.seats;
    seats.insert("mail".parse()?, Some("mailer".parse()?).into());
    seats.insert("spare".parse()?, None.into());
    let mailer = Manifest {
        emits: ["sent".parse()?].into(),
        follows: ["shop.order.placed".parse()?, "shop.announced".parse()?].into(),
        can_hold: ["mail".parse()?].into(),
        ..manifest("mailer")?
    };
    let shop = Manifest {
        emits: ["order.placed".parse()?, "order.paid".parse()?].into(),
        sends_to: ["mail".parse()?, "spare".parse()?].into(),
        ..manifest("shop")?
    };
    let watcher = Manifest {
        follows: ["mailer.sent".parse()?].into(),
        ..manifest("watcher")?
    };
    for (manifest, on) in [
        (mailer, &nodes[..2]),
        (shop, &nodes[1..]),
        (watcher, &nodes[..1]),
    ] {
        place(&mut records, &keys, manifest, on)?;
    }
    for token in ["t1", "t2"] {
        let principal: Principal = format!("joiner/{token}").parse()?;
        let record = TokenRecord {
            bus: mesh_model::BusKind::Nats,
            key: keys.public(&principal)?,
            expires: Timestamp::from_millis(1),
            node: None,
            labels: Labels::new(),
            rejoin: false,
            spent: None,
        };
        records.tokens.insert(token.parse()?, record);
    }
    Ok(records)
}

fn place(
    records: &mut Records,
    keys: &KeyRing,
    manifest: Manifest,
    on: &[&str],
) -> anyhow::Result<()> {
    let module = manifest.module.clone();
    records.declared.modules.insert(module.clone(), manifest);
    let mut names = std::collections::BTreeSet::new();
    for node in on {
        let instance = InstanceRef {
            module: module.clone(),
            node: node.parse()?,
        };
        let record = InstanceRecord {
            bus: mesh_model::BusKind::Nats,
            key: keys.public(&Principal::Instance(instance.clone()))?,
            credential: Sealed(vec![1]),
            sealed_to: keys.box_key(&instance.node)?,
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        };
        names.insert(instance.node.clone());
        records.instances.insert(instance, record);
    }
    let placement = Placement {
        on: Selector::Nodes(names),
        count: None,
    };
    records.declared.placements.insert(module, placement);
    Ok(())
}
