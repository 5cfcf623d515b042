//! The runtime as an agent of a host has it, over the engine of a test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use mesh_model::{
    Container, HandedSecret, ModuleName, ModuleReport, ModuleState, PublicKey, Restart, Run,
    Sealed, Workload,
};
use mesh_runtime::{
    ContainersConfig, Desired, EngineChoice, HostConfig, HostRuntime, Pace, PullSecret,
};

use super::Yard;
use crate::patience::within;

/// A host whose modules are containers. What it made ends with its engine.
#[derive(Debug)]
pub struct Host {
    runtime: HostRuntime,
    socket: PathBuf,
    dir: tempfile::TempDir,
}

impl Host {
    /// One on which nothing runs yet.
    pub async fn open(yard: &Yard) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let socket = yard.engine.socket().to_owned();
        let runtime = runtime(dir.path(), &socket).await?;
        Ok(Self {
            runtime,
            socket,
            dir,
        })
    }

    /// Has another agent take over: this one is gone without a word, and the next finds what runs.
    pub async fn reopen(self) -> anyhow::Result<Self> {
        let Self {
            runtime: former,
            socket,
            dir,
        } = self;
        drop(former);
        let runtime = runtime(dir.path(), &socket).await?;
        Ok(Self {
            runtime,
            socket,
            dir,
        })
    }

    /// The runtime.
    pub const fn runtime(&self) -> &HostRuntime {
        &self.runtime
    }

    /// A module that is to be a container of an image, otherwise as `change` has it.
    pub fn wants(
        &self,
        module: &str,
        release: &str,
        image: &str,
        change: impl FnOnce(&mut Workload, &mut Container),
    ) -> anyhow::Result<Desired> {
        let handed = self.dir.path().join("handed").join(module);
        std::fs::create_dir_all(&handed)?;
        std::fs::write(handed.join("creds"), CREDENTIAL)?;
        let mut container = Container::new(image.parse()?);
        let mut workload = Workload {
            module: module.parse()?,
            release: release.to_owned(),
            run: Run::Image(Box::new(container.clone())),
            after: [].into(),
            env: [].into(),
            restart: Restart::Always,
            key: PublicKey::from_raw([1; 32]),
            credential: Sealed(b"sealed".to_vec()),
            health: None,
            secrets: [].into(),
            pull_secret: None,
            accepts: [].into(),
        };
        change(&mut workload, &mut container);
        workload.run = Run::Image(Box::new(container));
        let told = [("MESH_MODULE", module), ("MESH_CREDS", "/run/mesh/creds")];
        let told: BTreeMap<String, String> = told
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        Ok(Desired {
            workload,
            extra_env: told.clone(),
            extra_env_in_container: told,
            handed,
            pull_secret: None,
        })
    }

    /// Has it run exactly this, and waits until all of it was tried.
    pub async fn apply(&self, desired: Vec<Desired>) -> anyhow::Result<()> {
        let applied = within(DEADLINE, "it is tried", self.runtime.apply(desired)).await;
        applied.with_context(|| format!("last: {:?}", self.runtime.states()))??;
        Ok(())
    }

    /// Waits until a module is so, and gives its report then.
    pub async fn until(
        &self,
        module: &str,
        what: &str,
        is: impl Fn(&ModuleReport) -> bool,
    ) -> anyhow::Result<ModuleReport> {
        let module: ModuleName = module.parse()?;
        let mut changes = self.runtime.changes();
        let coming = changes.wait_for(|states| states.get(&module).is_some_and(&is));
        let states = within(DEADLINE, what, coming).await;
        let states = states.with_context(|| format!("last: {:?}", self.runtime.states()))??;
        let found = states.get(&module).cloned();
        found.ok_or_else(|| anyhow!("{module} is gone"))
    }

    /// Waits until a module runs, and nothing is said against it.
    pub async fn runs(&self, module: &str) -> anyhow::Result<ModuleReport> {
        let good =
            |report: &ModuleReport| report.state == ModuleState::Running && report.reason.is_none();
        self.until(module, &format!("{module} runs"), good).await
    }

    /// Waits until the reason of a module says one of these, whatever its state.
    pub async fn says(&self, module: &str, texts: &[&str]) -> anyhow::Result<ModuleReport> {
        let says = |report: &ModuleReport| {
            let reason = report.reason.as_deref().unwrap_or_default();
            texts.iter().any(|text| reason.contains(text))
        };
        self.until(module, &format!("{module} says one of {texts:?}"), says)
            .await
    }
}

/// Gives what is wanted a login for its registry.
pub fn with_login(mut desired: Desired, login: &str) -> anyhow::Result<Desired> {
    if let Run::Image(container) = &mut desired.workload.run {
        container.pull_secret = Some("REGISTRY".parse()?);
    }
    desired.workload.pull_secret = Some(HandedSecret {
        // Another value is another version.
        version: u64::try_from(login.len())?,
        sealed: Sealed(b"sealed".to_vec()),
    });
    desired.pull_secret = Some(PullSecret::new(login.as_bytes().to_vec()));
    Ok(desired)
}

/// What a container is handed as its credential.
pub const CREDENTIAL: &str = "of-this-module-alone";

async fn runtime(dir: &Path, socket: &Path) -> anyhow::Result<HostRuntime> {
    let host = HostConfig {
        dir: dir.join("instances"),
        base_env: [].into(),
        pace: PACE,
        seed: 7,
        now: mesh_host::now,
    };
    let containers = ContainersConfig {
        engine: EngineChoice::Socket(socket.to_owned()),
        owner: dir.display().to_string(),
        dir: dir.join("containers"),
        stall: STALL,
        deadline: Duration::from_secs(30),
        sweep: Duration::from_millis(500),
        pace: PACE,
        seed: 7,
        now: mesh_host::now,
    };
    let (runtime, _adopted) = HostRuntime::open(host, containers).await?;
    Ok(runtime)
}

/// Quick, so that what is tried again is so within a test.
const PACE: Pace = Pace {
    first: Duration::from_millis(200),
    longest: Duration::from_secs(1),
    healthy: Duration::from_secs(20),
    settle: Duration::from_millis(400),
    grace: Duration::from_secs(2),
};
/// How long a pull may stand still.
const STALL: Duration = Duration::from_secs(4);
/// Longer than anything an engine does by itself before it says so.
const DEADLINE: Duration = Duration::from_mins(1);
