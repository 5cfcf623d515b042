//! The bus of a site, past its programs: who publishes with a node's credential, and what an operator's tool sees.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use async_nats::ConnectOptions;
use mesh_auth::creds::Credentials;
use mesh_auth::tls::ca_client_config;
use mesh_bus::NodeBus;
use mesh_derive::subject::inbox_prefix;
use mesh_model::{
    Generation, InstanceRef, ModuleName, ModuleReport, ModuleState, NodeName, Outcome, Principal,
    Report, ReportId, Seq,
};
use mesh_nats::{Credential, Endpoint, NatsNode};
use mesh_wire::encode_report;
use serde_json::{Value, json};

use super::site::Site;
use crate::patience::soon;
use crate::rogue::Rogue;
use crate::server::{DIALLING, Server};
use crate::tool::Tool;

/// Publishes reports as a node does, and remembers each the bus confirmed.
#[derive(Debug)]
pub struct Publisher<B = NatsNode> {
    bus: B,
    node: NodeName,
    generation: Generation,
    confirmed: Vec<Seq>,
    asked: u64,
}

/// The bus of a mesh over NATS.
impl Site {
    /// It, as an operator's tool sees it.
    pub async fn tool(&self) -> anyhow::Result<Tool> {
        tool(self.state_dir(), self.server()?.1).await
    }

    /// Somebody with the credential of a module on a node, beside its process.
    pub async fn as_module(&self, node: &str, module: &str) -> anyhow::Result<Rogue> {
        let handed = self.home(node).join("handed").join(module);
        let credentials = Credentials::read(&handed.join("creds"))?;
        let seed = credentials.key().seed().expose().to_owned();
        let ca = std::fs::read_to_string(handed.join("ca.pem"))?;
        let options = ConnectOptions::with_nkey(seed).tls_client_config(ca_client_config(&ca)?);
        let instance = Principal::Instance(InstanceRef {
            module: module.parse()?,
            node: node.parse()?,
        });
        let url = format!("tls://127.0.0.1:{}", self.server()?.1);
        Rogue::connect_by(options, &url, &instance).await
    }

    /// Somebody with a node's credential, in place of its agent.
    pub async fn publisher(&self, node: &str) -> anyhow::Result<Publisher> {
        let (generation, (_, port)) = (self.declared(node).await?, self.server()?);
        Publisher::connect(&self.home(node), port, node, generation).await
    }
}

impl Publisher {
    /// Over what enrolment left in `home`, about the node's newest declaration.
    async fn connect(
        home: &Path,
        port: u16,
        node: &str,
        generation: Generation,
    ) -> anyhow::Result<Self> {
        let node: NodeName = node.parse()?;
        let key = Credentials::read(&home.join("node.creds"))?;
        let credential = Credential::NKeySeed(key.key().seed().expose().to_owned());
        let ca = std::fs::read_to_string(home.join("ca.pem"))?;
        let endpoint = Endpoint {
            urls: vec![format!("tls://127.0.0.1:{port}")],
            tls: Some(ca_client_config(&ca)?),
            name: format!("a test that is node {node}"),
        };
        let idle = std::time::Duration::from_secs(30);
        let facts = Server::facts();
        let bus = NatsNode::connect(&endpoint, &credential, &node, facts, idle, DIALLING).await?;
        Ok(Self::over(bus, node, generation))
    }
}

impl<B: NodeBus> Publisher<B> {
    /// Over a node's side of some bus.
    pub const fn over(bus: B, node: NodeName, generation: Generation) -> Self {
        Self {
            bus,
            node,
            generation,
            confirmed: Vec::new(),
            asked: 0,
        }
    }

    /// Publishes one report, until the bus confirms it, with so many bytes of reasons: a line for each of many modules.
    pub async fn report(&mut self, bytes: usize) -> anyhow::Result<()> {
        self.asked += 1;
        let seq = Seq(self.asked);
        let report = Report {
            id: ReportId {
                node: self.node.clone(),
                generation: self.generation,
                seq,
            },
            at: mesh_host::now(),
            outcome: Outcome::Failed {
                reason: "x".to_owned(),
            },
            modules: modules(bytes)?,
        };
        let publish = self.bus.report(encode_report(&report));
        soon("the bus confirms a report", publish).await??;
        self.confirmed.push(seq);
        Ok(())
    }

    /// The reports the bus confirmed.
    pub fn confirmed(&self) -> &[Seq] {
        &self.confirmed
    }
}

/// Modules whose reasons are so many bytes together.
fn modules(bytes: usize) -> anyhow::Result<BTreeMap<ModuleName, ModuleReport>> {
    let names = (0..bytes / LINE).map(|number| ModuleName::new(format!("m{number}")));
    let report = ModuleReport {
        release: String::new(),
        state: ModuleState::Failed,
        pid: None,
        restarts: 0,
        reason: Some("x".repeat(LINE)),
        image: None,
        last_exit: None,
        repairs: 0,
    };
    names.map(|name| Ok((name?, report.clone()))).collect()
}

/// Bytes of one reason; a longer one is no line.
const LINE: usize = 500;

/// A tool with the controller's key, on a connection of its own.
async fn tool(state_dir: &Path, port: u16) -> anyhow::Result<Tool> {
    let seed = std::fs::read_to_string(state_dir.join("keys/controller.seed"))?;
    let ca = std::fs::read_to_string(state_dir.join("tls/ca.pem"))?;
    let client = ConnectOptions::with_nkey(seed.trim().to_owned())
        .custom_inbox_prefix(inbox_prefix(&Principal::Controller))
        .tls_client_config(ca_client_config(&ca)?)
        .connect(format!("tls://127.0.0.1:{port}"))
        .await?;
    Ok(Tool::new(client))
}

/// When a node was first told anything on this bus, by its server's clock: RFC 3339 in UTC, so that texts compare. An
/// error if it was told more than once: of what was replaced no time is left.
pub async fn declared_at(tool: &Tool, node: &str) -> anyhow::Result<String> {
    let verb = format!("CONSUMER.INFO.NODES.{node}");
    let consumer = tool.api(&verb, &json!({})).await?;
    let times = consumer.and_then(|it| it.pointer("/delivered/consumer_seq")?.as_u64());
    ensure!(times == Some(1), "node {node} was told {times:?} times");
    let newest = json!({ "last_by_subj": format!("mesh.node.{node}.declare") });
    let found = tool.api("STREAM.MSG.GET.NODES", &newest).await?;
    let found = found.with_context(|| format!("node {node} was told nothing"))?;
    text(&found, "/message/time")
}

/// When a stream, or a consumer of it, was made, by the same clock.
pub async fn created_at(
    tool: &Tool,
    stream: &str,
    consumer: Option<&str>,
) -> anyhow::Result<String> {
    let verb = match consumer {
        Some(consumer) => format!("CONSUMER.INFO.{stream}.{consumer}"),
        None => format!("STREAM.INFO.{stream}"),
    };
    let found = tool.api(&verb, &json!({})).await?;
    text(
        &found.with_context(|| format!("{verb}: there is none"))?,
        "/created",
    )
}

fn text(value: &Value, at: &str) -> anyhow::Result<String> {
    let text = value.pointer(at).and_then(Value::as_str);
    let text = text.with_context(|| format!("no {at} in {value}"))?;
    ensure!(text.ends_with('Z'), "{at} is not in UTC: {text}");
    Ok(text.to_owned())
}
