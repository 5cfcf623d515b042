//! The same credentials and certificates before a real NATS server, which has the last word on both.
//!
//! `MESH_TEST_NATS` is the path of a `nats-server` binary; without it these tests say that they did not run.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use data_encoding::BASE64URL_NOPAD;
use rustls::{
    ClientConnection, StreamOwned,
    pki_types::{ServerName, UnixTime},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    creds::{Credentials, VouchedKey},
    jwt::{
        AccountClaims, Export, Import, JetStream, OperatorClaims, Traffic, UserClaims, account_jwt,
        operator_jwt, user_jwt,
    },
    keys::{AccountKey, OperatorKey, UserKey, UserPublic},
    tls::{Authority, ca_client_config, pinned_client_config},
};

/// The binary, or a word that there is none.
fn nats_server() -> Option<PathBuf> {
    let path = std::env::var_os("MESH_TEST_NATS").map(PathBuf::from);
    if path.is_none() {
        println!("did not run: MESH_TEST_NATS names no nats-server binary");
    }
    path
}

/// A server on a port of its own, ended with the value.
struct Server {
    child: Child,
    address: SocketAddr,
    /// The end its log is read from must stay for as long as it writes, and its folder.
    log: BufReader<ChildStderr>,
    _folder: TempDir,
}

impl Server {
    fn start(binary: PathBuf, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.conf");
        let store = folder.path().join("jetstream");
        let config = format!(
            "listen: \"127.0.0.1:-1\"\njetstream {{ store_dir: \"{}\" }}\n{config}\n",
            store.display()
        );
        std::fs::write(&path, config).unwrap();
        let mut child = Command::new(binary)
            .arg("-c")
            .arg(path)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            log,
            _folder: folder,
        };
        server.wait_until_ready();
        server
    }

    fn wait_until_ready(&mut self) {
        let mut said = String::new();
        loop {
            let start = said.len();
            assert_ne!(
                self.log.read_line(&mut said).unwrap(),
                0,
                "the server ended:\n{said}"
            );
            let line = said.get(start..).unwrap();
            if let Some((_, address)) = line.split_once("Listening for client connections on ") {
                self.address = address.trim().parse().unwrap();
            }
            if line.contains("Server is ready") {
                return;
            }
        }
    }

    fn tcp(&self) -> TcpStream {
        let tcp = TcpStream::connect(self.address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        tcp
    }

    /// A client, and what the server answered to its credentials: `PONG` or an error.
    fn meet(&self, credentials: &Credentials) -> (Client<TcpStream>, String) {
        let mut client = Client {
            stream: BufReader::new(self.tcp()),
        };
        let mut info = String::new();
        client.stream.read_line(&mut info).unwrap();
        let answer = client.introduce(&info, credentials);
        (client, answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The NATS protocol, as far as these tests speak it.
struct Client<S> {
    stream: BufReader<S>,
}

impl<S: Read + Write> Client<S> {
    /// The next line, but for the news of itself a server may send at any time.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            if !line.starts_with("INFO ") {
                return line.trim_end().to_owned();
            }
        }
    }

    fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
        self.stream.get_mut().flush().unwrap();
    }

    /// What the server says before it answers a ping sent behind `text`, or before it hangs up.
    fn ask(&mut self, text: &str) -> String {
        self.send(&format!("{text}PING\r\n"));
        let mut said = Vec::new();
        loop {
            match self.line() {
                line if line == "PONG" => return said.join(" "),
                line if line.is_empty() => return said.join(" "),
                line => said.push(line),
            }
        }
    }

    fn introduce(&mut self, info: &str, credentials: &Credentials) -> String {
        let info: Value = serde_json::from_str(info.strip_prefix("INFO ").unwrap()).unwrap();
        let signature = credentials
            .key()
            .answer(info["nonce"].as_str().unwrap().as_bytes());
        let mut connect = json!({
            "verbose": false, "protocol": 1, "headers": true, "no_responders": true,
            "sig": BASE64URL_NOPAD.encode(&signature),
        });
        match credentials {
            Credentials::Nkey(key) => connect["nkey"] = json!(key.public()),
            Credentials::Jwt(vouched) => connect["jwt"] = json!(vouched.jwt().as_str()),
        }
        self.ask(&format!("CONNECT {connect}\r\n"))
    }
}

/// An operator with the two accounts of a mesh, and the system's.
struct Bus {
    operator: OperatorKey,
    system: AccountKey,
    mesh: AccountKey,
    edge: AccountKey,
    signing: AccountKey,
}

const ISSUED: u64 = 1_780_000_000;

impl Bus {
    fn new() -> Self {
        let account = || AccountKey::generate().unwrap();
        let operator = OperatorKey::generate().unwrap();
        Self {
            operator,
            system: account(),
            mesh: account(),
            edge: account(),
            signing: account(),
        }
    }

    fn start(&self, binary: PathBuf, revoked: BTreeMap<UserPublic, u64>) -> Server {
        let claims = |name: &str, key: &AccountKey| AccountClaims {
            name: name.to_owned(),
            subject: key.public(),
            jetstream: JetStream::Off,
            exports: vec![],
            imports: vec![],
            signing_keys: vec![],
            revoked: BTreeMap::new(),
            issued_at: ISSUED,
        };
        let shared = [
            (Traffic::Service, "mesh.control.>"),
            (Traffic::Stream, "mesh.deliver.>"),
        ];
        let exports = shared.map(|(traffic, subject)| Export {
            traffic,
            subject: subject.to_owned(),
        });
        let from = self.mesh.public();
        let imports = shared.map(|(traffic, subject)| Import {
            traffic,
            from: from.clone(),
            subject: subject.to_owned(),
        });
        let accounts = [
            claims("SYS", &self.system),
            AccountClaims {
                jetstream: JetStream::On,
                exports: exports.to_vec(),
                ..claims("MESH", &self.mesh)
            },
            AccountClaims {
                imports: imports.to_vec(),
                signing_keys: vec![self.signing.public()],
                revoked,
                ..claims("EDGE", &self.edge)
            },
        ];
        let system_account = Some(self.system.public());
        let operator = OperatorClaims {
            name: "mesh".to_owned(),
            system_account,
            issued_at: ISSUED,
        };
        let mut config = format!(
            "operator: {}\nresolver: MEMORY\n",
            operator_jwt(&operator, &self.operator)
        );
        config.push_str("resolver_preload {\n");
        for claims in accounts {
            let jwt = account_jwt(&claims, &self.operator);
            writeln!(config, "  {}: {jwt}", claims.subject).unwrap();
        }
        config.push_str("}\n");
        Server::start(binary, &config)
    }

    fn credentials(
        account: &AccountKey,
        signer: &AccountKey,
        key: &UserKey,
        rights: [&[&str]; 2],
        at: u64,
    ) -> Credentials {
        let subjects =
            |subjects: &[&str]| subjects.iter().map(|&subject| subject.to_owned()).collect();
        let claims = UserClaims {
            name: "node/web-1".to_owned(),
            subject: key.public(),
            account: account.public(),
            publish: subjects(rights[0]),
            subscribe: subjects(rights[1]),
            issued_at: at,
            expires: None,
        };
        Credentials::Jwt(VouchedKey::new(user_jwt(&claims, signer), key.clone()).unwrap())
    }

    fn controller(&self) -> Credentials {
        let key = UserKey::generate().unwrap();
        Self::credentials(&self.mesh, &self.mesh, &key, [&[">"], &[">"]], ISSUED)
    }

    fn node(&self, key: &UserKey, at: u64) -> Credentials {
        let rights: [&[&str]; 2] = [
            &["mesh.control.report.web-1"],
            &["mesh.deliver.node.web-1", "mesh.deliver.seat.mail mail"],
        ];
        Self::credentials(&self.edge, &self.signing, key, rights, at)
    }
}

#[test]
fn a_server_of_an_operator_grants_exactly_what_the_jwts_say() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let server = bus.start(binary, BTreeMap::new());
    let (mut controller, answer) = server.meet(&bus.controller());
    assert_eq!(answer, "");
    let (mut node, answer) = server.meet(&bus.node(&UserKey::generate().unwrap(), ISSUED));
    assert_eq!(answer, "");

    for allowed in [
        "SUB mesh.deliver.node.web-1 1\r\n",
        "SUB mesh.deliver.seat.mail mail 2\r\n",
    ] {
        assert_eq!(node.ask(allowed), "", "{allowed}");
    }
    for refused in [
        "SUB mesh.deliver.node.* 3\r\n",
        "SUB > 4\r\n",
        "SUB mesh.deliver.seat.mail 5\r\n",
        "PUB mesh.control.report.web-2 0\r\n\r\n",
    ] {
        let said = node.ask(refused);
        assert!(said.contains("Permissions Violation"), "{refused}: {said}");
    }

    assert_eq!(controller.ask("SUB mesh.control.> 1\r\n"), "");
    assert_eq!(node.ask("PUB mesh.control.report.web-1 2\r\nhi\r\n"), "");
    let heard = controller.line();
    assert!(
        heard.contains("MSG mesh.control.report.web-1 1 "),
        "{heard}"
    );
    // Behind the header a service import puts before it.
    assert!((0..10).any(|_| controller.line() == "hi"));
    controller.send("PUB mesh.deliver.node.web-1 2\r\nok\r\n");
    assert_eq!(node.line(), "MSG mesh.deliver.node.web-1 1 2");
}

#[test]
fn streams_are_in_the_account_that_has_them_alone() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let server = bus.start(binary, BTreeMap::new());
    let everything: [&[&str]; 2] = [&[">"], &[">"]];
    let key = UserKey::generate().unwrap();
    let edge = Bus::credentials(&bus.edge, &bus.edge, &key, everything, ISSUED);
    for (credentials, expected) in [
        (bus.controller(), "\"max_storage\":-1"),
        (edge, "not enabled for account"),
    ] {
        let (mut client, answer) = server.meet(&credentials);
        assert_eq!(answer, "");
        client.send("SUB here 1\r\nPUB $JS.API.INFO here 0\r\n\r\n");
        let head = client.line();
        assert!(head.contains("MSG here 1 "), "{head}");
        let said = client.line();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_side_without_grants_is_closed_by_the_server() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let server = bus.start(binary, BTreeMap::new());
    let key = UserKey::generate().unwrap();
    let (mut nobody, answer) = server.meet(&Bus::credentials(
        &bus.edge,
        &bus.edge,
        &key,
        [&[], &[]],
        ISSUED,
    ));
    assert_eq!(answer, "");
    for refused in ["PUB anything 0\r\n\r\n", "SUB anything 1\r\n"] {
        let said = nobody.ask(refused);
        assert!(said.contains("Permissions Violation"), "{refused}: {said}");
    }
}

#[test]
fn a_revoked_user_returns_only_with_a_later_credential() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let [revoked, other] = [UserKey::generate().unwrap(), UserKey::generate().unwrap()];
    let server = bus.start(binary, BTreeMap::from([(revoked.public(), ISSUED)]));
    for (key, at, is_let_in) in [
        (&revoked, ISSUED, false),
        (&revoked, ISSUED + 1, true),
        (&other, ISSUED, true),
    ] {
        let (_, answer) = server.meet(&bus.node(key, at));
        assert_eq!(answer.is_empty(), is_let_in, "issued at {at}: {answer}");
    }
}

#[test]
fn a_jwt_of_an_unknown_account_or_with_anothers_key_is_refused() {
    let Some(binary) = nats_server() else { return };
    let [bus, other] = [Bus::new(), Bus::new()];
    let server = bus.start(binary, BTreeMap::new());
    let key = UserKey::generate().unwrap();
    let rights: [&[&str]; 2] = [&[">"], &[">"]];
    for (account, signer) in [
        (&other.edge, &other.edge),
        (&bus.edge, &other.edge),
        (&bus.edge, &bus.mesh),
    ] {
        let (_, answer) = server.meet(&Bus::credentials(account, signer, &key, rights, ISSUED));
        assert!(answer.contains("Authorization Violation"), "{answer}");
    }
}

#[test]
fn a_managed_server_knows_a_node_by_its_nkey_behind_the_pinned_ca() {
    let Some(binary) = nats_server() else { return };
    let authority = Authority::generate(UnixTime::now().as_secs()).unwrap();
    let certificate = authority.issue(&[], UnixTime::now().as_secs()).unwrap();
    let [key, stranger] = [UserKey::generate().unwrap(), UserKey::generate().unwrap()];
    let config = format!(
        "tls {{ cert_file: \"chain.pem\", key_file: \"key.pem\" }}\nauthorization {{ users: [ {{ nkey: {} }} ] }}",
        key.public()
    );
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("chain.pem"), &certificate.chain_pem).unwrap();
    std::fs::write(path("key.pem"), certificate.key_pem.expose()).unwrap();
    let config = config
        .replace("chain.pem", &path("chain.pem"))
        .replace("key.pem", &path("key.pem"));
    let server = Server::start(binary, &config);

    let (pinned, ca) = pinned_client_config(authority.fingerprint()).unwrap();
    let meet = |config: &Arc<rustls::ClientConfig>, key: &UserKey| {
        let mut plain = BufReader::with_capacity(1, server.tcp());
        let mut info = String::new();
        plain.read_line(&mut info).unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut client = Client {
            stream: BufReader::new(StreamOwned::new(tls, plain.into_inner())),
        };
        client.introduce(&info, &Credentials::Nkey(key.clone()))
    };
    let pinned = Arc::new(pinned);
    assert_eq!(meet(&pinned, &key), "");
    assert!(meet(&pinned, &stranger).contains("Authorization Violation"));
    let known = Arc::new(ca_client_config(&ca.certificate_pem().unwrap()).unwrap());
    assert_eq!(meet(&known, &key), "");
}
