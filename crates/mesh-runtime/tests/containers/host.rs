//! A host over an engine that plays along.

use std::time::Duration;

use mesh_model::{
    Container, ModuleName, ModuleReport, ModuleState, PublicKey, Restart, Run, Sealed, Timestamp,
    Workload,
};
use mesh_runtime::{
    ContainersConfig, Desired, EngineChoice, HostConfig, HostRuntime, Pace, States,
};
use tokio::time::timeout;

use crate::engine::Engine;

/// Nothing here takes longer unless it is broken.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long the engine has to answer.
pub(crate) const ANSWERS: Duration = Duration::from_millis(700);
/// How long a pull may stand still.
pub(crate) const STALL: Duration = Duration::from_millis(400);

pub(crate) struct Host {
    pub(crate) runtime: HostRuntime,
}

impl Host {
    pub(crate) async fn open(engine: &Engine) -> Self {
        Self::choosing(engine, EngineChoice::Socket(engine.socket())).await
    }

    pub(crate) async fn choosing(engine: &Engine, choice: EngineChoice) -> Self {
        let pace = Pace {
            first: Duration::from_millis(40),
            longest: Duration::from_millis(160),
            healthy: Duration::from_secs(20),
            settle: Duration::from_millis(60),
            grace: Duration::from_millis(400),
        };
        let now = || Timestamp::from_millis(1_795_000_000_000);
        let processes = HostConfig {
            dir: engine.dir().join("instances"),
            base_env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            pace,
            seed: 1,
            now,
        };
        let containers = ContainersConfig {
            engine: choice,
            owner: "me".to_owned(),
            dir: engine.dir().join("containers"),
            stall: STALL,
            deadline: ANSWERS,
            sweep: Duration::from_millis(100),
            pace,
            seed: 1,
            now,
        };
        let (runtime, _) = HostRuntime::open(processes, containers).await.unwrap();
        Self { runtime }
    }

    pub(crate) async fn apply(&self, desired: impl IntoIterator<Item = Desired>) -> States {
        let applied = self.runtime.apply(desired.into_iter().collect());
        timeout(DEADLINE, applied)
            .await
            .expect("applied in time")
            .unwrap()
    }

    /// Waits for a state of one module.
    pub(crate) async fn until(
        &self,
        module: &str,
        holds: impl Fn(&ModuleReport) -> bool,
    ) -> ModuleReport {
        let mut changes = self.runtime.changes();
        let module: ModuleName = module.parse().unwrap();
        let waited = timeout(
            DEADLINE,
            changes.wait_for(|states| states.get(&module).is_some_and(&holds)),
        );
        let Ok(states) = waited.await else {
            panic!("never; last: {:?}", self.runtime.states());
        };
        states.unwrap()[&module].clone()
    }

    pub(crate) async fn runs(&self, module: &str) -> ModuleReport {
        self.until(module, |it| {
            it.state == ModuleState::Running && it.reason.is_none()
        })
        .await
    }

    pub(crate) async fn says(&self, module: &str, text: &str) -> ModuleReport {
        self.until(module, |it| {
            it.reason
                .as_deref()
                .is_some_and(|reason| reason.contains(text))
        })
        .await
    }
}

/// Waits for what nothing announces.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let poll = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(DEADLINE, poll).await.is_ok(), "never: {what}");
}

pub(crate) fn wants(module: &str, release: &str, image: &str) -> Desired {
    Desired {
        workload: Workload {
            module: module.parse().unwrap(),
            release: release.to_owned(),
            run: Run::Image(Box::new(Container::new(image.parse().unwrap()))),
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
        extra_env_in_container: [("MESH_MODULE".to_owned(), module.to_owned())].into(),
        handed: "/handed".into(),
        pull_secret: None,
    }
}

pub(crate) fn sleeper(module: &str) -> Desired {
    let mut desired = wants(module, "1", "unused");
    desired.workload.run = Run::command(["sleep".to_owned(), "300".to_owned()]).unwrap();
    desired
}

pub(crate) fn change(desired: &mut Desired, change: impl FnOnce(&mut Container)) {
    let Run::Image(container) = &mut desired.workload.run else {
        panic!("a container");
    };
    change(container);
}
