//! What the files of an agent say, read beside it: whether it runs or not, and without disturbing it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mesh_control::Remembered;
use mesh_model::{BusKind, ModuleName};
use serde::Deserialize;

use crate::homes::read_place;
use crate::state_dir::{home_path, is_held, memory_path, offered_path, runtime_path};
use crate::{DiskMemory, LoadError, Place, PlaceError};

/// What is known of an agent and its modules from its state directory.
#[derive(Debug)]
pub struct Status {
    /// Whether an agent holds the directory now.
    pub running: bool,
    /// What it would find after a restart.
    pub remembered: Remembered,
    /// Where its bus is, if it has moved since it was enrolled.
    pub moved: Option<BusSeen>,
    /// The bus it was offered.
    pub offered: Option<BusSeen>,
    /// Every module the runtime has a record of, by name. A dry run leaves none.
    pub modules: Vec<ModuleStatus>,
}

/// A bus, as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusSeen {
    /// Which kind.
    pub bus: BusKind,
    /// Where it is.
    pub urls: Vec<String>,
}

impl BusSeen {
    fn of(place: Place) -> Self {
        Self {
            bus: place.bus,
            urls: place.at.urls,
        }
    }
}

/// One module, as its record and `/proc` have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleStatus {
    /// The module.
    pub module: ModuleName,
    /// The release it was started as.
    pub release: String,
    /// What it does.
    pub phase: Phase,
    /// How often it was started again.
    pub restarts: u32,
}

/// What a module does, as far as one can see from beside its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It is being started.
    Starting,
    /// Its process runs.
    Running {
        /// Which.
        pid: u32,
    },
    /// It has no process now.
    Gone,
    /// It ended and is not to be started again.
    Ended {
        /// How.
        reason: String,
    },
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The host does not let something be read.
    #[error("{} cannot be read; is this the agent's own user?", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// What is remembered.
    #[error(transparent)]
    Memory(#[from] LoadError),
    /// Where its bus is.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

impl Status {
    /// Reads a state directory.
    pub fn read(dir: &Path) -> Result<Self, StatusError> {
        let unreadable = |path: &Path, source| StatusError::Unreadable {
            path: path.to_owned(),
            source,
        };
        Ok(Self {
            running: is_held(dir).map_err(|error| unreadable(dir, error))?,
            remembered: DiskMemory::new(memory_path(dir)).load()?,
            moved: read_place(&home_path(dir), None)?.map(BusSeen::of),
            offered: read_place(&offered_path(dir), None)?.map(BusSeen::of),
            modules: modules(&runtime_path(dir))
                .map_err(|error| unreadable(&runtime_path(dir), error))?,
        })
    }
}

/// As much of the runtime's record of an instance as is shown, in every version that was ever written; the rest is the
/// runtime's own. One of a later version is not guessed at.
#[derive(Deserialize)]
#[serde(tag = "version")]
enum Record {
    #[serde(rename = "1")]
    V1 {
        module: ModuleName,
        release: String,
        restarts: u32,
        phase: RecordPhase,
    },
    #[serde(rename = "2")]
    V2 {
        workload: RecordWorkload,
        restarts: u32,
        phase: RecordPhase,
    },
}

#[derive(Deserialize)]
struct RecordWorkload {
    module: ModuleName,
    release: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecordPhase {
    Starting {},
    Running { pid: u32, start: u64, boot: String },
    Gone,
    Ended { reason: String },
}

fn modules(dir: &Path) -> io::Result<Vec<ModuleStatus>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let boot = fs::read_to_string(BOOT_ID)?;
    let mut modules = Vec::new();
    for entry in entries {
        let path = entry?.path().join("state.json");
        let Ok(bytes) = fs::read(&path) else { continue };
        match serde_json::from_slice::<Record>(&bytes) {
            Ok(record) => modules.push(record.into_status(boot.trim())),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a record is not understood");
            }
        }
    }
    modules.sort_by(|a, b| a.module.cmp(&b.module));
    Ok(modules)
}

impl Record {
    fn into_status(self, boot: &str) -> ModuleStatus {
        let (workload, restarts, phase) = match self {
            Self::V1 {
                module,
                release,
                restarts,
                phase,
            } => (RecordWorkload { module, release }, restarts, phase),
            Self::V2 {
                workload,
                restarts,
                phase,
            } => (workload, restarts, phase),
        };
        ModuleStatus {
            module: workload.module,
            release: workload.release,
            restarts,
            phase: match phase {
                RecordPhase::Starting {} => Phase::Starting,
                // A number is used again; a number and when it began are not.
                RecordPhase::Running {
                    pid,
                    start,
                    boot: then,
                } => {
                    if then == boot && started_at(pid) == Some(start) {
                        Phase::Running { pid }
                    } else {
                        Phase::Gone
                    }
                }
                RecordPhase::Gone => Phase::Gone,
                RecordPhase::Ended { reason } => Phase::Ended { reason },
            },
        }
    }
}

/// When a process began, in ticks since boot; nothing when it has ended (`proc_pid_stat(5)`, fields 3 and 22).
fn started_at(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may hold any of either.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(start)
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[cfg(test)]
mod tests {
    use mesh_model::{PublicKey, Restart, Run, Sealed, Workload};
    use mesh_runtime::{Desired, HostConfig, Pace, ProcessRuntime};

    use super::*;

    fn sleeper() -> Desired {
        Desired {
            workload: Workload {
                module: "sleeper".parse().unwrap(),
                release: "7".to_owned(),
                run: Run::command(["sleep".to_owned(), "600".to_owned()]).unwrap(),
                after: [].into(),
                env: [].into(),
                restart: Restart::Always,
                key: PublicKey::from_raw([0; 32]),
                credential: Sealed(vec![]),
                health: None,
                secrets: [].into(),
                pull_secret: None,
                accepts: [].into(),
            },
            extra_env: [].into(),
            extra_env_in_container: [].into(),
            handed: PathBuf::new(),
            pull_secret: None,
        }
    }

    #[test]
    fn an_empty_directory_has_no_agent_and_no_modules() {
        let dir = tempfile::tempdir().unwrap();
        let status = Status::read(dir.path()).unwrap();
        assert!(!status.running && status.modules.is_empty());
        assert_eq!((status.moved, status.offered), (None, None));
        assert_eq!(status.remembered, Remembered::default());
    }

    /// As the runtime keeps a sample of each version.
    #[test]
    fn every_version_of_a_record_is_read_and_what_is_none_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let place = |of: &str, text: &str| {
            let of = dir.path().join(of);
            fs::create_dir(&of).unwrap();
            fs::write(of.join("state.json"), text).unwrap();
        };
        let (one, two) = (
            include_str!("../../mesh-runtime/src/record/v1.json"),
            include_str!("../../mesh-runtime/src/record/v2.json"),
        );
        place("a", one);
        place("b", two);
        place(
            "later",
            &two.replace(r#""version": "2""#, r#""version": "3""#),
        );
        place("unmarked", &one.replace(r#""version": "1","#, ""));
        place(
            "mixed",
            &one.replace(r#""version": "1""#, r#""version": "2""#),
        );
        let seen = modules(dir.path()).unwrap();
        let mailer = ModuleStatus {
            module: "mailer".parse().unwrap(),
            release: "1.4.0".to_owned(),
            // Its process is of another run of the kernel.
            phase: Phase::Gone,
            restarts: 2,
        };
        assert_eq!(seen, [mailer.clone(), mailer]);
    }

    /// Against the runtime itself, whose records these are.
    #[tokio::test]
    async fn a_running_module_is_seen_from_beside_and_gone_when_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, _) = ProcessRuntime::open(HostConfig {
            dir: runtime_path(dir.path()),
            base_env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            pace: Pace::default(),
            seed: 7,
            now: mesh_host::now,
        })
        .await
        .unwrap();
        let states = runtime.apply(vec![sleeper()]).await.unwrap();
        let pid = states[&"sleeper".parse().unwrap()].pid.unwrap();
        let [seen] = modules(&runtime_path(dir.path()))
            .unwrap()
            .try_into()
            .unwrap();
        assert_eq!(seen.phase, Phase::Running { pid });
        assert_eq!((seen.release.as_str(), seen.restarts), ("7", 0));

        let state = runtime_path(dir.path()).join("sleeper/state.json");
        let record = fs::read(&state).unwrap();
        runtime.stop_all().await.unwrap();
        assert!(modules(&runtime_path(dir.path())).unwrap().is_empty());
        // As after a crash of the host between the end and the writing of it.
        fs::write(&state, record).unwrap();
        let [seen] = modules(&runtime_path(dir.path()))
            .unwrap()
            .try_into()
            .unwrap();
        assert_eq!(seen.phase, Phase::Gone);
    }
}
