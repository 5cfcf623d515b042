//! A mesh that runs over a server: the real loops, with store, runtime and disk in memory.

use std::sync::Arc;

use anyhow::{Context, bail};
use mesh_auth::keys::SigningKey;
use mesh_bus::conformance::{MemoryDisk, MemoryLedger, MemoryWorkloads};
use mesh_bus::{
    AgentLoop, AgentParts, BusError, ControllerBus, ControllerHandle, ControllerLoop,
    ControllerParts, LoopError, Seen, Signer, Verifier,
};
use mesh_control::{
    AgentSettings, Command, Controller, Fact, Kept, MeshFact, Settings, Start, Status,
};
use mesh_model::{
    ConsumerRef, Declaration, Declared, InstanceRef, Labels, Manifest, ModuleName, NodeName,
    NodeRecord, Placement, Principal, Restart, Revision, Run, Selector, Timestamp, TokenId,
    TokenRecord,
};
use mesh_nats::{NatsController, NatsJoiner, NatsModule, NatsNode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::keys::KeyRing;
use crate::patience::{eventually, soon};
use crate::rogue::Rogue;
use crate::server::{Server, Shape};
use crate::tool::Tool;
use crate::world::{connect_joiner, connect_module, connect_node};

/// A mesh before its controller is started: what its store holds.
#[derive(Debug)]
pub struct Founding {
    server: Server,
    keys: KeyRing,
    facts: Vec<Fact>,
    /// The controller's settings.
    pub settings: Settings,
}

/// A mesh that runs until it is dropped.
#[derive(Debug)]
pub struct Mesh {
    running: JoinSet<Result<(), LoopError>>,
    /// The controller.
    pub handle: ControllerHandle<KeyRing>,
    /// The controller's side of the bus.
    pub bus: Arc<NatsController>,
    /// What an operator sees.
    pub tool: Tool,
    /// Its store.
    pub ledger: Arc<MemoryLedger>,
    /// Everybody's keys.
    pub keys: KeyRing,
    signing: SigningKey,
    server: Server,
}

/// An agent that runs until it is dropped.
#[derive(Debug)]
pub struct Agent {
    /// What it runs.
    pub workloads: MemoryWorkloads,
    /// What it remembers.
    pub disk: MemoryDisk,
    /// What it says of itself.
    pub seen: watch::Receiver<Seen>,
    _running: JoinSet<()>,
}

impl Founding {
    /// A server and a store that holds a mesh of nobody; nothing when there is no server to start.
    pub async fn new() -> anyhow::Result<Option<Self>> {
        let Some(server) = Server::start(Shape::Derived).await? else {
            return Ok(None);
        };
        let name: mesh_model::MeshName = "live".parse()?;
        let mut settings = Settings::new(name.clone(), Server::facts());
        settings.retry = 100;
        Ok(Some(Self {
            server,
            keys: KeyRing::default(),
            facts: vec![Fact::Mesh(MeshFact {
                name,
                revision: Revision(1),
                incarnation: 1,
            })],
            settings,
        }))
    }

    /// A node that enrolled before.
    pub fn node(&mut self, name: &str) -> anyhow::Result<NodeName> {
        let node: NodeName = name.parse()?;
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: self.keys.public(&Principal::Node(node.clone()))?,
            box_key: self.keys.box_key(&node)?,
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        self.facts.push(Fact::Node(node.clone(), record));
        Ok(node)
    }

    /// A token nobody has used.
    pub fn token(&mut self, id: &str) -> anyhow::Result<TokenId> {
        let token: TokenId = id.parse()?;
        let record = token_record(&self.keys, &token)?;
        self.facts.push(Fact::Token(token.clone(), record));
        Ok(token)
    }

    /// A module that was applied before, placed nowhere.
    pub fn module(&mut self, manifest: Manifest) {
        self.facts.push(Fact::Module(manifest));
    }

    /// Starts the controller, and waits until the bus is what follows and every node was told.
    pub async fn run(self) -> anyhow::Result<Mesh> {
        let ledger = Arc::new(MemoryLedger::new(self.facts));
        let bus = Arc::new(self.server.controller().await?);
        // Before anything is asserted: a server that reads its users again refuses whoever is just connecting.
        let tool = self.server.tool().await?;
        let kept = Kept::assemble(ledger.facts(), bus.facts());
        let signing = SigningKey::generate()?;
        let signs = signing.clone();
        let (controller, handle) = ControllerLoop::new(ControllerParts {
            bus: Arc::clone(&bus),
            ledger: Arc::clone(&ledger),
            kept: Some(kept.context("the store holds a mesh")?),
            start: Start::Restored,
            settings: self.settings,
            mint: self.keys.clone(),
            signer: Signer::new(move |message| mesh_auth::sign::sign(&signs, message)),
            clock: mesh_host::now,
        });
        let mut running = JoinSet::new();
        running.spawn(controller.run(std::future::pending()));
        let mesh = Mesh {
            running,
            handle,
            bus,
            tool,
            ledger,
            keys: self.keys,
            signing,
            server: self.server,
        };
        mesh.settled().await?;
        Ok(mesh)
    }
}

impl Mesh {
    /// Looks at the controller between two of its steps.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Controller<KeyRing>, Timestamp) -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        Ok(self.handle.look(look).await?)
    }

    /// Waits until the bus is what follows and every node was told.
    pub async fn settled(&self) -> anyhow::Result<()> {
        let deadline = std::time::Duration::from_mins(3);
        let settled = async || self.look(|core, _| core.is_settled()).await;
        let what = "the bus is what follows, and every node was told";
        eventually(deadline, what, settled).await.map(drop)
    }

    /// What the controller says of the mesh.
    pub async fn status(&self) -> anyhow::Result<Status> {
        self.look(Controller::status).await
    }

    /// What a node was last told.
    pub async fn told(&self, node: &NodeName) -> anyhow::Result<Declaration> {
        let asked = node.clone();
        let told = self.look(move |core, _| core.declarations().get(&asked).cloned());
        told.await?
            .with_context(|| format!("node {node} was told nothing"))
    }

    /// Gives a command, and waits until it is stored and true on the bus.
    pub async fn command(&self, command: Command) -> anyhow::Result<()> {
        self.handle.command(command, "a test".to_owned()).await??;
        self.settled().await
    }

    /// Adds a module to what is declared, and where it runs.
    pub async fn apply(&self, manifest: Manifest, on: Option<Placement>) -> anyhow::Result<()> {
        let declared: Declared = self.look(|core, _| core.records().declared.clone()).await?;
        let mut declared = declared;
        let module = manifest.module.clone();
        declared.modules.insert(module.clone(), manifest);
        if let Some(on) = on {
            declared.placements.insert(module, on);
        }
        let apply = Command::Apply {
            declared,
            if_revision: None,
        };
        self.command(apply).await
    }

    /// Issues a token.
    pub async fn token(&self, id: &str) -> anyhow::Result<TokenId> {
        let id: TokenId = id.parse()?;
        let token = token_record(&self.keys, &id)?;
        self.command(Command::CreateToken {
            id: id.clone(),
            token,
        })
        .await?;
        Ok(id)
    }

    /// Another controller's side of the bus, that has not taken over.
    pub async fn another_controller(&self) -> Result<NatsController, BusError> {
        self.server.controller().await
    }

    /// A node's side of the bus.
    pub async fn node(&self, node: &NodeName) -> Result<NatsNode, BusError> {
        connect_node(&self.server, &self.keys, node).await
    }

    /// A joiner's side of the bus.
    pub async fn joiner(&self, token: &TokenId) -> Result<NatsJoiner, BusError> {
        connect_joiner(&self.server, &self.keys, token).await
    }

    /// A module's side of the bus.
    pub async fn module(&self, instance: &InstanceRef) -> Result<NatsModule, BusError> {
        connect_module(&self.server, &self.keys, instance).await
    }

    /// A bare client with somebody's key.
    pub async fn rogue(&self, who: &Principal) -> anyhow::Result<Rogue> {
        self.server.rogue(&self.keys.user(who)?, who).await
    }

    /// Believes the controller of this mesh.
    pub fn verifier(&self) -> Verifier {
        let key = self.signing.public();
        Verifier::new(move |bytes, signature| {
            mesh_auth::sign::verify(&key, bytes, signature).is_ok()
        })
    }

    /// Starts an agent on a node, and waits until it has carried out what the node was told.
    pub async fn agent(&self, node: &NodeName) -> anyhow::Result<Agent> {
        let mut settings = AgentSettings::new(node.clone(), mesh_host::now().as_millis());
        settings.heartbeat = 100;
        settings.pause = 20;
        settings.retry = 100;
        let (workloads, disk) = (MemoryWorkloads::default(), MemoryDisk::default());
        let agent = AgentLoop::new(AgentParts {
            bus: self.node(node).await?,
            workloads: workloads.clone(),
            memory: disk.clone(),
            remembered: disk.remembered(),
            settings,
            verifier: self.verifier(),
            clock: mesh_host::now,
        });
        let seen = agent.seen();
        let mut running = JoinSet::new();
        running.spawn(agent.run(std::future::pending()));
        let agent = Agent {
            workloads,
            disk,
            seen,
            _running: running,
        };
        agent.applies(&self.told(node).await?).await?;
        Ok(agent)
    }

    /// Fails if the controller has ended.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.running.try_join_next() {
            None => Ok(()),
            Some(ended) => bail!("the controller ended: {ended:?}"),
        }
    }
}

impl Agent {
    /// Waits until it has carried this out.
    pub async fn applies(&self, told: &Declaration) -> anyhow::Result<()> {
        let mut seen = self.seen.clone();
        let applied = seen.wait_for(|seen| seen.applied == Some(told.generation));
        let what = format!("node {} applies {}", told.node, told.generation);
        soon(&what, applied).await??;
        Ok(())
    }
}

/// A module with nothing to say.
pub fn manifest(module: &str) -> anyhow::Result<Manifest> {
    let run = Run::command(["true".to_owned()]).context("a program")?;
    Ok(Manifest {
        module: module.parse::<ModuleName>()?,
        release: "1.0.0".to_owned(),
        run,
        after: [].into(),
        env: [].into(),
        restart: Restart::Always,
        emits: [].into(),
        follows: [].into(),
        can_hold: [].into(),
        sends_to: [].into(),
        health: None,
        secrets: [].into(),
    })
}

/// On exactly this node.
pub fn placed_on(node: &NodeName) -> Placement {
    Placement {
        on: Selector::Nodes([node.clone()].into()),
        count: None,
    }
}

/// A consumer on one of the mesh's own streams.
pub fn consumer(stream: mesh_model::StreamName, name: &str) -> anyhow::Result<ConsumerRef> {
    Ok(ConsumerRef::new(stream, name)?)
}

fn token_record(keys: &KeyRing, token: &TokenId) -> anyhow::Result<TokenRecord> {
    Ok(TokenRecord {
        bus: mesh_model::BusKind::Nats,
        key: keys.public(&Principal::Joiner(token.clone()))?,
        expires: mesh_host::now().plus(3_600_000),
        node: None,
        labels: Labels::new(),
        rejoin: false,
        spent: None,
    })
}
