//! What keeps bytes on disk: the trait, and which ones there are.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

pub mod faulty;
pub(crate) mod files;
pub(crate) mod guard;
mod redb;
mod sled;

/// One change as an engine takes it: the value is already sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawOp {
    /// Store `value` under `key`, in place of what was there.
    Put {
        /// Where.
        key: Vec<u8>,
        /// The sealed bytes.
        value: Vec<u8>,
    },
    /// Forget what is under `key`, if anything is.
    Remove {
        /// Where.
        key: Vec<u8>,
    },
}

/// Whoever looks at the pairs of a scan, one by one, until it breaks.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A blocking, ordered map of bytes that outlives the process.
///
/// After any error the engine is not used again: it is dropped and opened anew.
pub trait Engine: Send {
    /// Carries out all of `ops` in order, or none; they are on disk when it returns. An error means *outcome unknown*.
    fn apply(&mut self, ops: &[RawOp]) -> Result<(), EngineError>;

    /// Hands every pair to `each` in key order, until it breaks.
    fn scan(&self, each: &mut Visitor<'_>) -> Result<(), EngineError>;

    /// Closes it; the file may be opened again when this returns.
    fn close(self: Box<Self>) -> Result<(), EngineError>;
}

/// Why an engine could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// The disk or a quota is full.
    #[error("no room left: {0}")]
    Full(String),
    /// Reading or writing went wrong.
    #[error("{0}")]
    Io(String),
    /// Somebody else has it open.
    #[error("open elsewhere")]
    Locked,
    /// Bytes on disk are not what was written.
    #[error("damaged: {0}")]
    Corrupt(String),
    /// A store, but not one this engine reads.
    #[error("not a store of this engine: {0}")]
    NotOurs(String),
}

impl From<io::Error> for EngineError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full(error.to_string()),
            // How redb says that a file is none of its own, or ends too early.
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Self::Corrupt(error.to_string())
            }
            _ => Self::Io(error.to_string()),
        }
    }
}

/// What to do where no store is.
#[derive(Clone, Copy, Debug)]
pub enum IfAbsent<'a> {
    /// Say that it is gone: it was there before.
    Refuse,
    /// Create one that holds these ops from its first moment.
    Create(&'a [RawOp]),
}

/// Which engine keeps the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The default: two-phase commit, every page checked when opened.
    #[default]
    Redb,
    /// Hardened here to be safe in a power cut, but blind to some damage to its files.
    Sled,
}

impl EngineKind {
    /// Every engine there is.
    pub const ALL: [Self; 2] = [Self::Redb, Self::Sled];

    /// Opens this engine's store in `dir`.
    ///
    /// A store comes into being whole: made beside its place, then renamed, so a process killed half way leaves either
    /// none or one that opens. The caller makes sure nobody else works in `dir`.
    pub fn open(self, dir: &Path, absent: IfAbsent<'_>) -> Result<Box<dyn Engine>, EngineError> {
        self.refuse_others(dir)?;
        let path = self.path(dir);
        match absent {
            _ if path.try_exists()? => {}
            IfAbsent::Refuse => {
                return Err(EngineError::Corrupt(format!("{} is gone", path.display())));
            }
            IfAbsent::Create(birth) => self.create(dir, |engine| engine.apply(birth))?,
        }
        self.open_at(&path)
    }

    /// Makes a new store in `dir`, filled by `fill`; it is there only once all of it is.
    pub(crate) fn create<T, E: From<EngineError>>(
        self,
        dir: &Path,
        fill: impl FnOnce(&mut dyn Engine) -> Result<T, E>,
    ) -> Result<T, E> {
        let staged = self.staged(dir);
        files::remove(&staged).map_err(EngineError::from)?;
        let mut engine = guard::guard(|| self.make_at(&staged))?;
        let filled = match guard::guard(|| fill(engine.as_mut())) {
            Ok(filled) => filled,
            Err(error) => {
                guard::put_down(engine);
                return Err(error);
            }
        };
        guard::guard(|| engine.close())?;
        files::sync_tree(&staged).map_err(EngineError::from)?;
        files::rename(&staged, &self.path(dir)).map_err(EngineError::from)?;
        Ok(filled)
    }

    /// Whether any engine's store is in `dir`.
    pub(crate) fn find(dir: &Path) -> Result<Option<Self>, EngineError> {
        for kind in Self::ALL {
            if kind.path(dir).try_exists()? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    // Another engine's store would otherwise be passed over in silence for a new, empty one.
    fn refuse_others(self, dir: &Path) -> Result<(), EngineError> {
        match Self::find(dir)? {
            Some(found) if found != self => Err(EngineError::NotOurs(format!(
                "it holds a {found} store, and {self} was asked for; ask for {found}, or back up and restore into {self}"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("store.{self}"))
    }

    fn staged(self, dir: &Path) -> PathBuf {
        dir.join(format!("store.{self}.new"))
    }

    fn open_at(self, path: &Path) -> Result<Box<dyn Engine>, EngineError> {
        Ok(match self {
            Self::Redb => Box::new(redb::RedbEngine::open(path)?),
            Self::Sled => Box::new(sled::SledEngine::open(path)?),
        })
    }

    fn make_at(self, path: &Path) -> Result<Box<dyn Engine>, EngineError> {
        Ok(match self {
            Self::Redb => Box::new(redb::RedbEngine::create(path)?),
            Self::Sled => Box::new(sled::SledEngine::create(path)?),
        })
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redb => "redb",
            Self::Sled => "sled",
        })
    }
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| UnknownEngine(text.to_owned()))
    }
}

/// A name no engine has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no store engine `{0}`; there are `redb` and `sled`")]
pub struct UnknownEngine(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_name_is_read_as_it_is_shown() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "rocks".parse::<EngineKind>(),
            Err(UnknownEngine("rocks".to_owned()))
        );
    }

    #[test]
    fn an_io_error_is_judged_by_its_kind() {
        let judged = |kind| EngineError::from(io::Error::from(kind));
        assert!(matches!(
            judged(io::ErrorKind::StorageFull),
            EngineError::Full(_)
        ));
        assert!(matches!(
            judged(io::ErrorKind::QuotaExceeded),
            EngineError::Full(_)
        ));
        assert!(matches!(
            judged(io::ErrorKind::InvalidData),
            EngineError::Corrupt(_)
        ));
        assert!(matches!(
            judged(io::ErrorKind::UnexpectedEof),
            EngineError::Corrupt(_)
        ));
        assert!(matches!(
            judged(io::ErrorKind::PermissionDenied),
            EngineError::Io(_)
        ));
    }
}
