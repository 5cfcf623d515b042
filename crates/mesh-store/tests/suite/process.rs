//! The store in a process of its own: killed at any moment, watched at every sync, refused by its disk.
//!
//! The child is this test binary again, asked for [`the_other_process`] alone. `MESH_STORE_ROUNDS` asks for more kills.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{fs, thread};

use mesh_store::{
    Class, Engine, EngineError, EngineKind, IfAbsent, RawOp, Store, StoreError, Visitor,
};
use tempfile::tempdir;
use tokio::task::JoinSet;

use crate::kit::{self, ID, block_on, last_step, over_each_engine, step};

over_each_engine!(
    nothing_acknowledged_is_lost_when_the_process_is_killed,
    a_process_killed_while_it_creates_a_store_leaves_one_that_opens,
    every_acknowledgement_comes_after_a_sync_of_all_that_was_written,
    a_disk_that_fails_costs_nothing_that_was_acknowledged,
);

/// Longer than anything here takes; a child that says nothing for so long hangs.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn nothing_acknowledged_is_lost_when_the_process_is_killed(kind: EngineKind) {
    let dir = tempdir().unwrap();
    let mut reached = 0;
    for round in 0..rounds(16) {
        // Not a multiple of anything the engine does.
        let (depth, acks) = (1 + round % 2 * 15, 3 + round * 37 % 101);
        let child = Spawned::start("load", kind, dir.path(), |child| {
            child.env("MESH_STORE_DEPTH", depth.to_string());
        });
        let mut acked = reached;
        for _ in 0..acks {
            acked = acked.max(
                child
                    .ack()
                    .expect("the child acknowledges until it is killed"),
            );
        }
        acked = acked.max(child.kill());

        reached = block_on(async {
            let (store, opened) = kit::open(dir.path(), kind).await.unwrap();
            store.close().await;
            last_step(opened.entries)
        });
        assert!(
            acked <= reached,
            "round {round}: {acked} was acknowledged, {reached} is there"
        );
        assert!(
            reached <= acked + depth,
            "round {round}: {reached} is there, but no more than {acked}+{depth} was asked"
        );
    }
}

fn a_process_killed_while_it_creates_a_store_leaves_one_that_opens(kind: EngineKind) {
    // Past the first acknowledgement on a fast disk; spread so that each step of the creation is hit.
    let (rounds, span) = match kind {
        EngineKind::Redb => (rounds(80), 20_000),
        EngineKind::Sled => (rounds(16), 150_000),
    };
    for round in 0..rounds {
        let dir = tempdir().unwrap();
        let child = Spawned::start("load", kind, dir.path(), |_| {});
        child.hear("begin");
        let wait = Duration::from_micros(round * span / rounds);
        let heard = child.lines.recv_timeout(wait);
        assert_ne!(
            heard,
            Err(RecvTimeoutError::Disconnected),
            "the child ended by itself"
        );
        let acked = child.kill();

        let (_, opened) = block_on(kit::open(dir.path(), kind))
            .unwrap_or_else(|error| panic!("{wait:?}: {error}"));
        assert!(acked <= last_step(opened.entries), "killed after {wait:?}");
    }
}

pub(crate) fn every_acknowledgement_comes_after_a_sync_of_all_that_was_written(kind: EngineKind) {
    let dir = tempdir().unwrap();
    let log = watch("load", kind, dir.path());
    assert_eq!(unsynced_acks(&log), Vec::<String>::new());
}

#[test]
fn the_watcher_sees_that_sled_alone_acknowledges_before_it_syncs() {
    let dir = tempdir().unwrap();
    let log = watch("bare sled", EngineKind::Sled, dir.path());
    assert!(unsynced_acks(&log).len() > 10, "{log}");
}

/// Runs a child under the shim until it has acknowledged some, and answers what the shim saw.
fn watch(role: &str, kind: EngineKind, dir: &Path) -> String {
    let (shim, log) = (shim(dir), dir.join("log"));
    let store = dir.join("watched");
    let child = Spawned::start(role, kind, &store, |child| {
        child.env("LD_PRELOAD", shim).env("SHIM_LOG", &log);
    });
    for _ in 0..40 {
        child
            .ack()
            .expect("the child acknowledges until it is killed");
    }
    child.kill();
    let log = fs::read_to_string(log).unwrap();
    assert!(
        log.lines().filter(|line| line.starts_with('A')).count() >= 40,
        "the shim did not see every ack: {log}"
    );
    assert!(
        log.lines().any(|line| line.starts_with('W')),
        "the shim saw no write: {log}"
    );
    log
}

/// What each acknowledgement came too early for: files written and not yet synced, or no sync since the one before.
fn unsynced_acks(log: &str) -> Vec<String> {
    let mut dirty = BTreeSet::new();
    let mut synced = false;
    let mut early = Vec::new();
    for (at, line) in log.lines().enumerate() {
        match line.split_once(' ').unwrap() {
            ("W", path) => drop(dirty.insert(path)),
            ("S", path) => {
                dirty.remove(path);
                synced = true;
            }
            ("A", _) => {
                if !dirty.is_empty() || !synced {
                    early.push(format!(
                        "line {at}: unsynced {dirty:?}, any sync since the last: {synced}"
                    ));
                }
                synced = false;
            }
            _ => panic!("line {at}: {line}"),
        }
    }
    early
}

fn a_disk_that_fails_costs_nothing_that_was_acknowledged(kind: EngineKind) {
    let dir = tempdir().unwrap();
    let shim = shim(dir.path());
    let child = Spawned::start("faulty disk", kind, &dir.path().join("failing"), |child| {
        let log = dir.path().join("log");
        child
            .env("LD_PRELOAD", shim)
            .env("SHIM_LOG", log)
            .env("SHIM_FAULT", dir.path().join("fault"));
    });
    child.succeeds();
}

/// Builds the shim. There is a C compiler wherever Rust links.
fn shim(dir: &Path) -> PathBuf {
    let shim = dir.join("shim.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim.c");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&shim)
        .arg(source)
        .status();
    let built = built.expect("these tests need a C compiler under the name `cc`");
    assert!(built.success(), "cc: {built}");
    shim
}

fn rounds(default: u64) -> u64 {
    setting("MESH_STORE_ROUNDS").map_or(default, |rounds| rounds.parse().unwrap())
}

fn setting(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.into_string().unwrap())
}

/// A child process and what it says on standard error, line by line.
struct Spawned {
    child: Child,
    lines: Receiver<String>,
}

impl Spawned {
    fn start(role: &str, kind: EngineKind, dir: &Path, more: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::the_other_process", "--nocapture"]);
        command
            .env("MESH_STORE_ROLE", role)
            .env("MESH_STORE_ENGINE", kind.to_string())
            .env("MESH_STORE_DIR", dir);
        more(&mut command);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            said.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Waits for the next acknowledgement; none if the child ended.
    fn ack(&self) -> Option<u64> {
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => match acked(&line) {
                    Some(n) => return Some(n),
                    None => eprintln!("child: {line}"),
                },
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("the child hangs"),
            }
        }
    }

    fn hear(&self, word: &str) {
        while self.lines.recv_timeout(DEADLINE).expect("the child speaks") != word {}
    }

    /// Kills it without a warning, and answers the highest step it still acknowledged.
    fn kill(mut self) -> u64 {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines
            .iter()
            .filter_map(|line| acked(&line))
            .max()
            .unwrap_or(0)
    }

    fn succeeds(mut self) {
        while let Some(n) = self.ack() {
            eprintln!("child: ack {n}");
        }
        assert!(self.child.wait().unwrap().success());
    }
}

fn acked(line: &str) -> Option<u64> {
    line.strip_prefix("ack ")?.parse().ok()
}

/// What the child does. Nothing, when it is run as one of the tests.
#[test]
fn the_other_process() {
    let Some(role) = setting("MESH_STORE_ROLE") else {
        return;
    };
    let kind = setting("MESH_STORE_ENGINE").unwrap().parse().unwrap();
    let dir = PathBuf::from(setting("MESH_STORE_DIR").unwrap());
    say("begin");
    block_on(async {
        match role.as_str() {
            "load" => load(Store::open(&dir, kind, ID).await.unwrap()).await,
            "bare sled" => load(Store::open_with(&dir, ID, BareSled::open).await.unwrap()).await,
            "faulty disk" => live_through_faults(&dir, kind).await,
            _ => panic!("{role}"),
        }
    });
}

/// One write, so that the shim sees the line whole and a kill does not tear it.
fn say(line: &str) {
    std::io::stderr()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

/// Commits step after step, several at a time, and says which are acknowledged, for ever.
async fn load((store, opened): (Store, mesh_store::Opened)) {
    let depth = setting("MESH_STORE_DEPTH").map_or(1, |depth| depth.parse().unwrap());
    let mut under_way = JoinSet::new();
    for n in last_step(opened.entries) + 1.. {
        let store = store.clone();
        under_way.spawn(async move {
            store.commit(step(n)).await.unwrap();
            n
        });
        if under_way.len() == depth {
            say(&format!(
                "ack {}",
                under_way.join_next().await.unwrap().unwrap()
            ));
        }
    }
}

async fn live_through_faults(dir: &Path, kind: EngineKind) {
    let prefix = setting("SHIM_FAULT").unwrap();
    for fault in ["enospc", "eio"] {
        let switch = format!("{prefix}.{fault}");
        fs::write(&switch, "").unwrap();
        let error = Store::open(dir, kind, ID).await.unwrap_err();
        assert_eq!(
            error.class(),
            Class::Retry,
            "created during {fault}: {error}"
        );
        fs::remove_file(&switch).unwrap();
    }
    let (store, _) = Store::open(dir, kind, ID).await.unwrap();
    let mut reached = 0;
    for fault in ["enospc", "eio", "enospc"] {
        for _ in 0..5 {
            reached += 1;
            store.commit(step(reached)).await.unwrap();
        }
        let switch = format!("{prefix}.{fault}");
        fs::write(&switch, "").unwrap();
        let error = store.commit(step(reached + 1)).await.unwrap_err();
        assert_eq!(
            matches!(error, StoreError::Full { .. }),
            fault == "enospc",
            "{error}"
        );
        assert_eq!(error.class(), Class::Retry, "{error}");
        if let Err(error) = store.reopen().await {
            assert_eq!(
                error.class(),
                Class::Retry,
                "reopened during {fault}: {error}"
            );
        }
        fs::remove_file(&switch).unwrap();

        let found = last_step(store.reopen().await.unwrap().entries);
        assert!(
            found == reached || found == reached + 1,
            "{fault}: {reached} was acknowledged, {found} is there"
        );
        reached = found;
        say(&format!("ack {reached}"));
    }
    // A backup that has no room is not the store's fault, and leaves nothing behind.
    let (switch, backup) = (format!("{prefix}.enospc"), dir.join("store.backup"));
    fs::write(&switch, "").unwrap();
    let error = store.export(&backup).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Full { path, .. } if *path == backup),
        "{error}"
    );
    fs::remove_file(&switch).unwrap();
    assert!(!fs::exists(dir.join("store.backup.part")).unwrap());
    store.commit(step(reached + 1)).await.unwrap();
    store.close().await;
}

/// sled as its documentation would have it used: `flush` and no more.
struct BareSled(sled::Db);

impl BareSled {
    fn open(dir: &Path, absent: IfAbsent<'_>) -> Result<Box<dyn Engine>, EngineError> {
        let mut engine = Self(
            sled::Config::new()
                .path(dir.join("store.bare"))
                .flush_every_ms(None)
                .open()
                .unwrap(),
        );
        if let IfAbsent::Create(birth) = absent {
            engine.apply(birth)?;
        }
        Ok(Box::new(engine))
    }
}

impl Engine for BareSled {
    fn apply(&mut self, ops: &[RawOp]) -> Result<(), EngineError> {
        let mut batch = sled::Batch::default();
        for op in ops {
            match op {
                RawOp::Put { key, value } => batch.insert(key.as_slice(), value.as_slice()),
                RawOp::Remove { key } => batch.remove(key.as_slice()),
            }
        }
        self.0.apply_batch(batch).unwrap();
        self.0.flush().unwrap();
        Ok(())
    }

    fn scan(&self, each: &mut Visitor<'_>) -> Result<(), EngineError> {
        let broken = self
            .0
            .iter()
            .map(Result::unwrap)
            .try_for_each(|(key, value)| each(&key, &value));
        assert_eq!(broken, ControlFlow::Continue(()));
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        Ok(())
    }
}
