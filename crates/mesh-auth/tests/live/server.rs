//! A NATS server of a test's own, and a client that speaks as much of its protocol as is needed.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use data_encoding::BASE64URL_NOPAD;
use mesh_auth::creds::Credentials;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary; nothing when nobody says where it is, which is said aloud and fails the test in CI.
pub(crate) fn nats_server() -> Option<PathBuf> {
    let binary = std::env::var_os("MESH_TEST_NATS").map(PathBuf::from);
    let in_ci = std::env::var_os("CI").is_some();
    assert!(
        may_run(binary.is_some(), in_ci),
        "{NOT_SET}, and in CI every live test runs"
    );
    if binary.is_none() {
        eprintln!("did not run: {NOT_SET}");
    }
    binary
}

/// Whether a test that has its server or not may go on, be it by saying that it did not run.
const fn may_run(has_server: bool, in_ci: bool) -> bool {
    has_server || !in_ci
}

const NOT_SET: &str = "MESH_TEST_NATS names no nats-server";

/// A server on a port of its own, ended with the value.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// The end its log is read from must stay for as long as it writes, and its folder.
    log: BufReader<ChildStderr>,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start(binary: PathBuf, config: &str) -> Self {
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

    pub(crate) fn tcp(&self) -> TcpStream {
        let tcp = TcpStream::connect(self.address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        tcp
    }

    /// A client, and what the server answered to its credentials: `PONG` or an error.
    pub(crate) fn meet(&self, credentials: &Credentials) -> (Client<TcpStream>, String) {
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
pub(crate) struct Client<S> {
    pub(crate) stream: BufReader<S>,
}

impl<S: Read + Write> Client<S> {
    /// The next line, but for the news of itself a server may send at any time.
    pub(crate) fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            if !line.starts_with("INFO ") {
                return line.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
        self.stream.get_mut().flush().unwrap();
    }

    /// What the server says before it answers a ping sent behind `text`, or before it hangs up.
    pub(crate) fn ask(&mut self, text: &str) -> String {
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

    pub(crate) fn introduce(&mut self, info: &str, credentials: &Credentials) -> String {
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

#[test]
fn only_outside_of_ci_may_a_live_test_not_run() {
    assert!(may_run(true, true) && may_run(true, false) && may_run(false, false));
    assert!(!may_run(false, true));
}
