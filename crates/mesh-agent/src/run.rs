//! The agent itself: everything it needs is opened, and its loop runs until it is told to stop.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mesh_auth::creds::{Credentials, CredentialsFileError};
use mesh_auth::keyfile::{KeyFileError, read_secret};
use mesh_auth::keys::{BoxKey, KeyTextError, SigningPublic};
use mesh_auth::sign;
use mesh_bus::{AgentLoop, AgentParts, NodeBus, Verifier, answer_asks};
use mesh_control::AgentSettings;
use mesh_model::{BusPlace, NodeName};
use mesh_runtime::{DryRun, HostConfig, HostRuntime, Pace, Runtime, RuntimeError};
use tokio::sync::watch;

use crate::memory::with_causes;
use crate::{
    AgentConfig, ContainerSettings, Dial, DialError, DiskMemory, Homes, HomesParts, HostDial,
    HostWorkloads, LoadError, Place, PlaceError, PlaceFiles, RuntimeKind, StateDir, Surroundings,
    TakeStateDirError, container_owner,
};

/// What an agent needs besides a bus.
#[derive(Debug)]
pub struct AgentHost {
    /// The node.
    pub node: NodeName,
    /// Knows the controller's signature.
    pub verifier: Verifier,
    /// Between two signs of life.
    pub heartbeat: Duration,
    /// How modules are run.
    pub runtime: RuntimeKind,
    /// How those are that are containers.
    pub containers: ContainerSettings,
    /// What containers are labelled with, as [`container_owner`](crate::container_owner) gives it.
    pub owner: String,
    /// Where things are kept.
    pub state: StateDir,
    /// What modules are told.
    pub surroundings: Surroundings,
}

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunAgentError {
    /// Its directory.
    #[error(transparent)]
    State(#[from] TakeStateDirError),
    /// Its credential.
    #[error(transparent)]
    Credential(#[from] CredentialsFileError),
    /// The file of the key secrets are sealed to.
    #[error(transparent)]
    BoxKeyFile(#[from] KeyFileError),
    /// The key secrets are sealed to.
    #[error("{} holds no key; replace this host with `meshctl node rejoin`", path.display())]
    BoxKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyTextError,
    },
    /// The file of the certificate authority.
    #[error("the certificate authority {} cannot be read; copy ca.pem from another node", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// Where its bus is, since it moved.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] LoadError),
    /// Its runtime.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Its bus, in a way that no waiting mends.
    #[error(transparent)]
    Bus(#[from] DialError),
}

/// Runs the agent of this configuration until `stop` is ready; what it started goes on running. A bus that is away stops
/// nothing: what was last declared runs, and the bus is tried for ever.
pub async fn run(
    config: AgentConfig,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunAgentError> {
    let dial = HostDial {
        node: config.node.clone(),
        session: mesh_host::now().as_millis(),
        seed: mesh_host::seed(),
    };
    run_by(dial, config, stop).await
}

/// The same, whichever way buses are connected to.
pub(crate) async fn run_by<D: Dial>(
    dial: D,
    config: AgentConfig,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunAgentError> {
    let state = StateDir::take(&config.state_dir).await?;
    let box_key = read_box_key(&config)?;
    let files = PlaceFiles::new(&config.state_dir, &box_key);
    let kept = files.load()?;
    let (home, ca) = match kept.home {
        Some(home) => {
            tracing::info!(
                bus = %home.bus,
                urls = ?home.at.urls,
                "this node has moved: its bus is the one of bus.json, and not the one of agent.toml"
            );
            if let Err(error) = files.put_authority(&home) {
                tracing::error!(
                    error = with_causes(&error),
                    "modules may not find who vouches for the bus"
                );
            }
            let ca = files.authority(&home);
            (home, ca)
        }
        None => (configured(&config)?, config.ca.clone()),
    };
    let (told, surroundings) = watch::channel(Surroundings {
        node: config.node.clone(),
        urls: home.at.urls.clone(),
        ca,
        bus: home.at.facts.clone(),
        box_key: box_key.clone(),
        handed: state.handed(),
    });
    let homes = Homes::open(HomesParts {
        dial,
        node: config.node.clone(),
        box_key,
        files,
        home,
        offered: kept.offered,
        surroundings: told,
    });
    let host = AgentHost {
        verifier: verifier(config.controller.clone()),
        heartbeat: config.heartbeat,
        runtime: config.runtime,
        owner: container_owner(&config.controller, &config.node),
        containers: config.containers,
        surroundings: surroundings.borrow().clone(),
        node: config.node.clone(),
        state,
    };
    let homes = Box::pin(homes).await?;
    run_told(homes, host, surroundings, stop).await
}

/// The bus of the configuration.
fn configured(config: &AgentConfig) -> Result<Place, RunAgentError> {
    Ok(Place {
        bus: config.kind(),
        at: BusPlace {
            urls: config.urls.clone(),
            ca: read_ca(config)?,
            facts: config.bus.clone(),
        },
        credentials: Credentials::read(&config.credential)?,
    })
}

/// Runs an agent over any bus until `stop` is ready; what it started goes on running.
pub async fn run_over<B: NodeBus>(
    bus: B,
    host: AgentHost,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunAgentError> {
    let (_told, surroundings) = watch::channel(host.surroundings.clone());
    run_told(bus, host, surroundings, stop).await
}

async fn run_told<B: NodeBus>(
    bus: B,
    host: AgentHost,
    surroundings: watch::Receiver<Surroundings>,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunAgentError> {
    let memory = DiskMemory::new(host.state.memory());
    let remembered = memory.load_or_set_aside()?;
    let runtime = open_runtime(&host).await?;
    let session = mesh_host::now().as_millis();
    let mut settings = AgentSettings::new(host.node.clone(), session);
    settings.heartbeat = u64::try_from(host.heartbeat.as_millis()).unwrap_or(u64::MAX);
    let generation = remembered.declaration.as_ref().map(|d| d.generation);
    tracing::info!(
        node = %host.node,
        generation = generation.map(tracing::field::display),
        "the agent runs"
    );
    let (bus, workloads) = (Arc::new(bus), HostWorkloads::new(runtime, surroundings));
    let answering = answer_asks(
        Arc::clone(&bus),
        workloads.logs(),
        host.node.clone(),
        host.verifier.clone(),
        mesh_host::now,
    );
    let agent = AgentLoop::new(AgentParts {
        bus,
        workloads,
        memory,
        remembered,
        settings,
        verifier: host.verifier,
        clock: mesh_host::now,
    });
    tokio::select! {
        () = agent.run(stop) => {}
        () = answering => {}
    }
    tracing::info!(node = %host.node, "the agent stops; what it started goes on running");
    Ok(())
}

/// What knows the signatures of a controller.
pub fn verifier(controller: SigningPublic) -> Verifier {
    Verifier::new(move |message, signature| sign::verify(&controller, message, signature).is_ok())
}

async fn open_runtime(host: &AgentHost) -> Result<Runtime, RuntimeError> {
    match host.runtime {
        RuntimeKind::DryRun => Ok(Runtime::DryRun(DryRun::new())),
        RuntimeKind::Process => {
            let processes = HostConfig {
                dir: host.state.runtime(),
                base_env: mesh_host::base_env(),
                pace: Pace::default(),
                seed: mesh_host::seed(),
                now: mesh_host::now,
            };
            let (owner, dir) = (host.owner.clone(), host.state.containers());
            let containers = host.containers.config(owner, dir, &processes);
            let (runtime, adopted) = HostRuntime::open(processes, containers).await?;
            for found in adopted {
                tracing::info!(module = %found.module, release = found.release, pid = found.pid, "still runs");
            }
            Ok(Runtime::Host(Box::new(runtime)))
        }
    }
}

fn read_box_key(config: &AgentConfig) -> Result<BoxKey, RunAgentError> {
    let seed = read_secret(&config.box_key)?;
    BoxKey::from_seed(seed.expose().trim()).map_err(|source| RunAgentError::BoxKey {
        path: config.box_key.clone(),
        source,
    })
}

fn read_ca(config: &AgentConfig) -> Result<Option<String>, RunAgentError> {
    let Some(path) = &config.ca else {
        return Ok(None);
    };
    let read = fs::read_to_string(path).map_err(|source| RunAgentError::CaFile {
        path: path.clone(),
        source,
    });
    read.map(Some)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mesh_auth::keys::{SigningKey, UserKey};
    use mesh_auth::seal::seal;
    use mesh_bus::Memory;
    use mesh_bus::loopback::Loopback;
    use mesh_control::Remembered;
    use mesh_model::{
        BusFacts, Declaration, Generation, PublicKey, Restart, Run, Sealed, Workload,
    };

    use super::*;
    use crate::{Engine, Phase, Status};

    fn facts() -> BusFacts {
        BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        }
    }

    async fn host(dir: &Path, box_key: &BoxKey) -> AgentHost {
        let state = StateDir::take(dir).await.unwrap();
        AgentHost {
            node: "web-1".parse().unwrap(),
            verifier: verifier(SigningKey::generate().unwrap().public()),
            heartbeat: AgentConfig::HEARTBEAT,
            runtime: RuntimeKind::Process,
            containers: ContainerSettings {
                engine: Engine::Off,
                ..ContainerSettings::default()
            },
            owner: "web-1.test".to_owned(),
            surroundings: Surroundings {
                node: "web-1".parse().unwrap(),
                urls: vec![],
                ca: None,
                bus: facts(),
                box_key: box_key.clone(),
                handed: state.handed(),
            },
            state,
        }
    }

    fn remembered(box_key: &BoxKey) -> Remembered {
        let key = UserKey::generate().unwrap();
        let sealed = seal(&box_key.public(), key.seed().expose().as_bytes()).unwrap();
        let workload = Workload {
            module: "sleeper".parse().unwrap(),
            release: "1".to_owned(),
            run: Run::command(["sleep".to_owned(), "600".to_owned()]).unwrap(),
            after: [].into(),
            env: [].into(),
            restart: Restart::Always,
            key: PublicKey::new(key.public().as_str()).unwrap(),
            credential: Sealed(sealed.into_bytes()),
            health: None,
            secrets: [].into(),
            pull_secret: None,
            accepts: [].into(),
        };
        Remembered {
            declaration: Some(Declaration {
                home: mesh_model::Home::Here,
                node: "web-1".parse().unwrap(),
                generation: Generation {
                    incarnation: 1,
                    counter: 1,
                },
                workloads: vec![workload],
            }),
            ..Remembered::default()
        }
    }

    /// The process of the one module.
    fn process(dir: &Path) -> Option<u32> {
        match Status::read(dir).unwrap().modules.first()?.phase {
            Phase::Running { pid } => Some(pid),
            _ => None,
        }
    }

    /// Runs an agent over a bus that does not know it, until it has carried out what it remembers and has that to
    /// report; answers the module's process.
    async fn run_until_it_runs(dir: &Path, box_key: &BoxKey) -> u32 {
        let key = PublicKey::from_raw([0; 32]);
        let bus = Loopback::new(facts()).node("web-1".parse().unwrap(), key);
        let before = Status::read(dir).unwrap().remembered.seq;
        let runs = async {
            while Status::read(dir).unwrap().remembered.seq == before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let agent = run_over(bus, host(dir, box_key).await, runs);
        let deadline = Duration::from_secs(20);
        tokio::time::timeout(deadline, agent)
            .await
            .expect("it runs in time")
            .unwrap();
        process(dir).unwrap()
    }

    #[tokio::test]
    async fn the_last_declaration_runs_though_the_bus_is_away_and_outlives_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let box_key = BoxKey::generate().unwrap();
        let state = StateDir::take(dir.path()).await.unwrap();
        let memory = DiskMemory::new(state.memory());
        memory.keep(&remembered(&box_key)).await.unwrap();
        drop(state);

        let first = run_until_it_runs(dir.path(), &box_key).await;
        assert!(!Status::read(dir.path()).unwrap().running);
        let second = run_until_it_runs(dir.path(), &box_key).await;
        assert_eq!(first, second, "another agent restarts nothing");

        let runtime = open_runtime(&host(dir.path(), &box_key).await)
            .await
            .unwrap();
        runtime.stop_all().await.unwrap();
        assert_eq!(process(dir.path()), None);
    }
}
