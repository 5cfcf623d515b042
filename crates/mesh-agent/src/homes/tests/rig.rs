//! Two loopbacks as two buses, a controller's hands on each, and an agent with a disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_auth::keyfile::write_secret;
use mesh_auth::keys::{BoxKey, SigningKey, UserKey};
use mesh_auth::seal::seal;
use mesh_auth::secret::SecretText;
use mesh_auth::sign;
use mesh_auth::tls::Authority;
use mesh_bus::loopback::{Loopback, LoopbackController, LoopbackNode};
use mesh_bus::{BusError, ControllerBus, NodeBus, NodeEvent, NodeSettlement, Settlement, Signer};
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, BusPlace, ConsumerRef, Declaration, Generation, Home,
    NodeName, NodeRecord, Offer, Outcome, PublicKey, Records, Report, Restart, Run, Sealed,
    Timestamp, Workload,
};
use mesh_wire::{SignedKind, decode_report, encode_declaration};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::run::run_by;
use crate::{AgentConfig, Dial, DialError, Place, RunAgentError, RuntimeKind, public_on};

/// All a move needs but the agent.
pub(super) struct Rig {
    dir: TempDir,
    box_key: BoxKey,
    signer: SigningKey,
    sides: [Bus; 2],
    counter: u64,
    /// The bus its modules' credentials are for.
    modules_on: BusKind,
    dial: Wire,
}

struct Bus {
    loopback: Loopback,
    controller: LoopbackController,
    /// Who the node is there.
    key: UserKey,
    place: BusPlace,
}

/// Connects to one loopback or the other.
#[derive(Clone)]
struct Wire {
    buses: [Loopback; 2],
    refuses: [Arc<AtomicBool>; 2],
    dialled: Arc<Mutex<Vec<BusKind>>>,
}

/// A loopback's node that may be made to lose its reports.
struct Wired {
    node: LoopbackNode,
    refuses: Arc<AtomicBool>,
}

/// An agent that runs.
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinSet<Result<(), RunAgentError>>,
}

const fn index(bus: BusKind) -> usize {
    match bus {
        BusKind::Nats => 0,
        BusKind::Amqp => 1,
    }
}

fn place(bus: BusKind) -> BusPlace {
    match bus {
        BusKind::Nats => BusPlace {
            urls: vec!["tls://here.example:4222".to_owned()],
            ca: Some(Authority::generate(0).unwrap().certificate_pem().to_owned()),
            facts: facts(),
        },
        BusKind::Amqp => BusPlace {
            urls: vec!["amqp://127.0.0.1:5672/mesh".to_owned()],
            ca: None,
            facts: BusFacts::default(),
        },
    }
}

fn facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

fn node() -> NodeName {
    "web-1".parse().unwrap()
}

fn public(key: &UserKey) -> PublicKey {
    PublicKey::new(key.public().as_str()).unwrap()
}

impl Rig {
    /// A node that enrolled on the first bus, and that both buses know.
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let buses = [Loopback::new(facts()), Loopback::new(facts())];
        let sides = BusKind::ALL.map(|kind| {
            let bus = buses[index(kind)].clone();
            Bus {
                controller: bus.controller(),
                loopback: bus,
                key: UserKey::generate().unwrap(),
                place: place(kind),
            }
        });
        let rig = Self {
            box_key: BoxKey::generate().unwrap(),
            signer: SigningKey::generate().unwrap(),
            sides,
            counter: 0,
            modules_on: BusKind::Nats,
            dial: Wire {
                buses,
                refuses: Default::default(),
                dialled: Arc::default(),
            },
            dir,
        };
        for bus in BusKind::ALL {
            rig.grant(bus).await;
            rig.side(bus).controller.take_over().await.unwrap();
        }
        let here = rig.side(BusKind::Nats);
        rig.write("node.creds", here.key.seed().expose());
        rig.write("node.xkey", rig.box_key.seed().expose());
        rig.write("ca.pem", here.place.ca.as_deref().unwrap());
        rig
    }

    fn side(&self, bus: BusKind) -> &Bus {
        &self.sides[index(bus)]
    }

    pub(super) fn bus(&self, bus: BusKind) -> &Loopback {
        &self.side(bus).loopback
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn box_key(&self) -> &BoxKey {
        &self.box_key
    }

    pub(super) fn start(&self) -> Running {
        let path = |name: &str| self.dir().join(name);
        let here = self.side(BusKind::Nats);
        let config = AgentConfig {
            node: node(),
            mesh: "home".parse().unwrap(),
            urls: here.place.urls.clone(),
            ca: Some(path("ca.pem")),
            credential: path("node.creds"),
            box_key: path("node.xkey"),
            controller: self.signer.public(),
            bus: facts(),
            runtime: RuntimeKind::DryRun,
            containers: crate::ContainerSettings::default(),
            heartbeat: Duration::from_millis(100),
            state_dir: self.dir().to_owned(),
        };
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _dropped = stopped.await;
        };
        let mut task = JoinSet::new();
        task.spawn(run_by(self.dial.clone(), config, stopped));
        Running { stop, task }
    }

    /// The node can connect there.
    pub(super) async fn grant(&self, bus: BusKind) {
        let key = public(&self.side(bus).key);
        self.assert(bus, Some(key)).await;
    }

    /// The node can no longer.
    pub(super) async fn withdraw(&self, bus: BusKind) {
        self.assert(bus, None).await;
    }

    async fn assert(&self, bus: BusKind, key: Option<PublicKey>) {
        let mut records = Records::new("home".parse().unwrap(), facts());
        let record = key.map(|key| NodeRecord {
            bus: BusKind::Nats,
            moving: None,
            key,
            box_key: BoxPublicKey::new(self.box_key.public().as_str()).unwrap(),
            labels: [].into(),
            token: "t".parse().unwrap(),
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        });
        records.nodes.extend(record.map(|record| (node(), record)));
        let plan = derive(&records, &Bounds::default());
        let controller = &self.side(bus).controller;
        controller.assert(&plan).await.unwrap();
    }

    pub(super) fn offer_of(&self, bus: BusKind) -> Home {
        let side = self.side(bus);
        let sealed = seal(&self.box_key.public(), side.key.seed().expose().as_bytes());
        Home::Offered(Box::new(Offer {
            bus,
            place: side.place.clone(),
            credential: Sealed(sealed.unwrap().into_bytes()),
        }))
    }

    /// The next declaration: one module, with a credential of the bus its node is at home on.
    pub(super) fn next_declaration(&mut self, home: Home) -> Declaration {
        self.counter += 1;
        if let Home::On(bus) = home {
            self.modules_on = bus;
        }
        let key = UserKey::generate().unwrap();
        let sealed = seal(&self.box_key.public(), key.seed().expose().as_bytes()).unwrap();
        Declaration {
            node: node(),
            generation: Generation {
                incarnation: 1,
                counter: self.counter,
            },
            workloads: vec![Workload {
                module: "mailer".parse().unwrap(),
                release: "1".to_owned(),
                run: Run::command(["absent".to_owned()]).unwrap(),
                after: [].into(),
                env: [].into(),
                restart: Restart::Always,
                key: public_on(self.modules_on, &key).unwrap(),
                credential: Sealed(sealed.into_bytes()),
                health: None,
                secrets: [].into(),
                pull_secret: None,
                accepts: [].into(),
            }],
            home,
        }
    }

    /// Declares this home on these buses, the first of which is the node's where the mesh has but one.
    pub(super) async fn declare(&mut self, on: &[BusKind], home: Home) -> Generation {
        if home == Home::Here {
            self.modules_on = on[0];
        }
        let declaration = self.next_declaration(home);
        let key = SigningKey::from_seed(self.signer.seed().expose()).unwrap();
        let signer = Signer::new(move |message| sign::sign(&key, message));
        let body = signer.seal(SignedKind::Declaration, &encode_declaration(&declaration));
        for bus in on {
            let controller = &self.side(*bus).controller;
            controller.declare(&node(), body.clone()).await.unwrap();
        }
        declaration.generation
    }

    /// What comes of this generation, as the first report on it says over this bus that is not of how far it is.
    pub(super) async fn reported(&self, bus: BusKind, told: Generation) -> Outcome {
        let reported = async {
            loop {
                let reports = self.take(bus).await;
                let mut of_it = reports
                    .into_iter()
                    .filter(|r| r.id.generation == told && r.outcome != Outcome::Converging);
                if let Some(report) = of_it.next() {
                    return report.outcome;
                }
            }
        };
        let reported = timeout(DEADLINE, reported).await;
        reported.unwrap_or_else(|_| panic!("{told} was not reported over {bus}"))
    }

    async fn take(&self, bus: BusKind) -> Option<Report> {
        let controller = &self.side(bus).controller;
        let delivery = controller.take(1).await.unwrap().pop()?;
        let done = controller.settle(&delivery.receipt, Settlement::Done);
        done.await.unwrap();
        Some(decode_report(&delivery.body).unwrap())
    }

    /// The node says over this bus that it lives, from now on.
    pub(super) async fn heartbeat(&self, bus: BusKind) {
        let controller = &self.side(bus).controller;
        while timeout(Duration::ZERO, controller.heartbeat())
            .await
            .is_ok()
        {}
        let heard = timeout(DEADLINE, controller.heartbeat()).await;
        assert!(heard.is_ok(), "no sign of life over {bus}");
    }

    fn consumer() -> ConsumerRef {
        ConsumerRef::new(subject::nodes_stream(), node().as_str()).unwrap()
    }

    pub(super) fn unsettled(&self, bus: BusKind) -> usize {
        self.bus(bus).unsettled(&Self::consumer())
    }

    pub(super) async fn settled(&self, bus: BusKind) {
        let settled = async {
            while self.unsettled(bus) > 0 {
                sleep(LOOK).await;
            }
        };
        let settled = timeout(DEADLINE, settled).await;
        assert!(settled.is_ok(), "a declaration is still out over {bus}");
    }

    pub(super) fn stored_reports(&self, bus: BusKind) -> usize {
        self.bus(bus).stored(&subject::control_stream())
    }

    pub(super) fn refuse_reports(&self, bus: BusKind, refuse: bool) {
        self.dial.refuses[index(bus)].store(refuse, Ordering::Relaxed);
    }

    /// Somebody who can write there says something in the controller's place.
    pub(super) fn forge(&self, bus: BusKind) {
        let forged = self
            .bus(bus)
            .inject(subject::declare(&node()), vec![1, 2, 3]);
        forged.unwrap();
    }

    /// Which buses were dialled, in order.
    pub(super) fn dialled(&self) -> Vec<BusKind> {
        self.dial.dialled.lock().unwrap().clone()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        write_secret(&self.dir().join(name), &SecretText::new(text.to_owned())).unwrap();
    }

    /// The files that say where buses are.
    pub(super) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("bus.")).collect();
        names.sort();
        names
    }

    /// Puts something in the way of a file: nothing gets its name.
    pub(super) fn block(&self, name: &str) -> PathBuf {
        let path = self.dir().join(name);
        fs::create_dir_all(path.join("in the way")).unwrap();
        path
    }
}

pub(super) fn unblock(path: &Path) {
    fs::remove_dir_all(path).unwrap();
}

impl Running {
    pub(super) async fn stop(mut self) {
        self.stop.send(()).unwrap();
        let ended = self.task.join_next().await.unwrap();
        ended.unwrap().unwrap();
    }
}

impl Dial for Wire {
    type Node = Wired;

    async fn dial(&self, place: &Place) -> Result<Wired, DialError> {
        let at = index(place.bus);
        self.dialled.lock().unwrap().push(place.bus);
        Ok(Wired {
            node: self.buses[at].node(node(), public(place.credentials.key())),
            refuses: Arc::clone(&self.refuses[at]),
        })
    }
}

impl NodeBus for Wired {
    type Receipt = <LoopbackNode as NodeBus>::Receipt;

    fn idle_heartbeat(&self) -> Option<Duration> {
        self.node.idle_heartbeat()
    }

    async fn next(&self) -> NodeEvent<Self::Receipt> {
        self.node.next().await
    }

    async fn settle(&self, receipt: &Self::Receipt, how: NodeSettlement) -> Result<(), BusError> {
        self.node.settle(receipt, how).await
    }

    async fn report(&self, body: Vec<u8>) -> Result<(), BusError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(BusError::Away("it was lost".to_owned()));
        }
        self.node.report(body).await
    }

    async fn heartbeat(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.node.heartbeat(body).await
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        self.node.listen_again().await
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        self.node.reconnect().await
    }
}

const DEADLINE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);
