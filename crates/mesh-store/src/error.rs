//! What can go wrong with the store, and what to do about each.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::engine::EngineError;
use crate::record::Refusal;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The outcome is unknown and the handle is dead: reopen with back-off, re-read, let the work come again.
    Retry,
    /// A person must act. Never write, never create the store anew.
    Stop,
    /// These ops can never be stored; the store itself is well.
    RefuseThis,
}

/// Why the store did not do what it was asked. Cloned to everybody whose commit shared the failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The disk or a quota is full.
    #[error("no room left for {path}: {detail}; free some space", path = .path.display())]
    Full {
        /// The store's directory, or the backup file.
        path: PathBuf,
        /// What was refused.
        detail: String,
    },
    /// Reading or writing went wrong.
    #[error("{path} could not be read or written: {detail}; check the disk and its permissions", path = .path.display())]
    Io {
        /// The store's directory, or the backup file.
        path: PathBuf,
        /// What went wrong.
        detail: String,
    },
    /// Somebody else has it open. Worth a retry at start only.
    #[error("the store in {path} is open in another process; stop that one first", path = .path.display())]
    Locked {
        /// The store's directory.
        path: PathBuf,
    },
    /// Bytes on disk are not what was written.
    #[error(
        "the store in {path} is damaged: {detail}; move the directory aside and restore the last backup",
        path = .path.display()
    )]
    Corrupt {
        /// The store's directory.
        path: PathBuf,
        /// Where the damage shows.
        detail: String,
    },
    /// Written by a newer version of this program.
    #[error(
        "the store in {path} has schema {found}, this program knows {ours}; run the newer program",
        path = .path.display()
    )]
    FutureSchema {
        /// The store's directory.
        path: PathBuf,
        /// The schema it was written with.
        found: u32,
        /// The newest one known here.
        ours: u32,
    },
    /// A store, but not one of ours, or not with this engine.
    #[error("{path} does not hold the store asked for: {detail}", path = .path.display())]
    NotOurs {
        /// The store's directory.
        path: PathBuf,
        /// What it holds instead.
        detail: String,
    },
    /// Acknowledged writes are gone.
    #[error(
        "the store is at commit {stored} but had promised {promised}: acknowledged writes are gone; \
         move the directory aside and restore the last backup"
    )]
    Lost {
        /// The store's own commit number.
        stored: u64,
        /// The commit number it had promised.
        promised: u64,
    },
    /// These ops can never be stored.
    #[error("the store does not take this: {0}")]
    Refused(#[from] Refusal),
    /// The store was closed; nothing more is taken. A commit that was under way may or may not be on disk.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// What to do about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Full { .. } | Self::Io { .. } | Self::Locked { .. } => Class::Retry,
            Self::Corrupt { .. }
            | Self::FutureSchema { .. }
            | Self::NotOurs { .. }
            | Self::Lost { .. }
            | Self::Closed => Class::Stop,
            Self::Refused(_) => Class::RefuseThis,
        }
    }

    pub(crate) fn at(path: &Path, error: EngineError) -> Self {
        let path = path.to_owned();
        match error {
            EngineError::Full(detail) => Self::Full { path, detail },
            EngineError::Io(detail) => Self::Io { path, detail },
            EngineError::Locked => Self::Locked { path },
            EngineError::Corrupt(detail) => Self::Corrupt { path, detail },
            EngineError::NotOurs(detail) => Self::NotOurs { path, detail },
        }
    }
}
