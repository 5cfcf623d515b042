//! A container engine of the tests' own: Docker's or Podman, with its own folder, network and processes, all of it ended
//! with whoever started it.

mod settings;
mod start;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;

use crate::http::{self, Answer, Ask, At};
use start::Running;

/// Names the socket of an engine for tests alone, or is `own`: then each test starts its own.
pub const DOCKER: &str = "MESH_TEST_DOCKER";
/// Has tests start their own.
pub const OWN: &str = "own";

/// Whose engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Docker's.
    Docker,
    /// Podman's service, which speaks as Docker's does.
    Podman,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Docker, Self::Podman];

    /// What has to be installed for one of a test's own: the program, and the package of Debian with it.
    pub const fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Docker => &[
                ("dockerd", "docker.io"),
                ("containerd", "containerd"),
                ("runc", "runc"),
                ("ip", "iproute2"),
                ("unshare", "util-linux"),
                ("bash", "bash"),
            ],
            Self::Podman => &[
                ("podman", "podman"),
                ("conmon", "conmon"),
                ("runc", "runc"),
                ("netavark", "netavark"),
                ("iptables", "iptables"),
                ("ip", "iproute2"),
                ("unshare", "util-linux"),
                ("bash", "bash"),
            ],
        }
    }

    /// What of it is not installed.
    pub fn missing(self) -> Vec<&'static str> {
        let absent = |program: &&str| crate::program::found(program).is_none();
        let needs = self.needs().iter();
        needs
            .filter(|(program, _)| absent(program))
            .map(|(_, package)| *package)
            .collect()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        })
    }
}

/// How an engine of the tests' own is made.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// The registries it speaks to without TLS. Docker's does so with all on loopback.
    pub registries: Vec<SocketAddr>,
    /// Keeps images and containers on a disk of so many MiB, which can be filled.
    pub disk_mib: Option<u32>,
    /// Whether containers live on while Docker's engine is stopped or killed. Podman's always do.
    pub live_restore: bool,
}

/// An engine that is really there.
#[derive(Debug)]
pub struct Engine {
    kind: Kind,
    at: At,
    socket: PathBuf,
    /// Only of one that was started here.
    running: Option<Running>,
}

impl Engine {
    /// The one that the environment names, if it is of this kind, or else one of its own. Without the variable there is
    /// none, which is said aloud and in CI an error.
    pub fn find(kind: Kind, shape: &Shape) -> anyhow::Result<Option<Self>> {
        let Some(named) = std::env::var_os(DOCKER) else {
            return none(&format!("{DOCKER} is not set"));
        };
        if named == OWN {
            return Self::start(kind, shape).map(Some);
        }
        let engine = Self::named(PathBuf::from(&named))
            .with_context(|| format!("{DOCKER}={}", named.display()))?;
        if engine.kind == kind {
            return Ok(Some(engine));
        }
        none(&format!("{DOCKER} names no {kind}"))
    }

    /// Whether the environment says anything of engines; that it does not is said aloud and in CI an error.
    pub fn is_named() -> anyhow::Result<bool> {
        if std::env::var_os(DOCKER).is_some() {
            return Ok(true);
        }
        none(&format!("{DOCKER} is not set")).map(|_| false)
    }

    /// Whether a test may start one of its own, to stop and start it as it wants; that it may not is said aloud and in CI an
    /// error. It may not where the environment names an engine that somebody runs.
    pub fn may_start() -> anyhow::Result<bool> {
        if !Self::is_named()? {
            return Ok(false);
        }
        if std::env::var_os(DOCKER).is_some_and(|named| named == OWN) {
            return Ok(true);
        }
        let missing = format!("{DOCKER} names an engine, and a test has none to stop and start");
        none(&missing).map(|_| false)
    }

    /// Starts one of its own, whatever the environment says.
    pub fn start(kind: Kind, shape: &Shape) -> anyhow::Result<Self> {
        let missing = kind.missing();
        ensure!(
            missing.is_empty(),
            "these packages are not installed: {}; `cargo xtask setup` installs them",
            missing.join(" ")
        );
        let running = Running::start(kind, shape)?;
        let socket = running.socket();
        let engine = Self {
            kind,
            at: At::Unix(socket.clone()),
            socket,
            running: Some(running),
        };
        engine.start_again()?;
        Ok(engine)
    }

    fn named(socket: PathBuf) -> anyhow::Result<Self> {
        let mut engine = Self {
            kind: Kind::Docker,
            at: At::Unix(socket.clone()),
            socket,
            running: None,
        };
        let version = engine.get("/version")?.to_string();
        if version.contains("Podman Engine") {
            engine.kind = Kind::Podman;
        }
        Ok(engine)
    }

    /// Whose it is.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its socket, as a client is told of it.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Reads what is at a path of its API.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.ask("GET", path, None)?;
        answer
            .ok()
            .and_then(|it| it.json())
            .with_context(|| format!("GET {path}"))
    }

    /// Sends a document, or nothing, expects it to be taken, and gives the answer, if that is a document too.
    pub fn post(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let answer = self.ask("POST", path, body)?.ok();
        let answer = answer.with_context(|| format!("POST {path}"))?;
        Ok(answer.json().unwrap_or_default())
    }

    /// Asks, whatever the answer, by the oldest version of the API that is of interest: Debian 12's engines speak it.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        self.ask_with(method, path, body, &[])
    }

    /// The same, with lines of the head besides.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        head: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let json = [("content-type", "application/json")];
        let ask = Ask {
            head: &[&json, head].concat(),
            body: body.as_bytes(),
        };
        http::ask(&self.at, method, &format!("/v1.41{path}"), ask)
    }

    /// Reads what is at a path of Podman's own API.
    pub fn libpod(&self, path: &str) -> anyhow::Result<Value> {
        let path = format!("/v4.0.0/libpod{path}");
        let answer = http::ask(&self.at, "GET", &path, Ask::default())?.ok();
        answer
            .and_then(|it| it.json())
            .with_context(|| format!("GET {path}"))
    }

    /// What the engine knows of a container, by id or name.
    pub fn container(&self, container: &str) -> anyhow::Result<Value> {
        self.get(&format!("/containers/{container}/json"))
    }

    /// The ids of all containers it has, those that ended included.
    pub fn containers(&self) -> anyhow::Result<Vec<String>> {
        let all = self.get("/containers/json?all=true")?;
        let all = all.as_array().context("containers are a list")?;
        let ids = all.iter().map(|one| one.get("Id").and_then(Value::as_str));
        ids.map(|id| id.map(str::to_owned).context("a container has an id"))
            .collect()
    }

    /// What it said since it was made.
    pub fn log(&self) -> String {
        self.running.as_ref().map(Running::log).unwrap_or_default()
    }

    /// Asks it to end, and waits until it has. Docker's ends its containers first, unless they are to live on.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.own_process()?.tell("stop")
    }

    /// Ends it without a word, as a crash would. Its containers run on.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.own_process()?.tell("kill")
    }

    /// Starts it again after it ended, with what it had on disk and where it was, and waits until it serves.
    pub fn start_again(&self) -> anyhow::Result<()> {
        let running = self.own_process()?;
        running.tell("start")?;
        running.wait(|| self.get("/containers/json").map(drop))
    }

    /// Leaves no room on its disk.
    pub fn fill_disk(&self) -> anyhow::Result<()> {
        self.own_process()?.tell("fill")
    }

    /// Gives the room back.
    pub fn free_disk(&self) -> anyhow::Result<()> {
        self.own_process()?.tell("free")
    }

    fn own_process(&self) -> anyhow::Result<&Running> {
        let running = self.running.as_ref();
        running.ok_or_else(|| anyhow!("the engine is somebody else's"))
    }
}

fn none(missing: &str) -> anyhow::Result<Option<Engine>> {
    if crate::in_ci() {
        bail!("{missing}, and in CI every live test runs");
    }
    said_aloud(missing);
    Ok(None)
}

#[expect(
    clippy::print_stderr,
    reason = "a live test that does not run says so aloud"
)]
fn said_aloud(missing: &str) {
    eprintln!("did not run: {missing}");
}
