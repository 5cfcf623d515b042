//! A mesh on a server of its own, and the principals of it.

use std::path::PathBuf;
use std::time::Duration;

use mesh_bus::{ControllerBus, Delivery, NodeBus, NodeEvent};
use mesh_derive::render::nats_conf::{MESH_ACCOUNT, accounts, edge_users};
use mesh_derive::{Bounds, Plan, derive, part};
use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, InstanceRecord, InstanceRef, Manifest, ModuleName, NodeName,
    NodeRecord, Placement, PublicKey, Records, Restart, Run, Sealed, Selector, TokenRecord,
};
use mesh_nats::{
    Authority, ControllerSetup, Credential, Dialling, Endpoint, FirstAttempt, ManagedServer,
    NatsController, NatsJoiner, NatsModule, NatsNode, Receipt, ServerSpec, ServerState, SyncPolicy,
    SysConnection,
};
use nkeys::KeyPair;
use rustix::process::{Pid, Signal, kill_process};

/// Waits no longer than a test may take.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    within(15, what).await
}

pub(crate) async fn within<T>(secs: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(secs), what)
        .await
        .expect("it happens in time")
}

/// Where the server's program is; without it, the test says that it did not run.
#[expect(
    clippy::disallowed_methods,
    reason = "a live test is told where the server is, and says aloud that it did not run"
)]
pub(crate) fn server_dir() -> Option<PathBuf> {
    let program = std::env::var("MESH_TEST_NATS").ok().map(PathBuf::from);
    if program.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "MESH_TEST_NATS is not set, and in CI every live test runs"
        );
        eprintln!("did not run: MESH_TEST_NATS is not set");
    }
    program?.parent().map(PathBuf::from)
}

pub(crate) const DIALLING: Dialling = Dialling {
    first: FirstAttempt::MustSucceed,
    seed: 7,
};

/// A mesh, its server, and the secrets of everybody in it.
pub(crate) struct Mesh {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) server: ManagedServer,
    pub(crate) records: Records,
    pub(crate) bounds: Bounds,
    pub(crate) controller: KeyPair,
    pub(crate) system: KeyPair,
}

pub(crate) fn empty_records() -> Records {
    let bus = BusFacts {
        domain: None,
        account: MESH_ACCOUNT.to_owned(),
    };
    Records::new("test".parse().unwrap(), bus)
}

pub(crate) fn public(key: &KeyPair) -> PublicKey {
    PublicKey::new(key.public_key()).unwrap()
}

pub(crate) fn spec(
    programs: PathBuf,
    dir: &std::path::Path,
    controller: &KeyPair,
    system: &KeyPair,
) -> ServerSpec {
    let plan = derive(&empty_records(), &Bounds::default());
    ServerSpec {
        name: "mesh-test".to_owned(),
        candidates: vec![programs],
        search_path: None,
        dir: dir.join("bus"),
        store_dir: dir.join("bus/js"),
        listen: std::net::Ipv4Addr::LOCALHOST.into(),
        port: 0,
        max_payload: 1 << 20,
        sync: SyncPolicy::Every(Duration::from_secs(10)),
        tls: None,
        accounts: accounts(&plan, &public(controller), &public(system)),
        edge_users: edge_users(&plan),
    }
}

impl Mesh {
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(derive(&empty_records(), &Bounds::default())).await
    }

    /// One whose server is told that there is another bus.
    pub(crate) async fn start_one_of_two() -> Option<Self> {
        let records = empty_records();
        let plan = derive(&records, &Bounds::default());
        Self::start_with(part(&plan, &records, BusKind::Nats)).await
    }

    async fn start_with(plan: Plan) -> Option<Self> {
        let programs = server_dir()?;
        let dir = tempfile::tempdir().unwrap();
        let (controller, system) = (KeyPair::new_user(), KeyPair::new_user());
        let mut spec = spec(programs, dir.path(), &controller, &system);
        spec.accounts = accounts(&plan, &public(&controller), &public(&system));
        let server = ManagedServer::start(spec).await.unwrap();
        let bounds = Bounds {
            idle_heartbeat_secs: 1,
            ..Bounds::default()
        };
        Some(Self {
            dir,
            server,
            records: empty_records(),
            bounds,
            controller,
            system,
        })
    }

    pub(crate) fn plan(&self) -> Plan {
        derive(&self.records, &self.bounds)
    }

    /// What of it this server holds, in a mesh of two buses.
    pub(crate) fn part(&self) -> Plan {
        part(&self.plan(), &self.records, BusKind::Nats)
    }

    /// Moves a node, and what runs there, to another bus.
    pub(crate) fn put(&mut self, node: &NodeName, bus: BusKind) {
        self.records.nodes.get_mut(node).unwrap().bus = bus;
        for (instance, record) in &mut self.records.instances {
            if instance.node == *node {
                record.bus = bus;
            }
        }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            urls: vec![format!("nats://127.0.0.1:{}", self.server.ready().port)],
            tls: None,
            name: "test".to_owned(),
        }
    }

    pub(crate) async fn connect(&self) -> NatsController {
        let system = seed(&self.system);
        let reload = SysConnection::open(&self.endpoint(), &system, DIALLING)
            .await
            .unwrap();
        NatsController::connect(ControllerSetup {
            endpoint: self.endpoint(),
            credential: seed(&self.controller),
            account: MESH_ACCOUNT.to_owned(),
            authority: Authority::Files {
                users_file: self.dir.path().join("bus/edge-users.conf"),
                reload: Box::new(reload),
            },
            replicas: 1,
            dialling: DIALLING,
        })
        .await
        .unwrap()
    }

    /// A controller that has asserted what there is so far and has taken over.
    pub(crate) async fn controller(&self) -> NatsController {
        let controller = self.connect().await;
        controller.assert(&self.plan()).await.unwrap();
        controller.take_over().await.unwrap();
        controller
    }

    pub(crate) fn add_node(&mut self, name: &str) -> (NodeName, KeyPair) {
        let (node, key): (NodeName, _) = (name.parse().unwrap(), KeyPair::new_user());
        let record = NodeRecord {
            bus: BusKind::Nats,
            moving: None,
            key: public(&key),
            // Nothing is sealed here, and making a key takes its time.
            box_key: BoxPublicKey::from_raw([0; 32]),
            labels: [].into(),
            token: "t".parse().unwrap(),
            enrolled: mesh_model::Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        self.records.nodes.insert(node.clone(), record);
        (node, key)
    }

    pub(crate) fn add_module(
        &mut self,
        manifest: Manifest,
        on: &NodeName,
    ) -> (InstanceRef, KeyPair) {
        let (module, key) = (manifest.module.clone(), KeyPair::new_user());
        let placement = Placement {
            on: Selector::Nodes([on.clone()].into()),
            count: None,
        };
        let instance = InstanceRef {
            module: module.clone(),
            node: on.clone(),
        };
        let record = InstanceRecord {
            bus: BusKind::Nats,
            key: public(&key),
            credential: Sealed(Vec::new()),
            sealed_to: self.records.nodes[on].box_key.clone(),
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        };
        self.records.instances.insert(instance.clone(), record);
        self.records
            .declared
            .placements
            .insert(module.clone(), placement);
        self.records.declared.modules.insert(module, manifest);
        (instance, key)
    }

    pub(crate) fn add_token(&mut self, id: &str) -> KeyPair {
        let key = KeyPair::new_user();
        let record = TokenRecord {
            bus: BusKind::Nats,
            key: public(&key),
            expires: mesh_model::Timestamp::from_millis(u64::MAX),
            node: None,
            labels: [].into(),
            rejoin: false,
            spent: None,
        };
        self.records.tokens.insert(id.parse().unwrap(), record);
        key
    }

    pub(crate) async fn node(&self, node: &NodeName, key: &KeyPair) -> NatsNode {
        let bus = self.records.bus.clone();
        let beat = Duration::from_secs(1);
        NatsNode::connect(&self.endpoint(), &seed(key), node, bus, beat, DIALLING)
            .await
            .unwrap()
    }

    pub(crate) async fn module(&self, instance: &InstanceRef, key: &KeyPair) -> NatsModule {
        let bus = self.records.bus.clone();
        NatsModule::connect(&self.endpoint(), &seed(key), instance, bus, DIALLING)
            .await
            .unwrap()
    }

    pub(crate) async fn joiner(&self, token: &str, key: &KeyPair) -> NatsJoiner {
        let token = token.parse().unwrap();
        NatsJoiner::connect(&self.endpoint(), &seed(key), &token, DIALLING)
            .await
            .unwrap()
    }

    /// A bare client with somebody's key: what an operator's tool, or a rogue, would use.
    pub(crate) async fn bare(&self, key: &KeyPair, inbox: &str) -> async_nats::Client {
        async_nats::ConnectOptions::with_nkey(key.seed().unwrap())
            .custom_inbox_prefix(inbox)
            .request_timeout(Some(Duration::from_millis(700)))
            .connect(&self.endpoint().urls[0])
            .await
            .unwrap()
    }
}

impl Mesh {
    /// As a power cut would end it; its supervisor starts it again.
    pub(crate) fn kill_server(&self) {
        let ServerState::Ready(ready) = self.server.state().borrow().clone() else {
            return;
        };
        if let Some(pid) = Pid::from_raw(ready.pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Mesh {
    /// A server outlives its controller; this one need not outlive its test, however that ends.
    fn drop(&mut self) {
        self.kill_server();
    }
}

pub(crate) fn seed(key: &KeyPair) -> Credential {
    Credential::NKeySeed(key.seed().unwrap())
}

pub(crate) fn module(name: &str) -> ModuleName {
    name.parse().unwrap()
}

pub(crate) fn manifest(name: &str) -> Manifest {
    Manifest {
        module: module(name),
        release: "1".to_owned(),
        run: Run::Command {
            program: "true".to_owned(),
            args: Vec::new(),
        },
        after: [].into(),
        env: [].into(),
        restart: Restart::default(),
        emits: [].into(),
        follows: [].into(),
        can_hold: [].into(),
        sends_to: [].into(),
        health: None,
        secrets: [].into(),
    }
}

/// Takes until there is something.
pub(crate) async fn take(controller: &NatsController) -> Delivery<Receipt> {
    soon(async {
        loop {
            if let Some(delivery) = controller.take(1).await.unwrap().pop() {
                return delivery;
            }
        }
    })
    .await
}

/// What the node hears next that is a declaration.
pub(crate) async fn declared(node: &NatsNode) -> (Vec<u8>, Receipt) {
    soon(async {
        loop {
            match node.next().await {
                NodeEvent::Declared { body, receipt } => return (body, receipt),
                NodeEvent::Denied(why) => panic!("{why}"),
                NodeEvent::Idle | NodeEvent::Link(_) => {}
            }
        }
    })
    .await
}

pub(crate) async fn idle(node: &NatsNode) {
    soon(async {
        loop {
            match node.next().await {
                NodeEvent::Idle => return,
                NodeEvent::Link(_) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}
