//! A mesh set up for one claim: the real loops over a world's bus, a store that does as it is told, and patience.

use std::sync::Arc;
use std::time::Duration;

use mesh_control::{
    AgentSettings, Command, Controller, Fact, Kept, MeshFact, Settings, Start, Status,
};
use mesh_derive::subject;
use mesh_model::{
    Declared, Generation, InstanceRef, Labels, Manifest, MeshName, ModuleName, NodeName,
    NodeRecord, Outcome, Placement, Principal, Report, ReportId, Restart, Revision, Run, Selector,
    Seq, Timestamp, TokenId, TokenRecord,
};
use mesh_window::Limits;
use mesh_wire::encode_report;
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinSet;

use super::journal::{Journal, Watched};
use super::patience::{DEADLINE, broken, eventually, name, within};
use super::stand_ins::{MemoryDisk, MemoryLedger, MemoryWorkloads, signer, verifier};
use super::{Broken, World};
use crate::agent_loop::{AgentLoop, AgentParts, Seen};
use crate::controller_loop::{ControllerHandle, ControllerLoop, ControllerParts, LoopError};
use crate::seam::{BusError, ControllerBus, NodeBus};

/// What a claim begins with, before anything runs.
pub(super) struct Bench<'w, W: World> {
    world: &'w W,
    bus: Watched<W::Controller>,
    journal: Journal,
    facts: Vec<Fact>,
    pub(super) settings: Settings,
}

/// A mesh that runs.
pub(super) struct Mesh<'w, W: World> {
    pub(super) world: &'w W,
    pub(super) journal: Journal,
    pub(super) ledger: Arc<MemoryLedger>,
    pub(super) controller: Running<W>,
    settings: Settings,
}

/// A controller's loop that runs until it is dropped or told to stop.
pub(super) struct Running<W: World> {
    pub(super) handle: ControllerHandle<W::Mint>,
    pub(super) bus: Arc<Watched<W::Controller>>,
    stop: oneshot::Sender<()>,
    task: Mutex<JoinSet<Result<(), LoopError>>>,
}

/// An agent's loop that runs until it is dropped.
pub(super) struct AgentRun {
    pub(super) workloads: MemoryWorkloads,
    pub(super) disk: MemoryDisk,
    pub(super) seen: watch::Receiver<Seen>,
    _task: JoinSet<()>,
}

impl<'w, W: World> Bench<'w, W> {
    /// Connects, with nothing declared.
    pub(super) async fn open(world: &'w W) -> Result<Self, Broken> {
        let bus = world.controller().await?;
        let journal = Journal::default();
        let mesh: MeshName = name("proof")?;
        let mut settings = Settings::new(mesh.clone(), bus.facts());
        settings.retry = 100;
        settings.window = Limits {
            bound: Duration::from_mins(2),
            first: Duration::from_millis(50),
            cap: Duration::from_millis(300),
        };
        Ok(Self {
            world,
            bus: Watched {
                bus,
                journal: journal.clone(),
            },
            journal,
            facts: vec![Fact::Mesh(MeshFact {
                name: mesh,
                revision: Revision(1),
                incarnation: 1,
            })],
            settings,
        })
    }

    /// An enrolled node.
    pub(super) fn node(&mut self, node: &str) -> Result<NodeName, Broken> {
        let node: NodeName = name(node)?;
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: self.world.user(&Principal::Node(node.clone())),
            box_key: self.world.box_key(&node),
            labels: Labels::new(),
            token: name("spent")?,
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        self.facts.push(Fact::Node(node.clone(), record));
        Ok(node)
    }

    /// A token nobody has used.
    pub(super) fn token(&mut self, token: &str) -> Result<TokenId, Broken> {
        let token: TokenId = name(token)?;
        let record = TokenRecord {
            bus: mesh_model::BusKind::Nats,
            key: self.world.user(&Principal::Joiner(token.clone())),
            expires: (self.world.clock())().plus(3_600_000),
            node: None,
            labels: Labels::new(),
            rejoin: false,
            spent: None,
        };
        self.facts.push(Fact::Token(token.clone(), record));
        Ok(token)
    }

    /// Starts the controller, and waits until the bus is what follows and every node was told.
    pub(super) async fn run(self) -> Result<Mesh<'w, W>, Broken> {
        let ledger = Arc::new(MemoryLedger::beside(self.journal.clone(), self.facts));
        let controller = start(
            self.world,
            self.bus,
            &ledger,
            &self.settings,
            Start::Restored,
        )?;
        let mesh = Mesh {
            world: self.world,
            journal: self.journal,
            ledger,
            controller,
            settings: self.settings,
        };
        mesh.settled().await?;
        Ok(mesh)
    }
}

fn start<W: World>(
    world: &W,
    bus: Watched<W::Controller>,
    ledger: &Arc<MemoryLedger>,
    settings: &Settings,
    start: Start,
) -> Result<Running<W>, Broken> {
    let kept = Kept::assemble(ledger.facts(), bus.facts());
    if kept.is_none() {
        return broken("the store in memory lost its mesh");
    }
    let bus = Arc::new(bus);
    let (controller, handle) = ControllerLoop::new(ControllerParts {
        bus: Arc::clone(&bus),
        ledger: Arc::clone(ledger),
        kept,
        start,
        settings: settings.clone(),
        mint: world.mint(),
        signer: signer(),
        clock: world.clock(),
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let mut task = JoinSet::new();
    task.spawn(controller.run(async move {
        // Told to stop, or nobody is left who could tell.
        let _either = stopped.await;
    }));
    Ok(Running {
        handle,
        bus,
        stop,
        task: Mutex::new(task),
    })
}

impl<W: World> Mesh<'_, W> {
    /// Another controller over the same store, as when one is started again.
    pub(super) async fn another(&self) -> Result<Running<W>, Broken> {
        let bus = Watched {
            bus: self.world.controller().await?,
            journal: self.journal.clone(),
        };
        start(
            self.world,
            bus,
            &self.ledger,
            &self.settings,
            Start::Continued,
        )
    }

    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Controller<W::Mint>, Timestamp) -> T + Send + 'static,
    ) -> Result<T, Broken> {
        let looked = self.controller.handle.look(look).await;
        match looked {
            Ok(seen) => Ok(seen),
            Err(_) => broken(self.controller.ended().await),
        }
    }

    pub(super) async fn status(&self) -> Result<Status, Broken> {
        self.look(Controller::status).await
    }

    pub(super) async fn settled(&self) -> Result<(), Broken> {
        eventually(
            "the bus is what follows, and every node was told",
            async || Ok(self.look(|core, _| core.is_settled()).await?),
        )
        .await
    }

    /// Gives a command, and waits until it is stored and true on the bus.
    pub(super) async fn command(&self, command: Command) -> Result<(), Broken> {
        let answered = self
            .controller
            .handle
            .command(command, "a claim".to_owned())
            .await;
        match answered {
            Ok(Ok(_)) => self.settled().await,
            Ok(Err(error)) => broken(format!("a command was refused: {error}")),
            Err(_) => broken(self.controller.ended().await),
        }
    }

    /// What a node was last told.
    pub(super) async fn generation(&self, node: &NodeName) -> Result<Generation, Broken> {
        let asked = node.clone();
        let told = self
            .look(move |core, _| core.declarations().get(&asked).map(|told| told.generation))
            .await?;
        told.ok_or_else(|| Broken(format!("node {node} was told nothing")))
    }

    /// How many messages wait in `CONTROL`.
    pub(super) async fn waiting(&self) -> Result<usize, Broken> {
        Ok(self.world.stored(&subject::control_stream()).await?)
    }

    /// How many copies are parked.
    pub(super) async fn parked(&self) -> Result<usize, Broken> {
        Ok(self.world.stored(&subject::parked_stream()).await?)
    }

    pub(super) async fn control_is_empty(&self) -> Result<(), Broken> {
        eventually("CONTROL is empty", async || Ok(self.waiting().await? == 0)).await
    }

    /// Publishes a report of one's own making, as an agent would.
    pub(super) async fn report(
        &self,
        bus: &W::Node,
        node: &NodeName,
        generation: Generation,
        seq: u64,
    ) -> Result<(), BusError> {
        let report = Report {
            id: ReportId {
                node: node.clone(),
                generation,
                seq: Seq(seq),
            },
            at: (self.world.clock())(),
            outcome: Outcome::Converged,
            modules: [].into(),
        };
        bus.report(encode_report(&report)).await
    }

    /// Starts an agent on a node, with what an earlier one left on its disk.
    pub(super) async fn agent(
        &self,
        node: &NodeName,
        disk: MemoryDisk,
    ) -> Result<AgentRun, Broken> {
        let bus = Watched {
            bus: self.world.node(node).await?,
            journal: self.journal.clone(),
        };
        let clock = self.world.clock();
        let mut settings = AgentSettings::new(node.clone(), clock().as_millis());
        settings.heartbeat = 100;
        settings.pause = 20;
        settings.retry = 100;
        let workloads = MemoryWorkloads::default();
        let agent = AgentLoop::new(AgentParts {
            bus,
            workloads: workloads.clone(),
            memory: disk.clone(),
            remembered: disk.remembered(),
            settings,
            verifier: verifier(),
            clock,
        });
        let seen = agent.seen();
        let mut task = JoinSet::new();
        task.spawn(agent.run(std::future::pending()));
        Ok(AgentRun {
            workloads,
            disk,
            seen,
            _task: task,
        })
    }
}

impl<W: World> Running<W> {
    /// Waits until the loop has ended, and says how.
    pub(super) async fn ended(&self) -> String {
        let mut task = self.task.lock().await;
        let ended = within(DEADLINE, task.join_next()).await;
        match ended {
            None => "the controller goes on".to_owned(),
            Some(None) => "the controller has ended".to_owned(),
            Some(Some(Ok(Ok(())))) => "the controller stopped".to_owned(),
            Some(Some(Ok(Err(error)))) => format!("the controller stopped: {error}"),
            Some(Some(Err(error))) => format!("the controller broke off: {error}"),
        }
    }

    /// Waits until the loop has ended because another took over.
    pub(super) async fn is_fenced(&self) -> bool {
        let mut task = self.task.lock().await;
        let ended = within(DEADLINE, task.join_next()).await;
        matches!(
            ended,
            Some(Some(Ok(Err(LoopError::Bus(BusError::Fenced(_))))))
        )
    }

    /// Stops the loop, and waits until it has.
    pub(super) async fn stop(self) {
        // It may have ended by itself.
        let _gone = self.stop.send(());
        let mut task = self.task.into_inner();
        while task.join_next().await.is_some() {}
    }
}

/// A module with nothing to say.
pub(super) fn manifest(module: &str) -> Result<Manifest, Broken> {
    let Some(run) = Run::command(["true".to_owned()]) else {
        return broken("no program");
    };
    Ok(Manifest {
        module: name(module)?,
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

/// Modules that all run on one node, and seats nobody holds.
pub(super) fn declared(
    modules: impl IntoIterator<Item = Manifest>,
    node: &NodeName,
    seats: &[&str],
) -> Result<Declared, Broken> {
    let mut declared = Declared {
        mesh: name("proof")?,
        modules: [].into(),
        seats: [].into(),
        placements: [].into(),
    };
    for manifest in modules {
        let module: ModuleName = manifest.module.clone();
        let on = Selector::Nodes([node.clone()].into());
        declared
            .placements
            .insert(module.clone(), Placement { on, count: None });
        declared.modules.insert(module, manifest);
    }
    for seat in seats {
        declared.seats.insert(name(seat)?, None.into());
    }
    Ok(declared)
}

/// One of a node's modules.
pub(super) fn instance(module: &str, node: &NodeName) -> Result<InstanceRef, Broken> {
    Ok(InstanceRef {
        module: name(module)?,
        node: node.clone(),
    })
}
