//! redb, set up to lose nothing and to notice what was lost to it.
//!
//! Two-phase commit costs one more flush per commit and buys that no damage after a crash is answered with an older
//! state; the integrity check on open costs about half a second per million records and finds every damaged page.

use std::fs;
use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Engine, EngineError, RawOp, Visitor};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("store");
const CACHE_BYTES: usize = 32 << 20;

/// A file is compacted when it is this many times its data ..
const SLACK: u64 = 4;
/// .. and longer than this: below, there is nothing to win.
const SLACK_FLOOR: u64 = 8 << 20;

pub(super) struct RedbEngine {
    database: Database,
}

impl RedbEngine {
    pub(super) fn create(path: &Path) -> Result<Self, EngineError> {
        Ok(Self {
            database: builder().create(path).map_err(judge)?,
        })
    }

    pub(super) fn open(path: &Path) -> Result<Self, EngineError> {
        let mut database = builder().open(path).map_err(judge)?;
        if is_slack(&database, fs::metadata(path)?.len())? {
            database.compact().map_err(judge)?;
        }
        Ok(Self { database })
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder
        .set_cache_size(CACHE_BYTES)
        .set_check_integrity_on_open(true);
    builder
}

fn is_slack(database: &Database, file_bytes: u64) -> Result<bool, EngineError> {
    if file_bytes <= SLACK_FLOOR {
        return Ok(false);
    }
    let transaction = database.begin_write().map_err(judge)?;
    let stats = transaction.stats().map_err(judge)?;
    transaction.abort().map_err(judge)?;
    let data = stats.stored_bytes().saturating_add(stats.metadata_bytes());
    Ok(file_bytes > data.saturating_mul(SLACK))
}

impl Engine for RedbEngine {
    fn apply(&mut self, ops: &[RawOp]) -> Result<(), EngineError> {
        let mut transaction = self.database.begin_write().map_err(judge)?;
        transaction.set_two_phase_commit(true);
        {
            let mut table = transaction.open_table(TABLE).map_err(judge)?;
            for op in ops {
                match op {
                    RawOp::Put { key, value } => table.insert(key.as_slice(), value.as_slice()),
                    RawOp::Remove { key } => table.remove(key.as_slice()),
                }
                .map_err(judge)?;
            }
        }
        transaction.commit().map_err(judge)
    }

    fn scan(&self, each: &mut Visitor<'_>) -> Result<(), EngineError> {
        let transaction = self.database.begin_read().map_err(judge)?;
        let table = transaction.open_table(TABLE).map_err(judge)?;
        for pair in table.iter().map_err(judge)? {
            let (key, value) = pair.map_err(judge)?;
            if each(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.database.close().map_err(judge)
    }
}

fn judge(error: impl Into<redb::Error>) -> EngineError {
    use redb::Error;
    match error.into() {
        Error::Io(error) => EngineError::from(error),
        Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => EngineError::Locked,
        error @ (Error::UpgradeRequired(_)
        | Error::TableTypeMismatch { .. }
        | Error::TableIsMultimap(_)
        | Error::TypeDefinitionChanged { .. }) => EngineError::NotOurs(error.to_string()),
        // A store is born with its table; a poisoned lock is a panic before us.
        error @ (Error::Corrupted(_) | Error::TableDoesNotExist(_) | Error::LockPoisoned(_)) => {
            EngineError::Corrupt(error.to_string())
        }
        error => EngineError::Io(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: u32, length: usize) -> RawOp {
        RawOp::Put {
            key: key.to_be_bytes().to_vec(),
            value: vec![7; length],
        }
    }

    #[test]
    fn a_file_mostly_empty_is_compacted_when_it_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let mut engine = RedbEngine::create(&path).unwrap();
        let many: Vec<RawOp> = (0..200).map(|key| put(key, 100_000)).collect();
        engine.apply(&many).unwrap();
        // What stays is spread over the file, so redb's own trimming of its end does not help.
        let most = (0..200_u32).filter(|key| key % 20 != 19);
        let none: Vec<RawOp> = most
            .map(|key| RawOp::Remove {
                key: key.to_be_bytes().to_vec(),
            })
            .collect();
        engine.apply(&none).unwrap();
        Box::new(engine).close().unwrap();
        let before = fs::metadata(&path).unwrap().len();

        Box::new(RedbEngine::open(&path).unwrap()).close().unwrap();

        let after = fs::metadata(&path).unwrap().len();
        assert!(
            before > 16 << 20 && after < before / 4,
            "{before} bytes before, {after} after"
        );
    }
}
