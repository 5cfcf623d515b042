//! sled 0.34, hardened: its own `flush` never makes anything durable on Linux.
//!
//! `flush` ends in `sync_file_range`, so each commit adds an `fdatasync` of the log. Large segments keep every value
//! inside the log: past a quarter of a segment sled would write one file each, never synced. What cannot be mended
//! from outside: after damage to its file sled may open with an older state and say nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use sled::{Batch, Db};

use super::{Engine, EngineError, RawOp, Visitor};

const CACHE_BYTES: u64 = 32 << 20;
/// Fixed for the life of a store.
const SEGMENT_BYTES: usize = 16 << 20;

const LOG: &str = "db";
const CONFIG: &str = "conf";

/// How often, and how long apart, a lock that should be free already is tried: two seconds in all.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

pub(super) struct SledEngine {
    database: Db,
    log: File,
    log_path: PathBuf,
}

impl SledEngine {
    pub(super) fn create(path: &Path) -> Result<Self, EngineError> {
        Self::start(path)
    }

    /// Opens what is there: sled itself would make a new log or configuration in place of a missing one.
    pub(super) fn open(path: &Path) -> Result<Self, EngineError> {
        for file in [LOG, CONFIG] {
            if !path.join(file).try_exists()? {
                return Err(EngineError::Corrupt(format!(
                    "{} has no `{file}`",
                    path.display()
                )));
            }
        }
        wait_unlocked(&path.join(LOG))?;
        Self::start(path)
    }

    fn start(path: &Path) -> Result<Self, EngineError> {
        let database = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            .segment_size(SEGMENT_BYTES)
            .flush_every_ms(None)
            .open()
            .map_err(judge)?;
        let log_path = path.join(LOG);
        let log = OpenOptions::new().read(true).write(true).open(&log_path)?;
        Ok(Self {
            database,
            log,
            log_path,
        })
    }
}

/// A dropped database gives up its lock only when its last background thread ends, of which it says nothing.
fn wait_unlocked(log: &Path) -> Result<(), EngineError> {
    let file = OpenOptions::new().read(true).write(true).open(log)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file.unlock()?),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "nothing tells when sled's threads have let go"
                )]
                thread::sleep(LOCK_PAUSE);
            }
        }
    }
    Err(EngineError::Locked)
}

impl Engine for SledEngine {
    fn apply(&mut self, ops: &[RawOp]) -> Result<(), EngineError> {
        let mut batch = Batch::default();
        for op in ops {
            match op {
                RawOp::Put { key, value } => batch.insert(key.as_slice(), value.as_slice()),
                RawOp::Remove { key } => batch.remove(key.as_slice()),
            }
        }
        self.database.apply_batch(batch).map_err(judge)?;
        self.database.flush().map_err(judge)?;
        Ok(self.log.sync_data()?)
    }

    fn scan(&self, each: &mut Visitor<'_>) -> Result<(), EngineError> {
        for pair in &*self.database {
            let (key, value) = pair.map_err(judge)?;
            if each(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        let Self {
            database,
            log,
            log_path,
        } = *self;
        database.flush().map_err(judge)?;
        log.sync_data()?;
        drop(database);
        wait_unlocked(&log_path)
    }
}

fn judge(error: sled::Error) -> EngineError {
    match error {
        // The lock's error has no kind of its own.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            EngineError::Locked
        }
        sled::Error::Io(error) => EngineError::from(error),
        error @ sled::Error::Unsupported(_) => EngineError::NotOurs(error.to_string()),
        error @ (sled::Error::Corruption { .. }
        | sled::Error::ReportableBug(_)
        | sled::Error::CollectionNotFound(_)) => EngineError::Corrupt(error.to_string()),
    }
}
