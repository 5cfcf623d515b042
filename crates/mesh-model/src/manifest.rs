//! A module's manifest: what it needs and what it may do.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::container::port_number;
use crate::{
    EventName, EventRef, Health, ModuleName, Network, Probe, Restart, Run, SeatName, SecretName,
    one_line,
};

/// What one module is: how it runs, what it says, what it hears, which seats it may hold and which it sends work to.
///
/// Its authority on the bus is worked out from this and from nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The module's name.
    pub module: ModuleName,
    /// The release, for people and for reports; never interpreted.
    pub release: String,
    /// How it runs.
    pub run: Run,
    /// Modules of the same node that start before it.
    pub after: BTreeSet<ModuleName>,
    /// Environment of its process. Names beginning `MESH_` are the mesh's own.
    pub env: BTreeMap<String, String>,
    /// What happens when it ends.
    pub restart: Restart,
    /// How it is known that it does its work; nothing: it does while it runs.
    pub health: Option<Health>,
    /// Secrets it is handed, each in a file.
    pub secrets: BTreeSet<SecretName>,
    /// Events it emits, besides `announced`, which every module may.
    pub emits: BTreeSet<EventName>,
    /// Events it follows, by exact name.
    pub follows: BTreeSet<EventRef>,
    /// Seats it can hold.
    pub can_hold: BTreeSet<SeatName>,
    /// Seats it sends work to.
    pub sends_to: BTreeSet<SeatName>,
}

/// A manifest that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// An environment name the mesh sets itself.
    #[error("env {name:?}: names beginning MESH_ are set by the mesh; choose another")]
    ReservedEnv {
        /// The name.
        name: String,
    },
    /// An environment name no process can be given.
    #[error("env {name:?}: a name is not empty and holds neither '=' nor NUL")]
    InvalidEnv {
        /// The name.
        name: String,
    },
    /// It waits for itself.
    #[error("after: {module} cannot start after itself")]
    AfterItself {
        /// The module.
        module: ModuleName,
    },
    /// `announced` listed as if it were the author's.
    #[error("emits: \"announced\" is reserved and every module may emit it; leave it out")]
    AnnouncedListed,
    /// A container in the host's network has the host's ports, and maps none.
    #[error(
        "ports: a container in the host's network listens on the host's own ports; leave out ports, or network"
    )]
    PortsOfHost,
    /// Two of its ports are one port of the host.
    #[error("ports: {port} of the host is given twice")]
    PortTwice {
        /// The port, as it is written.
        port: String,
    },
    /// Two volumes at one place.
    #[error("volumes: {target} is given twice")]
    VolumeTwice {
        /// The place in the container.
        target: String,
    },
    /// A question of health that cannot be asked.
    #[error("health: {problem}")]
    Health {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A limit nothing could run within.
    #[error("resources: {problem}")]
    Resources {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A secret and a variable of one name: the file's variable would hide the other, or be hidden.
    #[error("env {name:?}: it says where the secret of that name is; leave it out")]
    SecretEnv {
        /// The variable.
        name: String,
    },
    /// A release that would steer the terminal it is shown on.
    #[error(
        "release holds a character that steers a terminal or turns the direction of writing; leave it out"
    )]
    ReleaseSteers,
    /// Text that cannot be handed to a process.
    #[error("{field} holds a NUL byte, which no process can be handed")]
    Nul {
        /// Which field.
        field: &'static str,
    },
    /// More bytes than a declaration should carry for one module.
    #[error(
        "{field} has {bytes} bytes and may have at most {limit}; hand the module a file instead"
    )]
    TooLarge {
        /// Which field.
        field: &'static str,
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        limit: usize,
    },
    /// More events than one consumer or one grant should carry.
    #[error("{field} lists {count} entries and may list at most {limit}; split the module")]
    TooMany {
        /// Which field.
        field: &'static str,
        /// How many it has.
        count: usize,
        /// How many it may have.
        limit: usize,
    },
}

/// Subjects one consumer may filter on: the server checks them pairwise, 1,000 take it a tenth of a second.
const FOLLOWS_LIMIT: usize = 1000;
/// Events one module may emit: each is an entry of its grant, and a grant is held by the server in memory.
const EMITS_LIMIT: usize = 1000;

/// Modules one starts after, variables, and words of its command.
const LIST_LIMIT: usize = 256;
/// Seats one module may hold, or send work to: each is a consumer or an entry of its grant.
const SEATS_LIMIT: usize = 256;
/// Secrets of one module: each travels with its declaration.
const SECRETS_LIMIT: usize = 64;
/// Bytes of a module's environment, and of its command: a node's declaration is one message with all its modules.
const TEXT_LIMIT: usize = 16 * 1024;
/// Bytes of a release: it is shown as one line.
const RELEASE_LIMIT: usize = 128;

impl Manifest {
    fn sizes(&self) -> impl Iterator<Item = ManifestError> {
        let env = self
            .env
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let command = self.run.argv().map(str::len);
        let argv = self.argv_field();
        let container = self.run.container();
        let volumes = container.into_iter().flat_map(|it| &it.volumes);
        let volumes = volumes.map(|volume| volume.source.len() + volume.target.len());
        let health = self.health.as_ref().map_or(0, |it| it.probe.bytes());
        let large = [
            ("release", self.release.len(), RELEASE_LIMIT),
            ("env", env.sum(), TEXT_LIMIT),
            (argv, command.sum(), TEXT_LIMIT),
            ("volumes", volumes.sum(), TEXT_LIMIT),
            ("health", health, TEXT_LIMIT),
        ];
        let exec = self.health.as_ref().map_or(0, |it| it.probe.words());
        let many = [
            ("health", exec, LIST_LIMIT),
            ("follows", self.follows.len(), FOLLOWS_LIMIT),
            ("emits", self.emits.len(), EMITS_LIMIT),
            ("after", self.after.len(), LIST_LIMIT),
            ("env", self.env.len(), LIST_LIMIT),
            (argv, self.run.argv().count(), LIST_LIMIT),
            ("can_hold", self.can_hold.len(), SEATS_LIMIT),
            ("sends_to", self.sends_to.len(), SEATS_LIMIT),
            ("secrets", self.secrets.len(), SECRETS_LIMIT),
            (
                "ports",
                container.map_or(0, |it| it.ports.len()),
                LIST_LIMIT,
            ),
            (
                "volumes",
                container.map_or(0, |it| it.volumes.len()),
                LIST_LIMIT,
            ),
        ];
        let large = large
            .into_iter()
            .filter(|(_, bytes, limit)| bytes > limit)
            .map(|(field, bytes, limit)| ManifestError::TooLarge {
                field,
                bytes,
                limit,
            });
        let many = many
            .into_iter()
            .filter(|(_, count, limit)| count > limit)
            .map(|(field, count, limit)| ManifestError::TooMany {
                field,
                count,
                limit,
            });
        large.chain(many)
    }

    /// Where its words are said.
    const fn argv_field(&self) -> &'static str {
        match self.run {
            Run::Command { .. } => "command",
            Run::Image(_) => "args",
        }
    }

    /// Everything that no field alone can show, in a stable order; nothing when it is whole.
    pub fn check(&self) -> Vec<ManifestError> {
        let mut errors = Vec::new();
        for name in self.env.keys() {
            if name.starts_with("MESH_") {
                errors.push(ManifestError::ReservedEnv { name: name.clone() });
            } else if name.is_empty() || name.contains(['=', '\0']) {
                errors.push(ManifestError::InvalidEnv { name: name.clone() });
            }
        }
        if self.env.values().any(|value| value.contains('\0')) {
            errors.push(ManifestError::Nul { field: "env" });
        }
        if self.after.contains(&self.module) {
            let module = self.module.clone();
            errors.push(ManifestError::AfterItself { module });
        }
        if self.emits.contains(&EventName::announced()) {
            errors.push(ManifestError::AnnouncedListed);
        }
        // One that is too long is told so, and not this as well.
        if self.release.len() <= RELEASE_LIMIT && one_line(&self.release) != self.release {
            errors.push(ManifestError::ReleaseSteers);
        }
        if self.run.argv().any(|word| word.contains('\0')) {
            let field = self.argv_field();
            errors.push(ManifestError::Nul { field });
        }
        errors.extend(self.container_faults());
        errors.extend(self.health_fault());
        errors.extend(self.secrets.iter().filter_map(|secret| {
            let name = format!("{secret}_FILE");
            let taken = self.env.contains_key(&name);
            taken.then_some(ManifestError::SecretEnv { name })
        }));
        errors.extend(self.sizes());
        errors
    }

    fn container_faults(&self) -> Vec<ManifestError> {
        let Some(container) = self.run.container() else {
            return Vec::new();
        };
        let mut errors = Vec::new();
        if container.network == Network::Host && !container.ports.is_empty() {
            errors.push(ManifestError::PortsOfHost);
        }
        let mut taken = BTreeSet::new();
        for port in &container.ports {
            if !taken.insert((port.address, port.host, port.protocol)) {
                let port = port.host.to_string();
                errors.push(ManifestError::PortTwice { port });
            }
        }
        let mut targets = BTreeSet::new();
        for volume in &container.volumes {
            if !targets.insert(volume.target.as_str()) {
                let target = volume.target.clone();
                errors.push(ManifestError::VolumeTwice { target });
            }
        }
        // Below this an engine refuses, or nothing lives.
        if container
            .resources
            .memory
            .is_some_and(|bytes| bytes < 6 * 1024 * 1024)
        {
            let problem = "memory is at least 6MiB";
            errors.push(ManifestError::Resources { problem });
        }
        if container.resources.millicpus == Some(0) {
            let problem = "cpus is at least 0.001";
            errors.push(ManifestError::Resources { problem });
        }
        errors
    }

    fn health_fault(&self) -> Option<ManifestError> {
        let health = self.health.as_ref()?;
        let problem = match &health.probe {
            _ if health.every < 100 => "every is at least 100ms",
            _ if health.within < health.every => "within is at least as long as every",
            Probe::Http(url) if !is_plain_http(url) => "http is a URL of plain http://",
            Probe::Tcp(at) if !is_place(at) => "tcp is HOST:PORT",
            Probe::Exec(argv) if argv.first().is_none_or(String::is_empty) => {
                "exec names no program"
            }
            Probe::Exec(argv) if argv.iter().any(|word| word.contains('\0')) => {
                "exec holds a NUL byte"
            }
            Probe::Http(_) | Probe::Tcp(_) | Probe::Exec(_) => return None,
        };
        Some(ManifestError::Health { problem })
    }
}

/// Whether a text can be asked as a URL: a space or an end of line in it would say more than where.
fn is_plain_http(url: &str) -> bool {
    let rest = url.strip_prefix("http://");
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':']) && is_word(rest))
}

fn is_place(at: &str) -> bool {
    at.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && is_word(host) && port_number(port).is_some()
    })
}

fn is_word(text: &str) -> bool {
    !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Container, Image};

    fn manifest(change: impl FnOnce(&mut Container)) -> Manifest {
        let mut container = Container::new(Image::new("mailer:1").unwrap());
        change(&mut container);
        Manifest {
            module: "mailer".parse().unwrap(),
            release: "1".to_owned(),
            run: Run::Image(Box::new(container)),
            after: BTreeSet::new(),
            env: BTreeMap::new(),
            restart: Restart::Always,
            health: None,
            secrets: BTreeSet::new(),
            emits: BTreeSet::new(),
            follows: BTreeSet::new(),
            can_hold: BTreeSet::new(),
            sends_to: BTreeSet::new(),
        }
    }

    fn health(probe: Probe, every: u64, within: u64) -> Manifest {
        Manifest {
            health: Some(Health {
                probe,
                every,
                within,
            }),
            ..manifest(|_| ())
        }
    }

    fn tcp() -> Probe {
        Probe::Tcp("127.0.0.1:25".to_owned())
    }

    #[test]
    fn a_container_that_contradicts_itself_is_told_how() {
        let ports = |ports: &[&str]| ports.iter().map(|port| port.parse().unwrap()).collect();
        let volumes = |all: &[&str]| all.iter().map(|volume| volume.parse().unwrap()).collect();
        let cases = [
            (manifest(|_| ()), None),
            (manifest(|it| it.ports = ports(&["1:1", "1:1/udp"])), None),
            (
                manifest(|it| it.ports = ports(&["1:1", "1:2"])),
                Some("given twice"),
            ),
            (
                manifest(|it| {
                    it.network = Network::Host;
                    it.ports = ports(&["1:1"]);
                }),
                Some("host's network"),
            ),
            (
                manifest(|it| it.volumes = volumes(&["a:/x", "b:/x"])),
                Some("/x is given twice"),
            ),
            (
                manifest(|it| it.resources.memory = Some(1024)),
                Some("6MiB"),
            ),
            (
                manifest(|it| it.resources.millicpus = Some(0)),
                Some("0.001"),
            ),
            (manifest(|it| it.args = vec!["a\0".to_owned()]), Some("NUL")),
            (
                manifest(|it| it.args = vec!["x".repeat(16_385)]),
                Some("args has 16385 bytes"),
            ),
            (
                manifest(|it| it.volumes = volumes(&[&format!("a:/{}", "x".repeat(16_384))])),
                Some("volumes has 16386 bytes"),
            ),
        ];
        told(cases);
    }

    #[test]
    fn a_question_of_health_that_cannot_be_asked_is_told_why() {
        let cases = [
            (health(tcp(), 100, 100), None),
            (health(tcp(), 99, 100), Some("100ms")),
            (health(tcp(), 200, 100), Some("as long as every")),
            (
                health(Probe::Tcp("25".to_owned()), 100, 100),
                Some("HOST:PORT"),
            ),
            (
                health(Probe::Tcp("a:0".to_owned()), 100, 100),
                Some("HOST:PORT"),
            ),
            (
                health(Probe::Tcp("a b:1".to_owned()), 100, 100),
                Some("HOST:PORT"),
            ),
            (
                health(Probe::Http("http://a/\r\nX: y".to_owned()), 100, 100),
                Some("http://"),
            ),
            (
                health(Probe::Http("http://".to_owned()), 100, 100),
                Some("http://"),
            ),
            (
                health(Probe::Exec(vec!["x".repeat(16_385)]), 100, 100),
                Some("health has 16385 bytes"),
            ),
            (
                health(Probe::Exec(vec!["x".to_owned(); 257]), 100, 100),
                Some("health lists 257 entries"),
            ),
            (
                health(Probe::Http("https://a".to_owned()), 100, 100),
                Some("http://"),
            ),
            (
                health(Probe::Exec(Vec::new()), 100, 100),
                Some("no program"),
            ),
            (
                health(Probe::Exec(vec!["a\0".to_owned()]), 100, 100),
                Some("NUL"),
            ),
        ];
        told(cases);
    }

    #[test]
    fn a_variable_of_a_secrets_name_is_told() {
        let mut hidden = manifest(|_| ());
        hidden.secrets = ["PASSWORD".parse().unwrap()].into();
        hidden.env = [("PASSWORD_FILE".to_owned(), String::new())].into();
        told([(hidden, Some("PASSWORD_FILE"))]);
    }

    #[test]
    fn a_release_steers_no_terminal() {
        let released = |release: &str| Manifest {
            release: release.to_owned(),
            ..manifest(|_| ())
        };
        told([
            (released("1.0 \u{e4}"), None),
            (released("1\u{1b}[31m"), Some("steers a terminal")),
            (released("1\nnode two"), Some("steers a terminal")),
            (released("1\u{202e}2"), Some("steers a terminal")),
        ]);
    }

    fn told<const N: usize>(cases: [(Manifest, Option<&str>); N]) {
        for (manifest, expected) in cases {
            let said: Vec<String> = manifest.check().iter().map(ToString::to_string).collect();
            match expected {
                None => assert_eq!(said, [""; 0]),
                Some(why) => assert!(said.iter().any(|it| it.contains(why)), "{why}: {said:?}"),
            }
        }
    }
}
