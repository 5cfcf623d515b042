//! What the runtime is told of its host, and where it keeps what on it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_model::{ModuleName, Timestamp};
use tokio::time::{Instant, sleep};

use crate::record::{self, Record};
use crate::{Logs, Pace, RuntimeError, Tail, proc};

/// What the runtime is told of its host.
#[derive(Clone)]
pub struct HostConfig {
    /// Where it keeps one directory an instance; made if missing, its owner's alone.
    pub dir: PathBuf,
    /// The agent's own environment; of it a process is given `PATH`, `HOME`, `LANG` and `TZ` and nothing else.
    pub base_env: BTreeMap<String, String>,
    /// How long it waits.
    pub pace: Pace,
    /// What tells this host's waits from another's.
    pub seed: u64,
    /// The wall clock.
    pub now: fn() -> Timestamp,
}

/// Without the environment: the agent's own may hold secrets.
impl fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConfig")
            .field("dir", &self.dir)
            .field("pace", &self.pace)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// A host that was looked at: its directory exists and is known by an id.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) config: HostConfig,
    /// What no other directory's processes are marked with.
    id: String,
    /// Which run of the kernel this is.
    pub(crate) boot: String,
}

impl Host {
    /// Takes the directory, making it if it is new. The file is the lock, held until it is dropped.
    pub(crate) async fn take(mut config: HostConfig) -> Result<(Self, File), RuntimeError> {
        make_dir(&config.dir)?;
        let dir = &config.dir;
        config.dir = fs::canonicalize(dir).map_err(|e| RuntimeError::file(dir, "found", e))?;
        let lock = lock(&config.dir.join("runtime.lock")).await?;
        let id = id(&config.dir.join("runtime.id"))?;
        let boot =
            proc::boot().map_err(|e| RuntimeError::file(proc::path(proc::BOOT_ID), "read", e))?;
        Ok((Self { config, id, boot }, lock))
    }

    /// What every start of every instance here is marked with, up to the module.
    pub(crate) fn mark_prefix(&self) -> String {
        format!("{}/", self.id)
    }

    /// What every start of one instance is marked with, up to the start.
    pub(crate) fn marks_of(&self, module: &ModuleName) -> String {
        format!("{}/{module}/", self.id)
    }

    /// A mark for one start of one instance.
    pub(crate) fn new_mark(&self, module: &ModuleName) -> Result<String, RuntimeError> {
        let unique =
            proc::unique().map_err(|e| RuntimeError::file(proc::path(proc::UUID), "read", e))?;
        Ok(format!("{}{unique}", self.marks_of(module)))
    }

    fn instance_dir(&self, module: &ModuleName) -> PathBuf {
        self.config.dir.join(module.as_str())
    }

    fn state_path(&self, module: &ModuleName) -> PathBuf {
        self.instance_dir(module).join("state.json")
    }

    /// The modules that have a directory here. What is no module's name is not the runtime's.
    pub(crate) fn modules(&self) -> Result<Vec<ModuleName>, RuntimeError> {
        let dir = &self.config.dir;
        let entries = fs::read_dir(dir).map_err(|e| RuntimeError::file(dir, "listed", e))?;
        Ok(entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect())
    }

    /// What is written of an instance; nothing when there is no record, or none this version understands.
    pub(crate) fn read(&self, module: &ModuleName) -> Result<Option<Record>, RuntimeError> {
        let path = self.state_path(module);
        match fs::read(&path) {
            Ok(bytes) => Ok(record::decode(&bytes, &self.boot)
                .filter(|record| record.workload.module == *module)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(RuntimeError::file(&path, "read", e)),
        }
    }

    /// Writes what is to be known of an instance whatever happens next; on disk when this returns.
    pub(crate) fn write(&self, record: &Record) -> Result<(), RuntimeError> {
        make_dir(&self.instance_dir(&record.workload.module))?;
        let path = self.state_path(&record.workload.module);
        record::encode(record, &self.boot)
            .and_then(|bytes| write_whole(&path, &bytes))
            .map_err(|e| RuntimeError::file(&path, "written", e))
    }

    /// Forgets an instance. Its log stays: the last words of what was removed are what an operator asks for.
    pub(crate) fn forget(&self, module: &ModuleName) -> Result<(), RuntimeError> {
        let path = self.state_path(module);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(RuntimeError::file(&path, "removed", e))
            }
            _ => Ok(()),
        }
    }

    /// Whether something is written of an instance at all.
    pub(crate) fn is_recorded(&self, module: &ModuleName) -> bool {
        self.state_path(module).exists()
    }

    /// Where the instance works.
    pub(crate) fn files_path(&self, module: &ModuleName) -> PathBuf {
        self.instance_dir(module).join("files")
    }

    /// Where the instance works, made if missing. Not where its record is: what it calls its files is its own affair.
    pub(crate) fn make_files(&self, module: &ModuleName) -> Result<PathBuf, RuntimeError> {
        let path = self.files_path(module);
        make_dir(&path)?;
        Ok(path)
    }

    /// An instance's log, and what was put aside of it.
    pub(crate) fn logs(&self, module: &ModuleName, tail: Tail) -> Result<Logs, RuntimeError> {
        let path = self.log_path(module);
        let aside = path.with_extension("1");
        if !path.exists() && !aside.exists() {
            return Err(RuntimeError::NoLog {
                module: module.clone(),
            });
        }
        Ok(Logs::file(path, aside, tail))
    }

    fn log_path(&self, module: &ModuleName) -> PathBuf {
        self.instance_dir(module).join("log")
    }

    /// Puts the end of a log that grew too long aside as `log.1` and empties it. Whoever writes to it goes on: they
    /// append. What they say between the two steps is lost.
    pub(crate) fn bound_log(&self, module: &ModuleName) -> Result<(), RuntimeError> {
        let path = self.log_path(module);
        if fs::metadata(&path).is_ok_and(|log| log.len() > LOG_LIMIT) {
            put_aside(&path).map_err(|e| RuntimeError::file(&path, "shortened", e))?;
        }
        Ok(())
    }

    /// The instance's log, to append to.
    pub(crate) fn open_log(&self, module: &ModuleName) -> Result<File, RuntimeError> {
        self.bound_log(module)?;
        let path = self.log_path(module);
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| RuntimeError::file(&path, "opened", e))
    }
}

/// Bytes a log may have, and how many of its last are put aside.
const LOG_LIMIT: u64 = 10 * 1024 * 1024;
/// How long the lock of an agent that was killed may still be held: a child inherits it until it becomes its program.
/// That the lock is free therefore says too that whatever that agent started carries its mark.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Makes a directory for its owner alone, and takes from others what they have of one that is there.
fn make_dir(dir: &Path) -> Result<(), RuntimeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| RuntimeError::file(dir, "created", e))?;
    let close = || {
        let mode = fs::metadata(dir)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        }
        Ok(())
    };
    close().map_err(|e| RuntimeError::file(dir, "closed to others", e))
}

/// Empties a log even when its end cannot be kept: on a disk that is full, room is what is needed.
fn put_aside(log: &Path) -> io::Result<()> {
    let mut from = OpenOptions::new().read(true).write(true).open(log)?;
    let mut keep = || {
        let mut to = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(log.with_extension("1"))?;
        let length = from.metadata()?.len();
        from.seek(SeekFrom::Start(length.saturating_sub(LOG_LIMIT)))?;
        io::copy(&mut (&from).take(LOG_LIMIT), &mut to)
    };
    let kept = keep();
    from.set_len(0)?;
    kept.map(drop)
}

async fn lock(path: &Path) -> Result<File, RuntimeError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| RuntimeError::file(path, "opened", e))?;
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                sleep(Duration::from_millis(20)).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(RuntimeError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(e)) => return Err(RuntimeError::file(path, "locked", e)),
        }
    }
}

/// The directory's id, drawn once.
fn id(path: &Path) -> Result<String, RuntimeError> {
    match fs::read_to_string(path) {
        Ok(id) if !id.trim().is_empty() => return Ok(id.trim().to_owned()),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(RuntimeError::file(path, "read", e)),
    }
    let id = proc::unique().map_err(|e| RuntimeError::file(proc::path(proc::UUID), "read", e))?;
    write_whole(path, id.as_bytes()).map_err(|e| RuntimeError::file(path, "written", e))?;
    Ok(id)
}

/// Writes a file so that after a crash it has its old content or its new, and its name is on disk.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let staged = path.with_extension("tmp");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&staged)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&staged, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
