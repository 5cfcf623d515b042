//! The state directory: the store, and the one file that a backup is.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use mesh_control::Fact;
use mesh_store::{
    Class, EngineKind, FaultGate, Faulty, MarkVerdict, Store, StoreError, StoreId, check_mark,
};
use mesh_wire::Mark;

use crate::cli::Cli;
use crate::config::Config;
use crate::keys::private_dir;
use crate::ledger::{StoreLedger, facts};
use crate::out;

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
    /// Opens the store, or creates it. One that is still held by a controller about to end is waited for.
    pub(crate) async fn open(dir: &Path, engine: EngineKind) -> anyhow::Result<Self> {
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

fn new_id() -> anyhow::Result<StoreId> {
    Ok(StoreId::new(mesh_auth::unique()?))
}

/// Writes everything that is kept into one file.
pub(crate) fn backup(cli: &Cli, to: &Path) -> anyhow::Result<()> {
    let layout = Layout(cli.state_dir());
    let engine = Config::load(cli)?.engine;
    if !layout.store().is_dir() {
        bail!(
            "{} holds no store; is --state-dir right?",
            layout.0.display()
        );
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let store = OpenStore::open(&layout.store(), engine).await?;
        let dump = layout.0.join("backup.dump");
        let summary = store.ledger.export(&dump).await?;
        store.ledger.close().await;
        let written = archive(&layout, &dump, to);
        fs::remove_file(&dump).context("the dump beside the store cannot be removed")?;
        written?;
        out::data(&format!(
            "{}: {} records, keys and certificates\n",
            to.display(),
            summary.records
        ));
        Ok(())
    })
}

/// The parts of a backup besides the dump.
const PARTS: [&str; 2] = ["keys", "tls"];
const DUMP: &str = "store.dump";

fn archive(layout: &Layout, dump: &Path, to: &Path) -> anyhow::Result<()> {
    let what = || format!("backup {} cannot be written", to.display());
    let partial = to.with_extension("partial");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&partial)
        .with_context(what)?;
    let mut tar = tar::Builder::new(&mut file);
    tar.append_path_with_name(dump, DUMP).with_context(what)?;
    for part in PARTS {
        let dir = layout.0.join(part);
        if dir.is_dir() {
            tar.append_dir_all(part, &dir).with_context(what)?;
        }
    }
    tar.finish().with_context(what)?;
    drop(tar);
    file.flush().with_context(what)?;
    file.sync_all().with_context(what)?;
    fs::rename(&partial, to).with_context(what)
}

/// Makes a state directory from a backup.
pub(crate) fn restore(cli: &Cli, from: &Path) -> anyhow::Result<()> {
    let layout = Layout(cli.state_dir());
    let empty = fs::read_dir(&layout.0).map_or(true, |mut entries| entries.next().is_none());
    if !empty {
        bail!(
            "{} is not empty; a backup is restored into a new state directory, name one with --state-dir",
            layout.0.display()
        );
    }
    let engine = Config::load(cli)?.engine;
    private_dir(&layout.0)?;
    let file =
        File::open(from).with_context(|| format!("backup {} cannot be read", from.display()))?;
    let mut tar = tar::Archive::new(file);
    tar.set_preserve_permissions(true);
    tar.unpack(&layout.0)
        .with_context(|| format!("{} is no backup of a controller", from.display()))?;
    let dump = layout.0.join(DUMP);
    // A new identity: what nodes were told after the backup is newer than what it holds, and must look so.
    let summary = mesh_store::import(&dump, &layout.store(), engine, new_id()?)?;
    fs::remove_file(&dump).context("the unpacked dump cannot be removed")?;
    out::data(&format!(
        "{}: {} records, keys and certificates\n",
        layout.0.display(),
        summary.records
    ));
    Ok(())
}
