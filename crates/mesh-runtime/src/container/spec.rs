//! What an engine is told of a container: everything that was declared, and what the mesh sees to.

use std::collections::BTreeMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, MountVolumeOptions,
    PortBinding, RestartPolicy, RestartPolicyNameEnum,
};
use mesh_model::{Container, Image, Network, Port, Volume};

use super::label;
use crate::{Desired, HANDED_IN_CONTAINER};

/// What this engine has of what is nice to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// A program that reaps what a module leaves behind.
    pub(crate) init: bool,
    /// At which address a container reaches the host; or a word that it takes for one.
    pub(crate) host: Option<String>,
}

impl Default for Abilities {
    fn default() -> Self {
        Self {
            init: true,
            host: Some(HOST_WORD.to_owned()),
        }
    }
}

impl Abilities {
    /// What is left of them after an engine refused a container with these words; nothing when they are not the cause.
    pub(crate) fn without(&self, refusal: &str) -> Option<Self> {
        let lower = refusal.to_lowercase();
        let says = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
        if self.init && says(&["docker-init", "catatonit", "init binary"]) {
            return Some(Self {
                init: false,
                ..self.clone()
            });
        }
        let word = self.host.as_deref() == Some(HOST_WORD);
        (word && says(&[HOST_WORD])).then(|| Self {
            host: None,
            ..self.clone()
        })
    }
}

/// What Docker takes for the host's address, as a container sees it.
const HOST_WORD: &str = "host-gateway";

/// A container for `desired`; nothing when it is declared as something else.
///
/// Its environment is what was declared and what the mesh tells it, byte for byte: nothing of the agent's own, and nothing
/// filled in. Its secrets are files.
pub(crate) fn body(
    owner: &str,
    desired: &Desired,
    grace_secs: i64,
    abilities: &Abilities,
) -> Option<ContainerCreateBody> {
    let workload = &desired.workload;
    let container = workload.run.container()?;
    let labels = label::labels(owner, workload)?;
    let env: BTreeMap<&String, &String> = workload
        .env
        .iter()
        .chain(&desired.extra_env_in_container)
        .collect();
    let ports = &container.ports;
    Some(ContainerCreateBody {
        image: Some(reference(&container.image)),
        cmd: (!container.args.is_empty()).then(|| container.args.clone()),
        env: Some(
            env.into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        ),
        labels: Some(
            labels
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        ),
        exposed_ports: (!ports.is_empty()).then(|| ports.iter().map(inner).collect()),
        stop_timeout: Some(grace_secs),
        host_config: Some(host_config(owner, desired, container, abilities)),
        ..ContainerCreateBody::default()
    })
}

/// How an engine is asked for an image. A digest says all: Podman takes no tag beside one.
pub(crate) fn reference(image: &Image) -> String {
    match (image.digest(), image.tag()) {
        (Some(digest), _) => format!("{}@{digest}", image.repository()),
        (None, Some(tag)) => format!("{}:{tag}", image.repository()),
        (None, None) => format!("{}:latest", image.repository()),
    }
}

/// The host a registry is at, as far as a reference names one.
pub(crate) fn registry(image: &Image) -> Option<&str> {
    let (host, _) = image.repository().split_once('/')?;
    (host.contains(['.', ':']) || host == "localhost").then_some(host)
}

fn host_config(
    owner: &str,
    desired: &Desired,
    container: &Container,
    abilities: &Abilities,
) -> HostConfig {
    let bridge = container.network == Network::Bridge;
    let memory = container
        .resources
        .memory
        .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let volumes = container
        .volumes
        .iter()
        .map(|volume| mount(owner, desired, volume));
    HostConfig {
        // Whoever starts a module again is the agent: an engine that did so as well would start one that is declared
        // no more.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        // Without a limit an engine's log of one module fills the disk.
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(
                [("max-size", "10m"), ("max-file", "3")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            ),
        }),
        network_mode: Some(if bridge { "bridge" } else { "host" }.to_owned()),
        extra_hosts: abilities
            .host
            .as_ref()
            .filter(|_| bridge)
            .map(|host| vec![format!("host.docker.internal:{host}")]),
        port_bindings: (!container.ports.is_empty()).then(|| {
            bindings(&container.ports)
                .into_iter()
                .map(|(inner, outer)| (inner, Some(outer)))
                .collect()
        }),
        mounts: Some(handed(desired).into_iter().chain(volumes).collect()),
        memory,
        // The same, so that what does not fit is not swapped out instead.
        memory_swap: memory,
        nano_cpus: container
            .resources
            .millicpus
            .map(|millis| i64::from(millis).saturating_mul(1_000_000)),
        init: abilities.init.then_some(true),
        ..HostConfig::default()
    }
}

/// Which ports of the host lead to each of the container's.
fn bindings(ports: &std::collections::BTreeSet<Port>) -> BTreeMap<String, Vec<PortBinding>> {
    let mut bindings: BTreeMap<String, Vec<PortBinding>> = BTreeMap::new();
    for port in ports {
        bindings.entry(inner(port)).or_default().push(PortBinding {
            host_ip: port.address.map(|address| address.to_string()),
            host_port: Some(port.host.to_string()),
        });
    }
    bindings
}

fn inner(port: &Port) -> String {
    format!("{}/{}", port.container, port.protocol.as_str())
}

/// The files it is handed. The directory and not the files, so that one that is replaced is seen.
fn handed(desired: &Desired) -> Option<Mount> {
    let source = desired.handed.to_str().filter(|path| !path.is_empty())?;
    Some(Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(HANDED_IN_CONTAINER.to_owned()),
        read_only: Some(true),
        ..Mount::default()
    })
}

fn mount(owner: &str, desired: &Desired, volume: &Volume) -> Mount {
    // A path that is missing is an error, and not made as an empty directory of root's. A volume the engine makes for us
    // says whose it is.
    let (typ, volume_options) = if volume.is_path() {
        (MountType::BIND, None)
    } else {
        let labels = [
            (label::OWNER, owner.to_owned()),
            (label::MODULE, desired.module().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let options = MountVolumeOptions {
            labels: Some(labels),
            ..MountVolumeOptions::default()
        };
        (MountType::VOLUME, Some(options))
    };
    Mount {
        typ: Some(typ),
        source: Some(volume.source.clone()),
        target: Some(volume.target.clone()),
        read_only: Some(volume.read_only),
        volume_options,
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests;
