//! How a module runs, from the version on that knows of containers: for declarations and for what is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mesh_model::{
    Container, HandedSecret, Health, Network, Port, Probe, Protocol, Resources, Run, Sealed,
    SecretName, Volume,
};
use serde::{Deserialize, Serialize};

use crate::codec::{optional, text};
use crate::error::{FieldError, InvalidText};

#[derive(Serialize, Deserialize)]
pub(crate) enum RunV2 {
    Command { program: String, args: Vec<String> },
    Image(ContainerV1),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ContainerV1 {
    image: String,
    args: Vec<String>,
    ports: BTreeSet<PortV1>,
    volumes: BTreeSet<VolumeV1>,
    network: NetworkV1,
    memory: Option<u64>,
    millicpus: Option<u32>,
    pull_secret: Option<String>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct PortV1 {
    address: Option<AddressV1>,
    host: u16,
    container: u16,
    protocol: ProtocolV1,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum AddressV1 {
    Four([u8; 4]),
    Six([u8; 16]),
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum ProtocolV1 {
    Tcp,
    Udp,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct VolumeV1 {
    source: String,
    target: String,
    read_only: bool,
}

#[derive(Serialize, Deserialize)]
enum NetworkV1 {
    Bridge,
    Host,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct HealthV1 {
    probe: ProbeV1,
    every_millis: u64,
    within_millis: u64,
}

#[derive(Serialize, Deserialize)]
enum ProbeV1 {
    Http(String),
    Tcp(String),
    Exec(Vec<String>),
}

/// A secret's value on its way to one node.
#[derive(Serialize, Deserialize)]
pub(crate) struct HandedV1 {
    version: u64,
    sealed: Vec<u8>,
}

impl From<&Run> for RunV2 {
    fn from(run: &Run) -> Self {
        match run {
            Run::Command { program, args } => Self::Command {
                program: program.clone(),
                args: args.clone(),
            },
            Run::Image(container) => Self::Image(container.as_ref().into()),
        }
    }
}

impl TryFrom<RunV2> for Run {
    type Error = FieldError;
    fn try_from(form: RunV2) -> Result<Self, FieldError> {
        Ok(match form {
            RunV2::Command { program, args } => Self::Command { program, args },
            RunV2::Image(container) => Self::Image(Box::new(container.try_into()?)),
        })
    }
}

impl From<&Container> for ContainerV1 {
    fn from(container: &Container) -> Self {
        Self {
            image: container.image.to_string(),
            args: container.args.clone(),
            ports: container.ports.iter().map(Into::into).collect(),
            volumes: container.volumes.iter().map(Into::into).collect(),
            network: match container.network {
                Network::Bridge => NetworkV1::Bridge,
                Network::Host => NetworkV1::Host,
            },
            memory: container.resources.memory,
            millicpus: container.resources.millicpus,
            pull_secret: container.pull_secret.as_ref().map(ToString::to_string),
        }
    }
}

impl TryFrom<ContainerV1> for Container {
    type Error = FieldError;
    fn try_from(form: ContainerV1) -> Result<Self, FieldError> {
        Ok(Self {
            image: text("image", form.image)?,
            args: form.args,
            ports: form
                .ports
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            volumes: form
                .volumes
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            network: match form.network {
                NetworkV1::Bridge => Network::Bridge,
                NetworkV1::Host => Network::Host,
            },
            resources: Resources {
                memory: form.memory,
                millicpus: form.millicpus,
            },
            pull_secret: optional("pull_secret", form.pull_secret)?,
        })
    }
}

impl From<&Port> for PortV1 {
    fn from(port: &Port) -> Self {
        Self {
            address: port.address.map(|address| match address {
                IpAddr::V4(four) => AddressV1::Four(four.octets()),
                IpAddr::V6(six) => AddressV1::Six(six.octets()),
            }),
            host: port.host,
            container: port.container,
            protocol: match port.protocol {
                Protocol::Tcp => ProtocolV1::Tcp,
                Protocol::Udp => ProtocolV1::Udp,
            },
        }
    }
}

impl TryFrom<PortV1> for Port {
    type Error = FieldError;
    fn try_from(form: PortV1) -> Result<Self, FieldError> {
        let port = Self {
            address: form.address.map(|address| match address {
                AddressV1::Four(four) => IpAddr::from(four),
                AddressV1::Six(six) => IpAddr::from(six),
            }),
            host: form.host,
            container: form.container,
            protocol: match form.protocol {
                ProtocolV1::Tcp => Protocol::Tcp,
                ProtocolV1::Udp => Protocol::Udp,
            },
        };
        // Numbers can say more than a port may: what the text of one takes is what is taken.
        port.to_string().parse().map_err(|rule| FieldError {
            field: "ports",
            rule: InvalidText::Port(rule),
        })
    }
}

impl From<&Volume> for VolumeV1 {
    fn from(volume: &Volume) -> Self {
        Self {
            source: volume.source.clone(),
            target: volume.target.clone(),
            read_only: volume.read_only,
        }
    }
}

impl TryFrom<VolumeV1> for Volume {
    type Error = FieldError;
    fn try_from(form: VolumeV1) -> Result<Self, FieldError> {
        // The mode is always said here: without it, a target that ends like one would be read as another.
        let mode = if form.read_only { "ro" } else { "rw" };
        format!("{}:{}:{mode}", form.source, form.target)
            .parse()
            .map_err(|rule| FieldError {
                field: "volumes",
                rule: InvalidText::Volume(rule),
            })
    }
}

impl From<&Health> for HealthV1 {
    fn from(health: &Health) -> Self {
        Self {
            probe: match &health.probe {
                Probe::Http(url) => ProbeV1::Http(url.clone()),
                Probe::Tcp(at) => ProbeV1::Tcp(at.clone()),
                Probe::Exec(argv) => ProbeV1::Exec(argv.clone()),
            },
            every_millis: health.every,
            within_millis: health.within,
        }
    }
}

impl From<HealthV1> for Health {
    fn from(form: HealthV1) -> Self {
        Self {
            probe: match form.probe {
                ProbeV1::Http(url) => Probe::Http(url),
                ProbeV1::Tcp(at) => Probe::Tcp(at),
                ProbeV1::Exec(argv) => Probe::Exec(argv),
            },
            every: form.every_millis,
            within: form.within_millis,
        }
    }
}

impl From<&HandedSecret> for HandedV1 {
    fn from(handed: &HandedSecret) -> Self {
        Self {
            version: handed.version,
            sealed: handed.sealed.0.clone(),
        }
    }
}

impl From<HandedV1> for HandedSecret {
    fn from(form: HandedV1) -> Self {
        Self {
            version: form.version,
            sealed: Sealed(form.sealed),
        }
    }
}

/// Values of secrets by their names, as they are written.
pub(crate) type SecretsV1 = BTreeMap<String, HandedV1>;

pub(crate) fn written_secrets(secrets: &BTreeMap<SecretName, HandedSecret>) -> SecretsV1 {
    let pairs = secrets.iter();
    pairs
        .map(|(name, handed)| (name.to_string(), handed.into()))
        .collect()
}

pub(crate) fn secrets(
    field: &'static str,
    form: SecretsV1,
) -> Result<BTreeMap<SecretName, HandedSecret>, FieldError> {
    let pairs = form.into_iter();
    pairs
        .map(|(name, handed)| Ok((text(field, name)?, handed.into())))
        .collect()
}
