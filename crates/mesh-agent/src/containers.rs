//! `[containers]` of `agent.toml`: which engine runs a node's containers, and how patient one is with it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_auth::keys::SigningPublic;
use mesh_model::NodeName;
use mesh_runtime::{ContainersConfig, ENGINE_DEADLINE, EngineChoice, HostConfig, STALL, SWEEP};
use serde::{Deserialize, Serialize};

/// How a node runs containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSettings {
    /// Which engine.
    pub engine: Engine,
    /// How long the pull of an image may stand still until it is dropped and tried again.
    pub stall: Duration,
}

/// Which engine runs a node's containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Engine {
    /// The one that is found first.
    #[default]
    Auto,
    /// None: a module with an image fails here, and says so.
    Off,
    /// The one at this socket.
    Socket(PathBuf),
}

impl Default for ContainerSettings {
    fn default() -> Self {
        Self {
            engine: Engine::Auto,
            stall: STALL,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Socket(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl ContainerSettings {
    /// What the runtime is told, beside what it is told of processes. `owner` is what its containers are labelled with.
    pub(crate) fn config(
        &self,
        owner: String,
        dir: PathBuf,
        host: &HostConfig,
    ) -> ContainersConfig {
        ContainersConfig {
            engine: match &self.engine {
                Engine::Auto => EngineChoice::Auto(places(mesh_host::runtime_dir().as_deref())),
                Engine::Off => EngineChoice::Off,
                Engine::Socket(path) => EngineChoice::Socket(path.clone()),
            },
            owner,
            dir,
            stall: self.stall,
            deadline: ENGINE_DEADLINE,
            sweep: SWEEP,
            pace: host.pace,
            seed: host.seed,
            now: host.now,
        }
    }
}

/// What the containers of a node are labelled with: the mesh by its controller's key, and the node. It is the same
/// whatever became of the node's files, so that the next agent knows them again.
pub fn container_owner(controller: &SigningPublic, node: &NodeName) -> String {
    let key = controller.to_string();
    let mesh: String = key.chars().take(OWNER_KEY).collect();
    format!("{node}.{mesh}")
}

/// Characters of the controller's key: of those that differ, enough that no two meshes of a host are alike.
const OWNER_KEY: usize = 20;

/// Where engines listen: the system's, and then those of this user.
fn places(runtime_dir: Option<&Path>) -> Vec<PathBuf> {
    let system = [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
    ];
    let own = ["docker.sock", "podman/podman.sock"];
    let own = runtime_dir
        .into_iter()
        .flat_map(|dir| own.map(|name| dir.join(name)));
    system.into_iter().map(PathBuf::from).chain(own).collect()
}

/// As typed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedContainers {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stall: Option<String>,
}

impl TypedContainers {
    /// What is written where it is not what is meant anyway.
    pub(crate) fn of(settings: &ContainerSettings) -> Option<Self> {
        let usual = ContainerSettings::default();
        (*settings != usual).then(|| Self {
            engine: (settings.engine != usual.engine).then(|| settings.engine.to_string()),
            stall: (settings.stall != usual.stall)
                .then(|| humantime::format_duration(settings.stall).to_string()),
        })
    }

    pub(crate) fn meant(self) -> Result<ContainerSettings, (&'static str, String)> {
        let usual = ContainerSettings::default();
        Ok(ContainerSettings {
            engine: match self.engine {
                Some(text) => engine(&text).map_err(|why| ("containers.engine", why))?,
                None => usual.engine,
            },
            stall: match self.stall {
                Some(text) => stall(&text).map_err(|why| ("containers.stall", why))?,
                None => usual.stall,
            },
        })
    }
}

fn engine(text: &str) -> Result<Engine, String> {
    match (text, text.strip_prefix("unix://")) {
        ("auto", _) => Ok(Engine::Auto),
        ("off", _) => Ok(Engine::Off),
        (_, Some(path)) if Path::new(path).is_absolute() => Ok(Engine::Socket(path.into())),
        _ => Err(format!(
            "{text:?} is no engine; write \"auto\", \"off\", or the path of its socket: \"unix:///run/docker.sock\""
        )),
    }
}

fn stall(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| format!("{text:?} is no duration; write for instance \"1m\""))?;
    if (SHORTEST..=LONGEST).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!(
            "{text:?} is not between 5s and 1h: a registry may take a while, and not for ever"
        ))
    }
}

const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_looked_for_where_engines_listen() {
        let there = places(Some(Path::new("/run/user/7")));
        let there: Vec<_> = there.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            there,
            [
                "/run/docker.sock",
                "/var/run/docker.sock",
                "/run/podman/podman.sock",
                "/run/user/7/docker.sock",
                "/run/user/7/podman/podman.sock",
            ]
        );
        assert_eq!(places(None).len(), 3);
    }

    #[test]
    fn an_owner_is_a_node_of_one_mesh() {
        let key = "VBZ43AHYS7TG7TDQEVLANPEK4R6X6R32GBZY6L7VRIXFSR65X6EAWPA2";
        let owner = container_owner(&key.parse().unwrap(), &"web-1".parse().unwrap());
        assert_eq!(owner, "web-1.VBZ43AHYS7TG7TDQEVLA");
    }
}
