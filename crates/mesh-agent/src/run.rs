//! The agent itself: everything it needs is opened, and its loop runs until it is told to stop.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mesh_amqp::{AmqpNode, InvalidTrust, InvalidUrl, Trust};
use mesh_auth::creds::{Credentials, CredentialsFileError};
use mesh_auth::keyfile::{KeyFileError, read_secret};
use mesh_auth::keys::{BoxKey, KeyTextError, SigningPublic};
use mesh_auth::sign;
use mesh_auth::tls::{TrustError, ca_client_config};
use mesh_bus::{AgentLoop, AgentParts, BusError, NodeBus, Verifier};
use mesh_control::AgentSettings;
use mesh_derive::Bounds;
use mesh_model::{BusKind, NodeName};
use mesh_nats::{Credential, NatsNode};
use mesh_runtime::{DryRun, HostConfig, Pace, ProcessRuntime, Runtime, RuntimeError};

use crate::{
    AgentConfig, DiskMemory, HostWorkloads, LoadError, RuntimeKind, StateDir, Surroundings,
    TakeStateDirError,
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
    /// The certificate authority.
    #[error(transparent)]
    Ca(#[from] TrustError),
    /// The certificate authority of a broker.
    #[error("the certificate authority cannot be used; copy ca.pem from another node")]
    BrokerCa(#[from] InvalidTrust),
    /// Where the broker is.
    #[error("the addresses of the bus in agent.toml")]
    Address(#[from] InvalidUrl),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] LoadError),
    /// Its runtime.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Its bus, in a way that no waiting mends.
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// Runs the agent of this configuration until `stop` is ready; what it started goes on running. A bus that is away stops
/// nothing: what was last declared runs, and the bus is tried for ever.
pub async fn run(
    config: AgentConfig,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunAgentError> {
    let state = StateDir::take(&config.state_dir).await?;
    let credentials = Credentials::read(&config.credential)?;
    let box_key = read_box_key(&config)?;
    let ca = read_ca(&config)?;
    let seed = mesh_host::seed();
    let host = AgentHost {
        verifier: verifier(config.controller.clone()),
        heartbeat: config.heartbeat,
        runtime: config.runtime,
        surroundings: Surroundings {
            node: config.node.clone(),
            urls: config.urls.clone(),
            ca: config.ca.clone(),
            bus: config.bus.clone(),
            box_key,
            credentials: state.credentials(),
        },
        node: config.node.clone(),
        state,
    };
    match config.kind() {
        BusKind::Nats => {
            let bus = over_nats(&config, &credentials, ca.as_deref(), seed).await?;
            run_over(bus, host, stop).await
        }
        BusKind::Amqp => {
            let bus = over_amqp(&config, &credentials, ca.as_deref(), seed).await?;
            run_over(bus, host, stop).await
        }
    }
}

async fn over_nats(
    config: &AgentConfig,
    credentials: &Credentials,
    ca: Option<&str>,
    seed: u64,
) -> Result<NatsNode, RunAgentError> {
    let endpoint = mesh_nats::Endpoint {
        urls: config.urls.clone(),
        tls: ca.map(ca_client_config).transpose()?,
        name: format!("node/{}", config.node),
    };
    let credential = bus_credential(credentials);
    let idle = Duration::from_secs(Bounds::default().idle_heartbeat_secs.into());
    let dialling = mesh_nats::Dialling {
        first: mesh_nats::FirstAttempt::MayFail,
        seed,
    };
    let facts = config.bus.clone();
    let connected = NatsNode::connect(&endpoint, &credential, &config.node, facts, idle, dialling);
    Ok(connected.await?)
}

async fn over_amqp(
    config: &AgentConfig,
    credentials: &Credentials,
    ca: Option<&str>,
    seed: u64,
) -> Result<AmqpNode, RunAgentError> {
    let name = format!("node/{}", config.node);
    let trust = ca.map(Trust::of_pem).transpose()?;
    let endpoint = mesh_amqp::Endpoint::of_urls(&config.urls, trust, &name)?;
    let credential = mesh_amqp::Credential::of_seed(credentials.key().seed().expose());
    let dialling = mesh_amqp::Dialling {
        first: mesh_amqp::FirstAttempt::MayFail,
        seed,
    };
    Ok(AmqpNode::connect(&endpoint, &credential, &config.node, dialling).await?)
}

/// Runs an agent over any bus until `stop` is ready; what it started goes on running.
pub async fn run_over<B: NodeBus>(
    bus: B,
    host: AgentHost,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunAgentError> {
    let memory = DiskMemory::new(host.state.memory());
    let remembered = memory.load_or_set_aside()?;
    let runtime = open_runtime(host.runtime, &host.state).await?;
    let session = mesh_host::now().as_millis();
    let mut settings = AgentSettings::new(host.node.clone(), session);
    settings.heartbeat = u64::try_from(host.heartbeat.as_millis()).unwrap_or(u64::MAX);
    let generation = remembered.declaration.as_ref().map(|d| d.generation);
    tracing::info!(
        node = %host.node,
        generation = generation.map(tracing::field::display),
        "the agent runs"
    );
    let agent = AgentLoop::new(AgentParts {
        bus,
        workloads: HostWorkloads::new(runtime, host.surroundings),
        memory,
        remembered,
        settings,
        verifier: host.verifier,
        clock: mesh_host::now,
    });
    agent.run(stop).await;
    tracing::info!(node = %host.node, "the agent stops; what it started goes on running");
    Ok(())
}

/// What knows the signatures of a controller.
pub fn verifier(controller: SigningPublic) -> Verifier {
    Verifier::new(move |message, signature| sign::verify(&controller, message, signature).is_ok())
}

async fn open_runtime(kind: RuntimeKind, state: &StateDir) -> Result<Runtime, RuntimeError> {
    match kind {
        RuntimeKind::DryRun => Ok(Runtime::DryRun(DryRun::new())),
        RuntimeKind::Process => {
            let (processes, adopted) = ProcessRuntime::open(HostConfig {
                dir: state.runtime(),
                base_env: mesh_host::base_env(),
                pace: Pace::default(),
                seed: mesh_host::seed(),
                now: mesh_host::now,
            })
            .await?;
            for found in adopted {
                tracing::info!(module = %found.module, release = found.release, pid = found.pid, "still runs");
            }
            Ok(Runtime::Process(processes))
        }
    }
}

fn bus_credential(credentials: &Credentials) -> Credential {
    match credentials {
        Credentials::Nkey(key) => Credential::NKeySeed(key.seed().expose().to_owned()),
        Credentials::Jwt(_) => Credential::Creds(credentials.render().expose().to_owned()),
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
    use crate::{Phase, Status};

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
            surroundings: Surroundings {
                node: "web-1".parse().unwrap(),
                urls: vec![],
                ca: None,
                bus: facts(),
                box_key: box_key.clone(),
                credentials: state.credentials(),
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

        let state = StateDir::take(dir.path()).await.unwrap();
        let runtime = open_runtime(RuntimeKind::Process, &state).await.unwrap();
        runtime.stop_all().await.unwrap();
        assert_eq!(process(dir.path()), None);
    }
}
