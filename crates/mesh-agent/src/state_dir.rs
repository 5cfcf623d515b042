//! The directory of an agent's state: where things are in it, and that one agent has it at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_model::BusKind;
use tokio::time::{Instant, sleep};

use crate::HandedFiles;

/// A state directory that is held: no other agent has it until this is dropped.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

/// Why a state directory was not taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeStateDirError {
    /// Two agents on one directory would start everything twice.
    #[error(
        "{} is held by another agent of this host; end that one first, or give this one a `state_dir` of its own",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The host refused a step.
    #[error("{} could not be {step}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done to it.
        step: &'static str,
        /// What the host said.
        source: io::Error,
    },
}

impl StateDir {
    /// Takes the directory; made if missing, for its owner alone.
    pub async fn take(path: &Path) -> Result<Self, TakeStateDirError> {
        let refused = |path: &Path, step, source| TakeStateDirError::Io {
            path: path.to_owned(),
            step,
            source,
        };
        make_private(path).map_err(|error| refused(path, "created", error))?;
        let lock = lock_path(path);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock)
            .map_err(|error| refused(&lock, "opened", error))?;
        let until = Instant::now() + WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(AGAIN).await,
                Err(TryLockError::WouldBlock) => {
                    return Err(TakeStateDirError::InUse {
                        path: path.to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(refused(&lock, "locked", error)),
            }
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: file,
        })
    }

    /// Where the newest declaration and the reports not yet sent are.
    pub fn memory(&self) -> PathBuf {
        memory_path(&self.path)
    }

    /// Where the files modules are handed are.
    pub fn handed(&self) -> HandedFiles {
        HandedFiles::of_state(&self.path)
    }

    /// Where the runtime keeps its own.
    pub fn runtime(&self) -> PathBuf {
        runtime_path(&self.path)
    }

    /// Where the runtime keeps counts of its containers, and which engine it found.
    pub fn containers(&self) -> PathBuf {
        containers_path(&self.path)
    }
}

/// Whether an agent holds the directory now.
pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
    let file = match OpenOptions::new().write(true).open(lock_path(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Where a state directory's memory is.
pub(crate) fn memory_path(dir: &Path) -> PathBuf {
    dir.join("remembered.json")
}

/// Where it is said where a node that moved has its bus.
pub(crate) fn home_path(dir: &Path) -> PathBuf {
    dir.join("bus.json")
}

/// The same of a bus it was offered.
pub(crate) fn offered_path(dir: &Path) -> PathBuf {
    dir.join("bus.offered.json")
}

/// Who vouches for a bus of this kind, once the node was offered it.
pub(crate) fn authority_path(dir: &Path, bus: BusKind) -> PathBuf {
    dir.join(format!("ca.{bus}.pem"))
}

/// Where a state directory's runtime keeps its own.
pub(crate) fn runtime_path(dir: &Path) -> PathBuf {
    dir.join("runtime")
}

pub(crate) fn containers_path(dir: &Path) -> PathBuf {
    dir.join("containers")
}

/// Makes a directory, and what is missing above it, for its owner alone; takes from others what they have of one that
/// is there.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn lock_path(dir: &Path) -> PathBuf {
    dir.join("agent.lock")
}

/// An agent that was killed may leave its lock, for a moment, to a child that has not yet become its program; and who
/// asks whether it is held holds it for as long as that takes.
const WAIT: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_agent_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = StateDir::take(&state).await.unwrap();
        assert!(is_held(&state).unwrap());
        let error = StateDir::take(&state).await.unwrap_err();
        assert!(
            error.to_string().contains("held by another agent"),
            "{error}"
        );
        drop(first);
        assert!(!is_held(&state).unwrap());
        StateDir::take(&state).await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_others_have_access_to_is_closed_to_them() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let _state = StateDir::take(dir.path()).await.unwrap();
        let mode = fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
    }
}
