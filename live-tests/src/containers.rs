//! A place for tests of containers: an engine and a registry, and a way between them that can be slow, stalled and cut.

mod host;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, ensure};
use mesh_testkit::engine::{Engine, Kind, Shape};
use mesh_testkit::http::{Answer, Ask, At, ask};
use mesh_testkit::registry::{Auth, Proxy, Pushed, Registry};
use serde_json::{Value, json};

pub use host::{CREDENTIAL, Host, with_login};

/// An engine, and a registry it knows.
#[derive(Debug)]
pub struct Yard {
    /// The engine.
    pub engine: Engine,
    /// The registry, as the tests reach it.
    pub registry: Registry,
    /// Another way to the registry, as an engine takes it that is to be hindered.
    pub way: Proxy,
}

impl Yard {
    /// With the engine that the environment names, or one of its own; nothing when there is none, which was said aloud.
    pub fn open(kind: Kind, auth: Auth) -> anyhow::Result<Option<Self>> {
        if !Engine::is_named()? {
            return Ok(None);
        }
        Self::with(kind, auth, Shape::default(), Engine::find)
    }

    /// With an engine of its own, to stop and start; nothing when there may be none, which was said aloud.
    pub fn own(kind: Kind, auth: Auth, shape: Shape) -> anyhow::Result<Option<Self>> {
        if !Engine::may_start()? {
            return Ok(None);
        }
        let start = |kind, shape: &Shape| Engine::start(kind, shape).map(Some);
        Self::with(kind, auth, shape, start)
    }

    fn with(
        kind: Kind,
        auth: Auth,
        mut shape: Shape,
        engine: impl FnOnce(Kind, &Shape) -> anyhow::Result<Option<Engine>>,
    ) -> anyhow::Result<Option<Self>> {
        let registry = Registry::start(auth)?;
        let way = Proxy::to(registry.at())?;
        shape.registries = vec![registry.at(), way.at()];
        Ok(engine(kind, &shape)?.map(|engine| Self {
            engine,
            registry,
            way,
        }))
    }

    /// Has the engine pull an image, from the registry or by the way to it, and gives all it said.
    pub fn pull(&self, at: SocketAddr, image: &Pushed, password: &str) -> anyhow::Result<Answer> {
        let path = format!("/images/create?fromImage={}", image.tagged(at));
        let login = self.registry.login(password);
        let head = [("x-registry-auth", login.as_str())];
        self.engine.ask_with("POST", &path, None, &head)
    }

    /// Pulls an image and starts a container of it behind the mesh's back, and gives its id.
    pub fn run(&self, name: &str, image: &Pushed, host: &Value) -> anyhow::Result<String> {
        let pulled = self.pull(self.registry.at(), image, Registry::PASSWORD)?;
        let pulled = pulled.ok()?.text();
        ensure!(!pulled.contains("error"), "{pulled}");
        // Docker's engine publishes what is exposed, and an image of tests exposes nothing.
        let made = json!({
            "Image": image.tagged(self.registry.at()), "HostConfig": host, "ExposedPorts": { "80/tcp": {} },
        });
        let path = format!("/containers/create?name={name}");
        let made = self.engine.post(&path, Some(&made))?;
        let id = made.get("Id").and_then(Value::as_str);
        let id = id.context("a container has an id")?.to_owned();
        self.engine.post(&format!("/containers/{id}/start"), None)?;
        Ok(id)
    }

    /// What a container said.
    pub fn says(&self, container: &str) -> anyhow::Result<String> {
        let path = format!("/containers/{container}/logs?stdout=true&stderr=true");
        Ok(self.engine.ask("GET", &path, None)?.ok()?.text())
    }

    /// What the engine knows of each of a module's containers, the mesh's own.
    pub fn of_module(&self, module: &str) -> anyhow::Result<Vec<Value>> {
        let all = self.engine.containers()?.into_iter();
        // One may go between the list and the look.
        let all = all.filter_map(|id| self.engine.container(&id).ok());
        let is = |found: &Value| {
            let labels = found.pointer("/Config/Labels");
            let of = labels.and_then(|labels| labels.get("mesh.module")?.as_str());
            of == Some(module)
        };
        Ok(all.filter(is).collect())
    }

    /// The one container of a module.
    pub fn only(&self, module: &str) -> anyhow::Result<Value> {
        let mut found = self.of_module(module)?;
        ensure!(found.len() == 1, "module {module} has {found:?}");
        found.pop().context("there is one")
    }

    /// Whether a container runs, and since when.
    pub fn runs(&self, container: &str) -> anyhow::Result<(bool, String)> {
        let found = self.engine.container(container)?;
        let state = |key: &str| found.pointer(&format!("/State/{key}"));
        let runs = state("Running").and_then(Value::as_bool);
        let since = state("StartedAt").and_then(Value::as_str);
        let both = runs.zip(since.map(str::to_owned));
        both.with_context(|| format!("no state in {found}"))
    }
}

/// A container's port 80 on a port of loopback, as the engine is told of it.
pub fn published(port: u16) -> Value {
    json!({ "PortBindings": { "80/tcp": [{ "HostIp": "127.0.0.1", "HostPort": port.to_string() }] } })
}

/// A port of loopback that nobody listens on now.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// What is at a path of loopback's port.
pub fn fetch(port: u16, path: &str) -> anyhow::Result<Answer> {
    let at = At::Tcp((Ipv4Addr::LOCALHOST, port).into());
    ask(&at, "GET", path, Ask::default())
}

/// The same, once somebody serves there.
#[expect(
    clippy::disallowed_methods,
    reason = "what runs in a container tells nobody when it serves: it is asked, up to a deadline"
)]
pub fn fetched(port: u16, path: &str) -> anyhow::Result<Answer> {
    for _ in 0..ASKED {
        if let Ok(answer) = fetch(port, path) {
            return Ok(answer);
        }
        std::thread::sleep(ASK_AGAIN);
    }
    fetch(port, path)
}

/// Makes of each function of a kind of engine a test for each kind; with `async:` before them, of functions that are so.
#[macro_export]
macro_rules! on_both_engines {
    (async: $($what:ident),+ $(,)?) => {
        mod docker {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $what() -> ::anyhow::Result<()> { super::$what(::mesh_testkit::engine::Kind::Docker).await })+
        }
        mod podman {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $what() -> ::anyhow::Result<()> { super::$what(::mesh_testkit::engine::Kind::Podman).await })+
        }
    };
    ($($what:ident),+ $(,)?) => {
        mod docker {
            $(#[test]
            fn $what() -> ::anyhow::Result<()> { super::$what(::mesh_testkit::engine::Kind::Docker) })+
        }
        mod podman {
            $(#[test]
            fn $what() -> ::anyhow::Result<()> { super::$what(::mesh_testkit::engine::Kind::Podman) })+
        }
    };
}

const ASKED: u32 = 200;
const ASK_AGAIN: Duration = Duration::from_millis(50);
