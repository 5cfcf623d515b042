//! The backup file: the same for every engine, so it is also the way from one engine to another.
//!
//! `STORDMP1`, then per record `[length u32 LE][crc32 LE][postcard (raw key, sealed value)]`, then a trailer
//! `[u32::MAX LE][records u64 LE][crc32 LE of all the crc32s]` and nothing after it.

use std::path::PathBuf;

use thiserror::Error;

use crate::engine::EngineKind;
use crate::error::StoreError;
use crate::meta::StoreId;

mod export;
mod import;

pub(crate) use export::{ExportError, export};
pub use import::import;

const MAGIC: &[u8; 8] = b"STORDMP1";
const TRAILER: u32 = u32::MAX;

/// What went into a backup file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportSummary {
    /// How many records, the store's own three included.
    pub records: u64,
    /// How long the file is, in bytes.
    pub bytes: u64,
    /// Which store it was taken from.
    pub identity: StoreId,
    /// Its commit number at that moment.
    pub commit: u64,
}

/// What came out of a backup file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportSummary {
    /// How many records, the store's own three included.
    pub records: u64,
    /// Which store the backup was taken from.
    pub from: StoreId,
    /// The commit number the new store starts at: that of the backup.
    pub commit: u64,
}

/// Why a backup was not restored. Nothing is left behind in the store's place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("the backup {path} cannot be read: {detail}", path = .path.display())]
    Unreadable {
        /// The backup file.
        path: PathBuf,
        /// What went wrong.
        detail: String,
    },
    /// The file is not what was written.
    #[error("the backup {path} is damaged: {detail}; use another one", path = .path.display())]
    Damaged {
        /// The backup file.
        path: PathBuf,
        /// Where the damage shows.
        detail: String,
    },
    /// The backup was taken by a newer version of this program.
    #[error("the backup {path} has schema {found}, this program knows {ours}; run the newer program", path = .path.display())]
    FutureSchema {
        /// The backup file.
        path: PathBuf,
        /// The schema it was written with.
        found: u32,
        /// The newest one known here.
        ours: u32,
    },
    /// There is a store already.
    #[error("{path} holds a {found} store already; restore into an empty directory", path = .path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// The engine of the store in it.
        found: EngineKind,
    },
    /// The new store could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
