//! An engine of a test's own: containers, images and volumes in memory, behind a socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::http::{Request, answer, begin};
use crate::world::reply;

/// What it does instead of, or besides, what it is asked.
#[derive(Clone)]
pub(crate) enum Quirk {
    /// Does it, and answers nothing.
    Lose,
    /// Does it, and answers late.
    Late(Duration),
    /// Answers nothing, and does nothing, until it is told otherwise.
    Hang,
    /// Refuses.
    Refuse(u16, &'static str),
    /// The container is gone before it is asked about it.
    Vanish,
    /// Knows of no container.
    Blind,
}

#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) body: Value,
    pub(crate) state: &'static str,
    pub(crate) code: i64,
    pub(crate) image: String,
    pub(crate) starts: u32,
    pub(crate) ended: u32,
    pub(crate) born: u32,
}

/// A step of a pull.
#[derive(Clone)]
pub(crate) enum Part {
    Line(Value),
    Pause(Duration),
    Hang,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) containers: Vec<Made>,
    /// What containers said: by id, when in seconds, and what.
    pub(crate) said: Vec<(String, u64, String)>,
    /// By name, the labels.
    pub(crate) volumes: BTreeMap<String, Value>,
    /// By reference, the digest.
    pub(crate) images: BTreeMap<String, String>,
    /// What a registry has: by reference, how it comes and the digest it then has.
    pub(crate) registry: BTreeMap<String, (Vec<Part>, Option<String>)>,
    /// For a method and a part of a path, what is done, so many times.
    pub(crate) quirks: Vec<(&'static str, &'static str, Quirk, u32)>,
    /// By image, what a container of it ends with at once.
    pub(crate) crashes: BTreeMap<String, i64>,
    pub(crate) root: PathBuf,
    /// Every request, in order.
    pub(crate) asked: Vec<String>,
    /// What was said of registries' passwords.
    pub(crate) logins: Vec<String>,
    /// How long a removal takes.
    pub(crate) removal: Duration,
    pub(crate) next: u32,
}

pub(crate) struct Engine {
    dir: tempfile::TempDir,
    world: Arc<Mutex<World>>,
    changed: watch::Sender<u64>,
    tasks: JoinSet<()>,
}

impl Engine {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = Self {
            world: Arc::default(),
            changed: watch::Sender::new(0),
            tasks: JoinSet::new(),
            dir,
        };
        engine.serve();
        engine
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("engine.sock")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Listens, and goes on with what it has.
    pub(crate) fn serve(&mut self) {
        drop(std::fs::remove_file(self.socket()));
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (world, changed) = (Arc::clone(&self.world), self.changed.clone());
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (world, changed) = (Arc::clone(&world), changed.clone());
                // Who asked may be gone.
                connections.spawn(async move { drop(serve(stream, &world, &changed).await) });
            }
        });
    }

    /// Is gone, with every connection; what runs goes on.
    pub(crate) async fn away(&mut self) {
        self.tasks.shutdown().await;
        drop(std::fs::remove_file(self.socket()));
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Does something behind the agent's back.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let done = change(&mut self.world());
        self.changed.send_modify(|n| *n += 1);
        done
    }

    pub(crate) fn quirk(&self, method: &'static str, path: &'static str, quirk: Quirk, times: u32) {
        self.change(|world| world.quirks.push((method, path, quirk, times)));
    }

    /// How often something was asked for.
    pub(crate) fn asked(&self, what: &str) -> usize {
        self.world()
            .asked
            .iter()
            .filter(|asked| asked.contains(what))
            .count()
    }

    /// The containers of a module.
    pub(crate) fn of(&self, module: &str) -> Vec<Made> {
        let of = |made: &&Made| made.body["Labels"]["mesh.module"] == module;
        self.world().containers.iter().filter(of).cloned().collect()
    }

    pub(crate) fn only(&self, module: &str) -> Made {
        let mut found = self.of(module);
        assert_eq!(found.len(), 1, "containers of {module}");
        found.pop().unwrap()
    }

    /// Puts an image there, as one that was fetched before.
    pub(crate) fn has_image(&self, reference: &str) -> String {
        let digest = digest(reference);
        self.change(|world| world.images.insert(reference.to_owned(), digest.clone()));
        digest
    }

    /// Has a registry deliver an image in these steps.
    pub(crate) fn delivers(&self, reference: &str, parts: Vec<Part>) -> String {
        let digest = digest(reference);
        self.change(|world| {
            let delivered = (parts, Some(digest.clone()));
            world.registry.insert(reference.to_owned(), delivered)
        });
        digest
    }
}

/// A container that somebody made behind everybody's back.
pub(crate) fn made(nth: usize, name: &str, body: &Value) -> Option<Made> {
    let born = u32::try_from(nth).ok()?;
    Some(Made {
        id: format!("f{nth:063x}"),
        name: name.to_owned(),
        body: body.clone(),
        state: "created",
        code: 0,
        image: "shop:1".to_owned(),
        starts: 0,
        ended: 0,
        born,
    })
}

/// The digest an image has here.
pub(crate) fn digest(reference: &str) -> String {
    let byte: u8 = reference
        .bytes()
        .fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    format!("sha256:{}", format!("{byte:02x}").repeat(32))
}

pub(crate) fn message(text: &str) -> Value {
    json!({ "message": text })
}

async fn serve(
    mut stream: UnixStream,
    world: &Arc<Mutex<World>>,
    changed: &watch::Sender<u64>,
) -> std::io::Result<()> {
    let Some(request) = Request::read(&mut stream).await? else {
        return Ok(());
    };
    let slow = world.lock().unwrap().removal;
    let what = format!("{} {}", request.method, request.path);
    let quirk = {
        let mut world = world.lock().unwrap();
        world.asked.push(what.clone());
        let found = world.quirks.iter_mut().find(|(method, path, _, left)| {
            *left > 0 && request.method == *method && request.path.contains(path)
        });
        found.map(|(_, _, quirk, left)| {
            *left -= 1;
            quirk.clone()
        })
    };
    match &quirk {
        Some(Quirk::Hang) => std::future::pending().await,
        Some(Quirk::Refuse(status, text)) => {
            return answer(&mut stream, *status, &message(text)).await;
        }
        Some(Quirk::Blind) => return answer(&mut stream, 200, &json!([])).await,
        Some(Quirk::Vanish) => {
            let key = request.path.split('/').nth(2).unwrap_or_default();
            world
                .lock()
                .unwrap()
                .containers
                .retain(|made| made.id != key);
        }
        _ => {}
    }
    if request.path.ends_with("/wait") {
        return wait(stream, &request, world, changed).await;
    }
    if request.path.ends_with("/logs") {
        return crate::logs::serve(stream, &request, world, changed).await;
    }
    if request.path == "/images/create" {
        return pull(stream, &request, world).await;
    }
    if request.method == "DELETE" && !slow.is_zero() {
        let key = request.path.split('/').nth(2).unwrap_or_default();
        if let Some(made) = world.lock().unwrap().made(key) {
            made.state = "removing";
        }
        sleep(slow).await;
    }
    let (status, body) = reply(&request, &mut world.lock().unwrap());
    changed.send_modify(|n| *n += 1);
    match quirk {
        Some(Quirk::Lose) => Ok(()),
        Some(Quirk::Late(late)) => {
            sleep(late).await;
            answer(&mut stream, status, &body).await
        }
        _ => answer(&mut stream, status, &body).await,
    }
}

async fn wait(
    mut stream: UnixStream,
    request: &Request,
    world: &Arc<Mutex<World>>,
    changed: &watch::Sender<u64>,
) -> std::io::Result<()> {
    let key = request.path.split('/').nth(2).unwrap().to_owned();
    let mut changes = changed.subscribe();
    begin(&mut stream).await?;
    loop {
        let code = match world.lock().unwrap().made(&key) {
            Some(made) if made.state != "exited" => None,
            made => Some(made.map_or(0, |made| made.code)),
        };
        if let Some(code) = code {
            return stream
                .write_all(format!("{{\"StatusCode\":{code}}}\n").as_bytes())
                .await;
        }
        if changes.changed().await.is_err() {
            return Ok(());
        }
    }
}

async fn pull(
    mut stream: UnixStream,
    request: &Request,
    world: &Arc<Mutex<World>>,
) -> std::io::Result<()> {
    let (name, tag) = (
        request.asked("fromImage").unwrap(),
        request.asked("tag").unwrap(),
    );
    let sign = if tag.contains(':') { '@' } else { ':' };
    let reference = format!("{name}{sign}{tag}");
    let found = {
        let mut world = world.lock().unwrap();
        if let Some(login) = crate::http::header(&request.head, "x-registry-auth") {
            world.logins.push(login.to_owned());
        }
        world.registry.get(&reference).cloned()
    };
    let Some((parts, digest)) = found else {
        let text =
            format!("manifest for {reference} not found: manifest unknown: manifest unknown");
        return answer(&mut stream, 404, &message(&text)).await;
    };
    begin(&mut stream).await?;
    for part in parts {
        match part {
            Part::Line(line) => stream.write_all(format!("{line}\r\n").as_bytes()).await?,
            Part::Pause(pause) => sleep(pause).await,
            Part::Hang => std::future::pending().await,
        }
    }
    if let Some(digest) = digest {
        world.lock().unwrap().images.insert(reference, digest);
    }
    Ok(())
}
