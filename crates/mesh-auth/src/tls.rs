//! Whom the two ends of a TLS connection of the mesh trust.
//!
//! The controller makes one certificate authority and issues its bus's certificates from it. A host knows of it,
//! from its token, the fingerprint alone: [`pinned_client_config`]. What it then saw is written down and trusted
//! from there on: [`ca_client_config`]. The crypto provider is given to each configuration; none is installed.

mod authority;
mod trust;

pub use authority::{Authority, AuthorityError, ServerCertificate};
pub use trust::{CaNotPresented, PinnedCa, TrustError, ca_client_config, pinned_client_config};

use std::{fmt, str::FromStr};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

/// The SHA-256 of a CA certificate's DER.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaFingerprint([u8; 32]);

impl CaFingerprint {
    /// The fingerprint these bytes are.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The fingerprint of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> CaFingerprint {
    CaFingerprint(Sha256::digest(certificate).into())
}

impl fmt::Display for CaFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for CaFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaFingerprint({self})")
    }
}

impl FromStr for CaFingerprint {
    type Err = FingerprintTextError;

    fn from_str(text: &str) -> Result<Self, FingerprintTextError> {
        let bytes = HEXLOWER_PERMISSIVE
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| FingerprintTextError {
            found: text.chars().count(),
        })
    }
}

/// The text is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fingerprint is 64 hexadecimal digits, the SHA-256 of the CA certificate; this text has {found} characters"
)]
pub struct FingerprintTextError {
    /// Characters there were.
    pub found: usize,
}

#[cfg(test)]
mod tests;
