//! Parts of a workload as they are kept: in the record of a process and in the label of a container alike.
//!
//! A form never changes. What must say more gets a type of its own, here, and a version of whatever holds it.

use std::collections::BTreeMap;

use mesh_model::{HandedSecret, Health, Probe, Restart, Sealed, SecretName};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RestartV1 {
    Always,
    OnFailure,
    Never,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HealthV1 {
    probe: ProbeV1,
    every_ms: u64,
    within_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProbeV1 {
    Http(String),
    Tcp(String),
    Exec(Vec<String>),
}

/// Which value of each secret it was handed; never a value.
pub(crate) type VersionsV1 = BTreeMap<SecretName, u64>;

pub(crate) fn versions(secrets: &BTreeMap<SecretName, HandedSecret>) -> VersionsV1 {
    let secrets = secrets.iter();
    secrets
        .map(|(name, handed)| (name.clone(), handed.version))
        .collect()
}

/// The secrets as far as they are known: without what they say.
pub(crate) fn valueless(versions: VersionsV1) -> BTreeMap<SecretName, HandedSecret> {
    let handed = |(name, version)| {
        let sealed = Sealed(Vec::new());
        (name, HandedSecret { version, sealed })
    };
    versions.into_iter().map(handed).collect()
}

impl From<Restart> for RestartV1 {
    fn from(restart: Restart) -> Self {
        match restart {
            Restart::Always => Self::Always,
            Restart::OnFailure => Self::OnFailure,
            Restart::Never => Self::Never,
        }
    }
}

impl From<RestartV1> for Restart {
    fn from(form: RestartV1) -> Self {
        match form {
            RestartV1::Always => Self::Always,
            RestartV1::OnFailure => Self::OnFailure,
            RestartV1::Never => Self::Never,
        }
    }
}

impl From<&Health> for HealthV1 {
    fn from(health: &Health) -> Self {
        Self {
            probe: match &health.probe {
                Probe::Http(url) => ProbeV1::Http(url.clone()),
                Probe::Tcp(address) => ProbeV1::Tcp(address.clone()),
                Probe::Exec(argv) => ProbeV1::Exec(argv.clone()),
            },
            every_ms: health.every,
            within_ms: health.within,
        }
    }
}

impl From<HealthV1> for Health {
    fn from(form: HealthV1) -> Self {
        Self {
            probe: match form.probe {
                ProbeV1::Http(url) => Probe::Http(url),
                ProbeV1::Tcp(address) => Probe::Tcp(address),
                ProbeV1::Exec(argv) => Probe::Exec(argv),
            },
            every: form.every_ms,
            within: form.within_ms,
        }
    }
}
