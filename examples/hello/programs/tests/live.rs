//! The example over a server that is really there: `MESH_TEST_NATS` says where its program is.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command};
    use std::time::Duration;

    use mesh_auth::creds::Credentials;
    use mesh_auth::keyfile::write_secret;
    use mesh_auth::keys::{BoxKey, UserKey};
    use mesh_auth::tls::{Authority as Ca, ca_client_config};
    use mesh_bus::ControllerBus;
    use mesh_derive::render::nats_conf::{MESH_ACCOUNT, accounts, edge_users};
    use mesh_derive::{Bounds, derive};
    use mesh_model::{
        BoxPublicKey, BusFacts, InstanceRecord, InstanceRef, NodeName, NodeRecord, PublicKey,
        Records, Sealed, SeatRecord, Timestamp,
    };
    use mesh_nats::{
        Authority, ControllerSetup, Credential, Dialling, Endpoint, FirstAttempt, ManagedServer,
        NatsController, ServerSpec, ServerState, SyncPolicy, SysConnection, TlsFiles,
    };
    use rustix::process::{Pid, Signal, kill_process};
    use tokio::time::{sleep, timeout};

    #[tokio::test(flavor = "multi_thread")]
    async fn greetings_are_heard_and_letters_wait_for_a_postman_and_all_outlive_the_bus() {
        let Some(program) = server_program() else {
            return;
        };
        let mut hello = Hello::start(&program).await;
        let listener = hello.run("listener", "two", env!("CARGO_BIN_EXE_hello-listener"));
        let postman = hello.run("postman", "two", env!("CARGO_BIN_EXE_hello-postman"));
        let greeter = hello.run("greeter", "one", env!("CARGO_BIN_EXE_hello-greeter"));

        // Six greetings in, all five letters are on their way, and nobody may deliver them.
        hello.wait_for("listener.log", 6).await;
        assert_eq!(hello.lines("postman.log"), Vec::<String>::new());
        hello.assign("post", "postman").await;
        let letters = hello.wait_for("postman.log", 5).await;
        assert_eq!(texts(&letters), numbered("letter number", 5));

        let heard = hello.lines("listener.log").len();
        hello.kill_server();
        let greetings = hello.wait_for("listener.log", heard + 3).await;
        assert_eq!(texts(&greetings), numbered("hello number", greetings.len()));

        for mut child in [greeter, listener, postman] {
            let pid = Pid::from_child(&child.0);
            kill_process(pid, Signal::TERM).unwrap();
            assert!(child.0.wait().unwrap().success());
        }
    }

    /// The example's mesh, on a server of its own that speaks TLS.
    struct Hello {
        dir: tempfile::TempDir,
        server: ManagedServer,
        controller: NatsController,
        records: Records,
        keys: BTreeMap<InstanceRef, UserKey>,
    }

    /// A program, ended with the test.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            // It has ended where the test went well.
            let _ended = self.0.kill();
            let _reaped = self.0.wait();
        }
    }

    impl Drop for Hello {
        /// A server outlives its controller; this one need not outlive its test, however that ends.
        fn drop(&mut self) {
            self.kill_server();
        }
    }

    impl Hello {
        async fn start(program: &Path) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let now = mesh_host::now().as_millis() / 1000;
            let ca = Ca::generate(now).unwrap();
            let certificate = ca.issue(&[], now).unwrap();
            let tls = TlsFiles {
                cert: dir.path().join("server.pem"),
                key: dir.path().join("server.key"),
            };
            std::fs::write(dir.path().join("ca.pem"), ca.certificate_pem()).unwrap();
            std::fs::write(&tls.cert, certificate.chain_pem).unwrap();
            write_secret(&tls.key, &certificate.key_pem).unwrap();

            let (records, keys) = records();
            let plan = derive(&records, &Bounds::default());
            let (controller, system) = (UserKey::generate().unwrap(), UserKey::generate().unwrap());
            let server = ManagedServer::start(ServerSpec {
                name: "hello".to_owned(),
                candidates: vec![program.parent().unwrap().to_owned()],
                search_path: None,
                dir: dir.path().join("bus"),
                store_dir: dir.path().join("bus/js"),
                listen: std::net::Ipv4Addr::LOCALHOST.into(),
                port: 0,
                max_payload: 1 << 20,
                sync: SyncPolicy::Always,
                tls: Some(tls),
                accounts: accounts(&plan, &public(&controller), &public(&system)),
                edge_users: edge_users(&plan),
            })
            .await
            .unwrap();
            let endpoint = Endpoint {
                urls: vec![format!("tls://localhost:{}", server.ready().port)],
                tls: Some(ca_client_config(ca.certificate_pem()).unwrap()),
                name: "controller".to_owned(),
            };
            let system = seed(&system);
            let reload = SysConnection::open(&endpoint, &system, DIALLING);
            let setup = ControllerSetup {
                credential: seed(&controller),
                account: MESH_ACCOUNT.to_owned(),
                authority: Authority::Files {
                    users_file: dir.path().join("bus/edge-users.conf"),
                    reload: Box::new(reload.await.unwrap()),
                },
                replicas: 1,
                dialling: DIALLING,
                endpoint,
            };
            let controller = NatsController::connect(setup).await.unwrap();
            controller.assert(&plan).await.unwrap();
            Self {
                dir,
                server,
                controller,
                records,
                keys,
            }
        }

        /// Starts a program as a node's agent does.
        fn run(&self, module: &str, node: &str, program: &str) -> Running {
            let instance = InstanceRef {
                module: module.parse().unwrap(),
                node: node.parse().unwrap(),
            };
            let creds = self.dir.path().join(format!("{module}.creds"));
            let key = self.keys[&instance].clone();
            Credentials::Nkey(key).write(&creds).unwrap();
            let url = format!("tls://localhost:{}", self.server.ready().port);
            let child = Command::new(program)
                .env_clear()
                .env("HELLO_OUT", self.out(""))
                .env("MESH_MODULE", module)
                .env("MESH_NODE", node)
                .env("MESH_BUS_URL", url)
                .env("MESH_CREDS", creds)
                .env("MESH_CA", self.dir.path().join("ca.pem"))
                .env("MESH_INBOX", format!("mesh.inbox.module.{module}.{node}"))
                .spawn();
            Running(child.unwrap())
        }

        /// As a power cut would end it; its supervisor starts it again.
        fn kill_server(&self) {
            if let ServerState::Ready(ready) = self.server.state().borrow().clone() {
                let _gone = kill_process(Pid::from_raw(ready.pid).unwrap(), Signal::KILL);
            }
        }

        async fn assign(&mut self, seat: &str, holder: &str) {
            let assigned = Some(holder.parse().unwrap());
            let record = SeatRecord {
                assigned,
                by: mesh_model::Assigner::Operator,
            };
            self.records.seats.insert(seat.parse().unwrap(), record);
            let plan = derive(&self.records, &Bounds::default());
            self.controller.assert(&plan).await.unwrap();
        }

        fn out(&self, file: &str) -> PathBuf {
            self.dir.path().join("out").join(file)
        }

        fn lines(&self, file: &str) -> Vec<String> {
            let text = std::fs::read_to_string(self.out(file)).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        }

        async fn wait_for(&self, file: &str, count: usize) -> Vec<String> {
            let enough = async {
                while self.lines(file).len() < count {
                    sleep(Duration::from_millis(50)).await;
                }
                self.lines(file)
            };
            let enough = timeout(Duration::from_mins(1), enough).await;
            enough.unwrap_or_else(|_| panic!("{file}: {:#?}", self.lines(file)))
        }
    }

    fn records() -> (Records, BTreeMap<InstanceRef, UserKey>) {
        let facts = BusFacts {
            domain: None,
            account: MESH_ACCOUNT.to_owned(),
        };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let declared = mesh_files::load(&dir).unwrap();
        let mut records = Records::new(declared.mesh.clone(), facts);
        records.declared = declared;
        let box_key = BoxKey::generate().unwrap().public().to_string();
        let box_key: BoxPublicKey = box_key.parse().unwrap();
        let mut keys = BTreeMap::new();
        for (module, node) in [("greeter", "one"), ("listener", "two"), ("postman", "two")] {
            let node: NodeName = node.parse().unwrap();
            let record = NodeRecord {
                bus: mesh_model::BusKind::Nats,
                moving: None,
                key: public(&UserKey::generate().unwrap()),
                box_key: box_key.clone(),
                labels: [].into(),
                token: "t".parse().unwrap(),
                enrolled: Timestamp::default(),
                scheduling: mesh_model::Scheduling::Open,
            };
            let key = UserKey::generate().unwrap();
            let instance = InstanceRef {
                module: module.parse().unwrap(),
                node: node.clone(),
            };
            let credential = InstanceRecord {
                bus: mesh_model::BusKind::Nats,
                key: public(&key),
                credential: Sealed(Vec::new()),
                sealed_to: box_key.clone(),
                secrets: [].into(),
                life: mesh_model::CredentialLife::default(),
            };
            records.nodes.insert(node, record);
            records.instances.insert(instance.clone(), credential);
            keys.insert(instance, key);
        }
        (records, keys)
    }

    /// Where the server's program is; without it, the test says that it did not run.
    fn server_program() -> Option<PathBuf> {
        let program = std::env::var_os("MESH_TEST_NATS").map(PathBuf::from);
        if program.is_none() {
            assert!(
                std::env::var_os("CI").is_none(),
                "MESH_TEST_NATS is not set, and in CI every live test runs"
            );
            eprintln!("did not run: MESH_TEST_NATS is not set");
        }
        program
    }

    fn public(key: &UserKey) -> PublicKey {
        key.public().to_string().parse().unwrap()
    }

    fn seed(key: &UserKey) -> Credential {
        Credential::NKeySeed(key.seed().expose().to_owned())
    }

    /// What stands behind the ids, in the order it was written.
    fn texts(lines: &[String]) -> Vec<&str> {
        lines
            .iter()
            .map(|line| line.split_once(' ').unwrap().1)
            .collect()
    }

    fn numbered(text: &str, count: usize) -> Vec<String> {
        (1..=count)
            .map(|number| format!("{text} {number}"))
            .collect()
    }

    const DIALLING: Dialling = Dialling {
        first: FirstAttempt::MustSucceed,
        seed: 7,
    };
}
