//! The state directory: where things are in it, whether it was begun, and the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use mesh_control::Fact;
use mesh_store::{
    Class, EngineKind, FaultGate, Faulty, MarkVerdict, Store, StoreError, StoreId, check_mark,
};
use mesh_wire::Mark;

use crate::ledger::{StoreLedger, facts};

/// Where things are in a state directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout(pub(crate) PathBuf);

impl Layout {
    /// The store.
    pub(crate) fn store(&self) -> PathBuf {
        self.0.join("store")
    }
    /// Keys.
    pub(crate) fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }
    /// Certificates.
    pub(crate) fn tls(&self) -> PathBuf {
        self.0.join("tls")
    }
    /// The managed bus: its configuration, its log, its streams.
    pub(crate) fn bus(&self) -> PathBuf {
        self.0.join("bus")
    }
    /// The node of a loopback mesh.
    pub(crate) fn local(&self) -> PathBuf {
        self.0.join("local")
    }
    /// The operator's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("controller.sock")
    }
}

/// Whether a state directory was begun before: then what it should hold and does not is lost, and nothing takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is new: keys and store are made.
    Now,
    /// Keys and store must be there.
    Before,
}

impl Layout {
    /// The file that says that keys and store were made.
    fn begun_file(&self) -> PathBuf {
        self.0.join("begun")
    }

    /// Whether keys and store were made here before.
    pub(crate) fn begun(&self) -> anyhow::Result<Begun> {
        let file = self.begun_file();
        let there = file.try_exists();
        let there = there.with_context(|| format!("{} cannot be looked at", file.display()))?;
        Ok(if there { Begun::Before } else { Begun::Now })
    }

    /// Keys and store are made: from now on a missing one is lost, not new.
    pub(crate) fn begin(&self) -> anyhow::Result<()> {
        let text =
            "Keys and store were made here. Without one of them the controller does not start.\n";
        Ok(mesh_auth::keyfile::write_public(&self.begun_file(), text)?)
    }
}

/// An open store with what it held.
#[derive(Debug)]
pub(crate) struct OpenStore {
    /// The store, for the loop.
    pub(crate) ledger: StoreLedger,
    /// What it held.
    pub(crate) facts: Vec<Fact>,
    identity: StoreId,
    commit: u64,
}

/// How long another process may take to let go of the store.
const LOCKED_FOR: Duration = Duration::from_secs(30);

impl OpenStore {
    /// Opens the store, or creates it where none was begun. One that is still held by a controller about to end is waited
    /// for.
    pub(crate) async fn open(dir: &Path, engine: EngineKind, begun: Begun) -> anyhow::Result<Self> {
        if begun == Begun::Before && is_empty(dir) {
            bail!(
                "{} holds no store, although one was made there: mount it, or restore a backup into a new state directory \
                 with `controller restore`; a new mesh begins in a new --state-dir",
                dir.display()
            );
        }
        let gate = Arc::new(FaultGate::default());
        let identity = new_id()?;
        let attempt = || {
            let gate = Arc::clone(&gate);
            Store::open_with(dir, identity, move |dir, absent| {
                let engine = engine.open(dir, absent)?;
                Ok(Box::new(Faulty::new(engine, Arc::clone(&gate))))
            })
        };
        let waiting = tokio::time::Instant::now();
        let (store, opened) = loop {
            match attempt().await {
                Ok(opened) => break opened,
                Err(StoreError::Locked { path }) if waiting.elapsed() < LOCKED_FOR => {
                    tracing::warn!(path = %path.display(), "another process holds the store; waiting for it");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) if error.class() == Class::Stop => {
                    return Err(error).context(
                        "the store is left as it is; restore a backup into a new state directory with `controller restore`",
                    );
                }
                Err(error) => return Err(error.into()),
            }
        };
        let facts = facts(&opened.entries).map_err(anyhow::Error::msg)?;
        Ok(Self {
            ledger: StoreLedger::new(store, opened.identity, gate),
            facts,
            identity: opened.identity,
            commit: opened.commit,
        })
    }

    /// Holds the store against the mark on the bus: whether it goes on where it ended, or refuses to go on at all.
    pub(crate) fn against(&self, mark: Option<Mark>) -> anyhow::Result<mesh_control::Start> {
        let mark = mark.map(|mark| (StoreId::new(mark.store), mark.commit));
        let verdict = check_mark((self.identity, self.commit), mark).refuse_lost().context(
            "the store lost what it had promised to keep; restore the newest backup with `controller restore`",
        )?;
        Ok(match verdict {
            MarkVerdict::Continues => mesh_control::Start::Continued,
            MarkVerdict::Restored | MarkVerdict::Lost { .. } => mesh_control::Start::Restored,
        })
    }
}

/// Whether there is nothing in a directory, or no directory.
pub(crate) fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}

pub(crate) fn new_id() -> anyhow::Result<StoreId> {
    Ok(StoreId::new(mesh_auth::unique()?))
}
