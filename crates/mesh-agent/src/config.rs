//! `agent.toml`: what an agent is told, read strictly and written as enrolment leaves it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_auth::keyfile::{KeyFileError, write_public};
use mesh_auth::keys::SigningPublic;
use mesh_control::LOST_AFTER;
use mesh_files::FileError;
use mesh_model::{BusFacts, BusKind, MeshName, NodeName};
use serde::{Deserialize, Serialize};

use crate::bus_at;
use crate::containers::{ContainerSettings, TypedContainers};
use crate::place::{need_authority, usable};

/// What an agent is told; every path is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// The node this host is.
    pub node: NodeName,
    /// The mesh it joined.
    pub mesh: MeshName,
    /// Where the bus is reached; never empty.
    pub urls: Vec<String>,
    /// The certificate authority the bus's certificate must come from; nothing for a bus on loopback that has none.
    pub ca: Option<PathBuf>,
    /// What proves the node to the bus.
    pub credential: PathBuf,
    /// The key secrets are sealed to.
    pub box_key: PathBuf,
    /// Whose declarations the node obeys, pinned at enrolment.
    pub controller: SigningPublic,
    /// What of the bus stands in the subjects a node checks.
    pub bus: BusFacts,
    /// How modules are run.
    pub runtime: RuntimeKind,
    /// How those are that are containers.
    pub containers: ContainerSettings,
    /// Between two signs of life.
    pub heartbeat: Duration,
    /// Where the agent keeps what it must find again.
    pub state_dir: PathBuf,
}

/// How an agent runs modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeKind {
    /// As they are declared: as plain processes, or as containers.
    #[default]
    Process,
    /// Not at all; every module is said to run.
    DryRun,
}

/// Why a configuration was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadConfigError {
    /// There is none.
    #[error(
        "there is no configuration at {}; make this host a node with `enrol TOKEN`, or name the file with `--config`",
        path.display()
    )]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The host does not let it be read.
    #[error("configuration {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// Its form.
    #[error(transparent)]
    Form(#[from] FileError),
    /// A value of the right kind that cannot be meant.
    #[error("{}: {key}: {why}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What is wrong with its value, and what to write.
        why: String,
    },
}

/// Why a configuration was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteConfigError {
    /// A path that is no text: TOML holds text only.
    #[error("the configuration holds a path that is no text; choose a directory whose name is")]
    NotText(#[from] toml::ser::Error),
    /// The file itself.
    #[error(transparent)]
    File(#[from] KeyFileError),
}

/// As typed, in the order it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    node: NodeName,
    mesh: MeshName,
    urls: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    credential: PathBuf,
    box_key: PathBuf,
    controller: SigningPublic,
    #[serde(default)]
    runtime: RuntimeKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heartbeat: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state_dir: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bus: Option<TypedBus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    containers: Option<TypedContainers>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedBus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    account: String,
}

impl AgentConfig {
    /// Between two signs of life, where the file says nothing.
    pub const HEARTBEAT: Duration = Duration::from_secs(5);

    /// Reads the file. Relative paths in it are relative to it.
    pub fn read(path: &Path) -> Result<Self, ReadConfigError> {
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => ReadConfigError::Missing {
                path: path.to_owned(),
            },
            _ => ReadConfigError::Unreadable {
                path: path.to_owned(),
                source,
            },
        };
        // Modules are handed these paths, and need not run where the agent does.
        let path = &std::path::absolute(path).map_err(unreadable)?;
        let text = fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(path, &text)
    }

    /// Reads the text of the file at `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ReadConfigError> {
        let typed: Typed = mesh_files::read(&path.display().to_string(), text)?;
        let dir = path.parent().unwrap_or_else(|| Path::new(""));
        let value = |key, why| ReadConfigError::Value {
            path: path.to_owned(),
            key,
            why,
        };
        let urls = usable(typed.urls).map_err(|why| value("urls", why))?;
        let kind = bus_at(&urls);
        if typed.ca.is_none() && need_authority(&urls) {
            let why = "names nobody who vouches for the bus; write ca = \"ca.pem\"";
            return Err(value("ca", why.to_owned()));
        }
        let bus = match (kind, typed.bus) {
            (BusKind::Nats, None) => {
                let why = "names no account; write [bus] with account = \"MESH\"";
                return Err(value("bus", why.to_owned()));
            }
            // Nothing of a broker stands in subjects.
            (BusKind::Amqp, _) => BusFacts::default(),
            (BusKind::Nats, Some(bus)) => BusFacts {
                domain: bus.domain,
                account: bus.account,
            },
        };
        Ok(Self {
            node: typed.node,
            mesh: typed.mesh,
            urls,
            ca: typed.ca.map(|ca| dir.join(ca)),
            credential: dir.join(typed.credential),
            box_key: dir.join(typed.box_key),
            controller: typed.controller,
            bus,
            runtime: typed.runtime,
            containers: match typed.containers {
                Some(typed) => typed.meant().map_err(|(key, why)| value(key, why))?,
                None => ContainerSettings::default(),
            },
            heartbeat: match typed.heartbeat {
                Some(text) => heartbeat(&text).map_err(|why| value("heartbeat", why))?,
                None => Self::HEARTBEAT,
            },
            state_dir: typed
                .state_dir
                .map_or_else(|| dir.to_owned(), |state_dir| dir.join(state_dir)),
        })
    }

    /// The text of a file in `dir` that says this. Paths inside `dir` are written relative to it.
    pub fn render(&self, dir: &Path) -> Result<String, WriteConfigError> {
        let inside = |path: &Path| path.strip_prefix(dir).unwrap_or(path).to_owned();
        let typed = Typed {
            node: self.node.clone(),
            mesh: self.mesh.clone(),
            urls: self.urls.clone(),
            ca: self.ca.as_deref().map(inside),
            credential: inside(&self.credential),
            box_key: inside(&self.box_key),
            controller: self.controller.clone(),
            runtime: self.runtime,
            heartbeat: (self.heartbeat != Self::HEARTBEAT)
                .then(|| humantime::format_duration(self.heartbeat).to_string()),
            state_dir: (self.state_dir != dir).then(|| inside(&self.state_dir)),
            bus: (self.kind() == BusKind::Nats).then(|| TypedBus {
                domain: self.bus.domain.clone(),
                account: self.bus.account.clone(),
            }),
            containers: TypedContainers::of(&self.containers),
        };
        Ok(format!("version = 1\n{}", toml::to_string(&typed)?))
    }

    /// Which kind of bus it is.
    pub fn kind(&self) -> BusKind {
        bus_at(&self.urls)
    }

    /// Writes the file, whole or not at all. It holds no secret, only where they are.
    pub fn write(&self, path: &Path) -> Result<(), WriteConfigError> {
        let dir = path.parent().unwrap_or_else(|| Path::new(""));
        write_public(path, &self.render(dir)?)?;
        Ok(())
    }
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| format!("{text:?} is no duration; write for instance \"5s\""))?;
    if (SHORTEST..=LONGEST).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!(
            "{text:?} is not between {}s and {}s: a node that is silent for {}s counts as lost",
            SHORTEST.as_secs(),
            LONGEST.as_secs(),
            LOST_AFTER / 1000,
        ))
    }
}

const SHORTEST: Duration = Duration::from_secs(1);
/// Three fit into the silence after which a node is lost: two may be lost themselves, or late.
const LONGEST: Duration = Duration::from_millis(LOST_AFTER / 3);

#[cfg(test)]
mod tests {
    use super::*;

    /// As enrolment writes it.
    const WRITTEN: &str = r#"version = 1
node = "web-1"
mesh = "home"
urls = ["tls://bus.example:4222"]
ca = "ca.pem"
credential = "node.creds"
box_key = "node.xkey"
controller = "VBZ43AHYS7TG7TDQEVLANPEK4R6X6R32GBZY6L7VRIXFSR65X6EAWPA2"
runtime = "process"

[bus]
account = "MESH"
"#;

    fn parse(text: &str) -> Result<AgentConfig, ReadConfigError> {
        AgentConfig::parse(Path::new("/etc/mesh/agent.toml"), text)
    }

    #[test]
    fn what_enrolment_writes_is_read_and_written_again_byte_for_byte() {
        let config = parse(WRITTEN).unwrap();
        assert_eq!(config.ca.as_deref(), Some(Path::new("/etc/mesh/ca.pem")));
        assert_eq!(config.state_dir, Path::new("/etc/mesh"));
        assert_eq!(config.heartbeat, AgentConfig::HEARTBEAT);
        assert_eq!(config.runtime, RuntimeKind::Process);
        assert_eq!(config.render(Path::new("/etc/mesh")).unwrap(), WRITTEN);
    }

    /// Too small an interval, and the link flaps when the machine is busy.
    /// <https://github.com/eclipse-bluechi/bluechi/issues/1041>
    #[test]
    fn case_c_27ba0db_no_pause_between_heartbeats_is_too_short_or_too_near_to_being_lost() {
        for (text, taken) in [
            ("500ms", false),
            ("999ms", false),
            ("1s", true),
            ("10s", true),
            ("10001ms", false),
            ("1h", false),
        ] {
            let read = heartbeat(text);
            assert_eq!(read.is_ok(), taken, "{text}");
            if let Err(why) = read {
                assert!(
                    why.contains("between 1s and 10s: a node that is silent for 30s"),
                    "{why}"
                );
            }
        }
        let lost = Duration::from_millis(LOST_AFTER);
        assert!(lost >= 3 * LONGEST && lost >= 3 * AgentConfig::HEARTBEAT);
    }

    #[test]
    fn what_an_operator_changes_is_kept() {
        let text = WRITTEN
            .replace(
                "runtime = \"process\"",
                "runtime = \"dry-run\"\nheartbeat = \"2s\"\nstate_dir = \"/srv/mesh\"",
            )
            .replace("\"ca.pem\"", "\"/etc/ssl/mesh.pem\"")
            .replace("account", "domain = \"hub\"\naccount")
            + "\n[containers]\nengine = \"unix:///run/docker.sock\"\nstall = \"2m\"\n";
        let config = parse(&text).unwrap();
        assert_eq!(config.runtime, RuntimeKind::DryRun);
        assert_eq!(config.heartbeat, Duration::from_secs(2));
        assert_eq!(config.state_dir, Path::new("/srv/mesh"));
        assert_eq!(config.ca.as_deref(), Some(Path::new("/etc/ssl/mesh.pem")));
        assert_eq!(config.bus.domain.as_deref(), Some("hub"));
        let socket = crate::Engine::Socket("/run/docker.sock".into());
        assert_eq!(config.containers.engine, socket);
        assert_eq!(config.containers.stall, Duration::from_mins(2));
        assert_eq!(config.render(Path::new("/etc/mesh")).unwrap(), text);
    }

    #[test]
    fn a_node_of_a_broker_needs_no_account_and_on_loopback_nobody_who_vouches() {
        let encrypted = WRITTEN
            .replace("tls://bus.example:4222", "amqps://bus.example:5671/mesh")
            .replace("\n[bus]\naccount = \"MESH\"\n", "");
        let plain = encrypted
            .replace("amqps://bus.example:5671", "amqp://127.0.0.1:5672")
            .replace("ca = \"ca.pem\"\n", "");
        for text in [encrypted, plain] {
            let config = parse(&text).unwrap();
            assert_eq!(config.kind(), BusKind::Amqp);
            assert_eq!(config.bus, BusFacts::default());
            assert_eq!(config.render(Path::new("/etc/mesh")).unwrap(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        for (from, to, said) in [
            ("box_key", "boxkey", "did you mean \"box_key\"?"),
            (
                "[bus]",
                "hartbeat = \"5s\"\n[bus]",
                "did you mean \"heartbeat\"?",
            ),
            ("node = \"web-1\"\n", "", "needs a key \"node\""),
            ("web-1", "web.1", "no dots"),
            (
                "version = 1\n",
                "version = 2\n",
                "version 2 is not known here",
            ),
            ("VBZ4", "UBZ4", "signing public key"),
            (
                "[\"tls://bus.example:4222\"]",
                "[]",
                "urls: names no server",
            ),
            ("tls://", "http://", "urls: \"http://bus.example:4222\""),
            ("tls://", "amqp://", "neither encrypted nor on loopback"),
            ("ca = \"ca.pem\"\n", "", "ca: names nobody who vouches"),
            ("[bus]\naccount = \"MESH\"\n", "", "bus: names no account"),
            ("\"process\"", "\"docker\"", "is none of process, dry-run"),
            (
                "[bus]",
                "heartbeat = \"1m\"\n[bus]",
                "not between 1s and 10s",
            ),
            ("[bus]", "heartbeat = \"soon\"\n[bus]", "is no duration"),
            (
                "[bus]",
                "[containers]\nengine = \"docker\"\n[bus]",
                "containers.engine: \"docker\" is no engine",
            ),
            (
                "[bus]",
                "[containers]\nengines = \"off\"\n[bus]",
                "did you mean \"engine\"?",
            ),
            (
                "[bus]",
                "[containers]\nstall = \"1s\"\n[bus]",
                "not between 5s and 1h",
            ),
        ] {
            let text = WRITTEN.replacen(from, to, 1);
            assert_ne!(text, WRITTEN, "{from}");
            let error = parse(&text).unwrap_err().to_string();
            assert!(
                error.contains(said) && error.contains("/etc/mesh/agent.toml"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_host_that_is_no_node_is_told_how_to_become_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = AgentConfig::read(&dir.path().join("agent.toml")).unwrap_err();
        assert!(error.to_string().contains("`enrol TOKEN`"), "{error}");
    }

    #[test]
    fn a_written_file_is_read_from_disk_with_whole_paths() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.toml");
        let config = AgentConfig::parse(&path, WRITTEN).unwrap();
        config.write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), WRITTEN);
        assert_eq!(AgentConfig::read(&path).unwrap(), config);
    }
}
