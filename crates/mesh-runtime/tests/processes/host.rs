//! A directory of instances on this host, whose processes are ended with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_model::{
    ModuleName, ModuleReport, ModuleState, PublicKey, Restart, Run, Sealed, Timestamp, Workload,
};
use mesh_runtime::{Adopted, Desired, HostConfig, Pace, ProcessRuntime, RuntimeError, States};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// Nothing here takes longer unless it is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) struct TestHost(TempDir);

impl TestHost {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.path("instances")
    }

    pub(crate) fn log(&self, module: &str) -> String {
        fs::read_to_string(self.dir().join(module).join("log")).unwrap_or_default()
    }

    pub(crate) async fn try_open(&self) -> Result<(ProcessRuntime, Vec<Adopted>), RuntimeError> {
        ProcessRuntime::open(config(&self.dir())).await
    }

    pub(crate) async fn open(&self) -> ProcessRuntime {
        self.try_open().await.unwrap().0
    }
}

/// Ends what was started here: by pid, and only what carries the mark of this very directory.
impl Drop for TestHost {
    fn drop(&mut self) {
        let Ok(id) = fs::read_to_string(self.dir().join("runtime.id")) else {
            return;
        };
        // Again, because one that is just becoming another program shows no mark.
        for _ in 0..3 {
            for pid in marked(&format!("MESH_INSTANCE={id}/")) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

pub(crate) fn config(dir: &Path) -> HostConfig {
    HostConfig {
        dir: dir.to_owned(),
        base_env: BTreeMap::from([
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("AGENT_SECRET".to_owned(), "swordfish".to_owned()),
        ]),
        pace: Pace {
            first: Duration::from_millis(40),
            longest: Duration::from_millis(160),
            healthy: Duration::from_secs(20),
            settle: Duration::from_millis(60),
            grace: Duration::from_millis(400),
        },
        seed: 1,
        now: || Timestamp::from_millis(1_795_000_000_000),
    }
}

/// Every process whose environment has an entry that begins so.
pub(crate) fn marked(entry: &str) -> Vec<Pid> {
    let mut pids = vec![];
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .filter(|pid| *pid > 0)
            .filter(|number| *number > 0)
            .and_then(Pid::from_raw);
        let environ = fs::read(process.path().join("environ")).unwrap_or_default();
        if let Some(pid) = pid
            && environ
                .split(|byte| *byte == 0)
                .any(|pair| pair.starts_with(entry.as_bytes()))
        {
            pids.push(pid);
        }
    }
    pids
}

/// When a process started, in ticks since boot.
pub(crate) fn start(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1;
    fields.split(' ').nth(19).unwrap().parse().unwrap()
}

/// The state letter of a process; nothing when there is none.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

pub(crate) fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

pub(crate) fn kill(pid: u32) {
    kill_process(
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
}

/// Waits for what nothing announces.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let poll = async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(DEADLINE, poll).await.is_ok(), "never: {what}");
}

/// Waits for a state of one module.
pub(crate) async fn until_state(
    runtime: &ProcessRuntime,
    module: &str,
    mut holds: impl FnMut(&ModuleReport) -> bool,
) -> ModuleReport {
    let mut changes = runtime.changes();
    let module: ModuleName = module.parse().unwrap();
    let waited = timeout(
        DEADLINE,
        changes.wait_for(|states| states.get(&module).is_some_and(&mut holds)),
    )
    .await;
    let Ok(states) = waited else {
        panic!("never; last: {:?}", runtime.states());
    };
    report(&states.unwrap(), module.as_str())
}

pub(crate) fn pid(states: &States, module: &str) -> u32 {
    let report = states.get(&module.parse().unwrap()).unwrap();
    assert_eq!(report.state, ModuleState::Running, "{report:?}");
    report.pid.unwrap()
}

pub(crate) fn report(states: &States, module: &str) -> ModuleReport {
    states.get(&module.parse().unwrap()).unwrap().clone()
}

pub(crate) fn sleeper(module: &str) -> Desired {
    command(module, &["sleep", "300"])
}

pub(crate) fn shell(module: &str, script: &str) -> Desired {
    command(module, &["sh", "-c", script])
}

pub(crate) fn command(module: &str, argv: &[&str]) -> Desired {
    Desired {
        workload: Workload {
            module: module.parse().unwrap(),
            release: "1".to_owned(),
            run: Run::command(argv.iter().map(|word| (*word).to_owned())).unwrap(),
            after: [].into(),
            env: [("LOG".to_owned(), "info".to_owned())].into(),
            restart: Restart::Always,
            key: PublicKey::from_raw([0; 32]),
            credential: Sealed(b"sealed".to_vec()),
            health: None,
            secrets: [].into(),
            pull_secret: None,
            accepts: [].into(),
        },
        extra_env: [("MESH_MODULE".to_owned(), module.to_owned())].into(),
        extra_env_in_container: [].into(),
        handed: PathBuf::new(),
        pull_secret: None,
    }
}

pub(crate) fn with_restart(mut desired: Desired, restart: Restart) -> Desired {
    desired.workload.restart = restart;
    desired
}
