//! Where a broker is, and how it proves that it is the one.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Where a broker is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its servers, host and port of each; one that does not answer makes the next be tried.
    pub servers: Vec<(String, u16)>,
    /// The virtual host the mesh has to itself.
    pub vhost: String,
    /// What the name of each of the mesh's users begins with. Users belong to a broker and not to a virtual host: two
    /// meshes on one broker differ in this. Empty for a mesh that has its broker to itself.
    pub users: String,
    /// By whom the broker is vouched for; plain TCP without.
    pub trust: Option<Trust>,
    /// What connections are called in the broker's own lists.
    pub name: String,
}

/// The authority that vouches for a broker.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

/// A text that holds no certificate to trust.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no authority to trust: {0}; give its certificate in PEM")]
pub struct InvalidTrust(String);

impl Trust {
    /// Whom these certificates, in PEM, vouch for. A provider of cryptography is installed by the process.
    pub fn of_pem(pem: &str) -> Result<Self, InvalidTrust> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| InvalidTrust(error.to_string()))?;
            let added = roots.add(certificate);
            added.map_err(|error| InvalidTrust(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(InvalidTrust("there is no certificate in it".to_owned()));
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
        })
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}
