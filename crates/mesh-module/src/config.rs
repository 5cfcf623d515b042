//! What a module is handed: who it is, where the bus is, and what proves it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_amqp::{InvalidUrl, Trust};
use mesh_derive::subject::inbox_prefix;
use mesh_model::{BusFacts, InstanceRef, InvalidName, Principal, PublicKey};
use mesh_nats::Credential;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::host;

/// What it takes to connect as one instance of a module.
#[derive(Debug, Clone)]
pub struct ModuleConfig {
    /// Which module, on which node.
    pub instance: InstanceRef,
    /// Its bus.
    pub bus: BusConfig,
    /// The file its credential was read from. Another that takes its place there is taken, without a restart.
    pub creds: Option<PathBuf>,
}

/// Where a bus is, whom it is trusted as, and what proves the instance there.
#[derive(Debug, Clone)]
pub enum BusConfig {
    /// NATS, at `tls://` or `nats://`.
    Nats {
        /// Where.
        endpoint: Box<mesh_nats::Endpoint>,
        /// What proves the instance.
        credential: Credential,
        /// What of the bus stands in subjects.
        facts: BusFacts,
    },
    /// RabbitMQ, at `amqps://` or `amqp://`.
    Amqp {
        /// Where.
        endpoint: mesh_amqp::Endpoint,
        /// What proves the instance.
        credential: mesh_amqp::Credential,
    },
}

impl BusConfig {
    /// The public half of the credential, by which the mesh knows it.
    pub(crate) fn key(&self) -> Option<PublicKey> {
        match self {
            Self::Nats { credential, .. } => credential.public(),
            Self::Amqp { credential, .. } => Some(credential.public()),
        }
    }

    /// The same bus, with the credential that is in this file now.
    pub(crate) fn with_credential_of(&self, creds: &Path) -> Result<Self, ConfigError> {
        let mut config = self.clone();
        match &mut config {
            Self::Nats { credential: it, .. } => *it = credential(creds)?,
            Self::Amqp { credential: it, .. } => *it = broker_credential(creds)?,
        }
        Ok(config)
    }

    /// Its servers, for the log.
    pub(crate) fn servers(&self) -> Vec<String> {
        match self {
            Self::Nats { endpoint, .. } => endpoint.urls.clone(),
            Self::Amqp { endpoint, .. } => {
                let servers = endpoint.servers.iter();
                servers
                    .map(|(host, port)| format!("{host}:{port}"))
                    .collect()
            }
        }
    }
}

impl ModuleConfig {
    /// What the node's agent handed over in the environment.
    ///
    /// | variable | what it holds |
    /// |---|---|
    /// | `MESH_MODULE`, `MESH_NODE` | the instance |
    /// | `MESH_BUS_URL` | the bus's servers, separated by commas; their scheme says which bus it is |
    /// | `MESH_CREDS` | the file with the credential: a seed alone, or a JWT and its seed |
    /// | `MESH_CA` | the file with the certificate of the authority the bus's servers are vouched for by; without it the connection is plain TCP |
    /// | `MESH_INBOX` | what every reply subject begins with; derived, and checked if it is set |
    /// | `MESH_BUS_DOMAIN` | the `JetStream` domain, where there is one |
    /// | `MESH_BUS_ACCOUNT` | the account that holds `JetStream`; `MESH` if it is not set. RabbitMQ has neither |
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::read(host::variable)
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let needed = |name| variable(name).ok_or(ConfigError::Missing { name });
        let instance = InstanceRef {
            module: named(MODULE, &needed(MODULE)?)?,
            node: named(NODE, &needed(NODE)?)?,
        };
        let urls = urls(&needed(BUS_URL)?);
        if urls.is_empty() {
            return Err(ConfigError::Missing { name: BUS_URL });
        }
        let creds = needed(CREDS)?;
        let creds = Path::new(&creds);
        let ca = variable(CA);
        let ca = ca.as_deref().map(Path::new);
        let principal = Principal::Instance(instance.clone());
        let inbox = inbox_prefix(&principal);
        if let Some(found) = variable(INBOX)
            && found != inbox.as_str()
        {
            let wanted = inbox.to_string();
            return Err(ConfigError::Inbox { found, wanted });
        }
        let name = principal.to_string();
        let bus = if urls.iter().any(|url| is_a_brokers(url)) {
            over_amqp(&urls, creds, ca, &name)?
        } else {
            let facts = BusFacts {
                domain: variable(BUS_DOMAIN),
                account: variable(BUS_ACCOUNT).unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned()),
            };
            over_nats(urls, creds, ca, name, facts)?
        };
        let creds = Some(creds.to_owned());
        Ok(Self {
            instance,
            bus,
            creds,
        })
    }
}

fn over_nats(
    urls: Vec<String>,
    creds: &Path,
    ca: Option<&Path>,
    name: String,
    facts: BusFacts,
) -> Result<BusConfig, ConfigError> {
    let credential = credential(creds)?;
    let tls = ca.map(trust).transpose()?;
    if let Some(url) = urls.iter().find(|url| url.starts_with("tls:"))
        && tls.is_none()
    {
        return Err(ConfigError::Untrusted { url: url.clone() });
    }
    Ok(BusConfig::Nats {
        endpoint: Box::new(mesh_nats::Endpoint { urls, tls, name }),
        credential,
        facts,
    })
}

fn is_a_brokers(url: &str) -> bool {
    url.starts_with("amqps://") || url.starts_with("amqp://")
}

fn over_amqp(
    urls: &[String],
    creds: &Path,
    ca: Option<&Path>,
    name: &str,
) -> Result<BusConfig, ConfigError> {
    let credential = broker_credential(creds)?;
    let trust = match ca {
        Some(path) => {
            let pem =
                std::fs::read_to_string(path).map_err(|source| unreadable(CA, path, source))?;
            // The client of a broker asks the process for one; whoever installed another before keeps that.
            let _another = ring::default_provider().install_default();
            let trust = Trust::of_pem(&pem).map_err(|error| ConfigError::Certificate {
                path: path.to_owned(),
                why: error.to_string(),
            });
            Some(trust?)
        }
        None => None,
    };
    let endpoint = mesh_amqp::Endpoint::of_urls(urls, trust, name);
    let endpoint = endpoint.map_err(|error| match error {
        InvalidUrl::Untrusted { url } => ConfigError::Untrusted { url },
        source => ConfigError::Address { source },
    })?;
    Ok(BusConfig::Amqp {
        endpoint,
        credential,
    })
}

/// What is wrong with what a module was handed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A variable that is needed.
    #[error("{name} is not set; a module is started by a node's agent, which sets it")]
    Missing {
        /// Which.
        name: &'static str,
    },
    /// A variable that names nothing.
    #[error("{name} holds no name")]
    Name {
        /// Which.
        name: &'static str,
        /// Why not.
        source: InvalidName,
    },
    /// A file that cannot be read.
    #[error("{}, which {name} names, cannot be read", path.display())]
    File {
        /// Which variable.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file without a seed in it.
    #[error(
        "{}, which {CREDS} names, holds no credential: neither one line `SU…` nor a JWT with its seed", path.display()
    )]
    Credential {
        /// The file.
        path: PathBuf,
    },
    /// A file without a certificate in it.
    #[error("{}, which {CA} names, holds no certificate that can be trusted: {why}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// No address of a broker.
    #[error("{BUS_URL} names no broker")]
    Address {
        /// Why not.
        source: InvalidUrl,
    },
    /// TLS, and nobody to trust.
    #[error("{url} speaks TLS, and {CA} does not say whom to trust there")]
    Untrusted {
        /// The server.
        url: String,
    },
    /// An inbox the SDK would not use.
    #[error(
        "{INBOX} is {found:?}, and this release answers at {wanted:?}: build the module with the SDK of the mesh's release"
    )]
    Inbox {
        /// What was handed over.
        found: String,
        /// What it would have to be.
        wanted: String,
    },
}

fn named<T>(name: &'static str, text: &str) -> Result<T, ConfigError>
where
    T: std::str::FromStr<Err = InvalidName>,
{
    text.parse()
        .map_err(|source| ConfigError::Name { name, source })
}

fn urls(list: &str) -> Vec<String> {
    list.split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect()
}

fn broker_credential(path: &Path) -> Result<mesh_amqp::Credential, ConfigError> {
    let text = host::read_private(path).map_err(|source| unreadable(CREDS, path, source))?;
    Ok(mesh_amqp::Credential::of_seed(seed(&text, path)?))
}

fn credential(path: &Path) -> Result<Credential, ConfigError> {
    let text = host::read_private(path).map_err(|source| unreadable(CREDS, path, source))?;
    if text.contains(JWT_MARK) {
        return Ok(Credential::Creds(text));
    }
    Ok(Credential::NKeySeed(seed(&text, path)?.to_owned()))
}

/// The one seed in a credential.
fn seed<'a>(text: &'a str, path: &Path) -> Result<&'a str, ConfigError> {
    let mut seeds = text.lines().map(str::trim).filter(|l| l.starts_with("SU"));
    match (seeds.next(), seeds.next()) {
        (Some(seed), None) => Ok(seed),
        _ => Err(ConfigError::Credential {
            path: path.to_owned(),
        }),
    }
}

/// Trusts the authorities of a file and nobody else, with ring and without a provider of the whole process.
fn trust(path: &Path) -> Result<ClientConfig, ConfigError> {
    let text = std::fs::read(path).map_err(|source| unreadable(CA, path, source))?;
    let untrusted = |why: String| ConfigError::Certificate {
        path: path.to_owned(),
        why,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| untrusted(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| untrusted(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(untrusted("there is none in PEM".to_owned()));
    }
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| untrusted(error.to_string()))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

fn unreadable(name: &'static str, path: &Path, source: io::Error) -> ConfigError {
    ConfigError::File {
        name,
        path: path.to_owned(),
        source,
    }
}

const MODULE: &str = "MESH_MODULE";
const NODE: &str = "MESH_NODE";
const BUS_URL: &str = "MESH_BUS_URL";
const BUS_DOMAIN: &str = "MESH_BUS_DOMAIN";
const BUS_ACCOUNT: &str = "MESH_BUS_ACCOUNT";
const CREDS: &str = "MESH_CREDS";
const CA: &str = "MESH_CA";
const INBOX: &str = "MESH_INBOX";
/// What a managed bus calls the account that holds `JetStream`.
const DEFAULT_ACCOUNT: &str = "MESH";
const JWT_MARK: &str = "BEGIN NATS USER JWT";

#[cfg(test)]
mod tests;
