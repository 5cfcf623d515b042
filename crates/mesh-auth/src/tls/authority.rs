//! The mesh's certificate authority, and the server certificates it issues.

use std::{fmt, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use rustls::{
    RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};

use super::{CaFingerprint, fingerprint};
use crate::secret::SecretText;

/// The mesh's certificate authority: an ECDSA P-256 key and its own certificate, good for ten years.
///
/// Its subject is made from its key, so that certificate and key suffice to issue again after a restart.
pub struct Authority {
    key: KeyPair,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
}

impl Authority {
    /// Makes a new authority at `now` (unix seconds).
    pub fn generate(now: u64) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = authority_params(&key);
        set_validity(&mut params, now, AUTHORITY_LIFE)?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            key,
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
        })
    }

    /// Reads an authority back from what [`Self::certificate_pem`] and [`Self::key_pem`] gave.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, AuthorityError> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|_| AuthorityError::NoCertificate)?;
        let key = KeyPair::from_pem(key_pem).map_err(|_| AuthorityError::NoKey)?;
        let authority = Self {
            key,
            certificate,
            certificate_pem: certificate_pem.to_owned(),
        };
        authority.check_pair()?;
        Ok(authority)
    }

    /// The certificate, for everyone.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key, for the controller alone.
    pub fn key_pem(&self) -> SecretText {
        SecretText::new(self.key.serialize_pem())
    }

    /// What a token carries.
    pub fn fingerprint(&self) -> CaFingerprint {
        fingerprint(&self.certificate)
    }

    /// Issues a server certificate at `now` (unix seconds), good for a year, for `localhost`, the loopback
    /// addresses, and `names` (host names or addresses).
    pub fn issue(&self, names: &[String], now: u64) -> Result<ServerCertificate, AuthorityError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut all: Vec<String> = LOOPBACK.into_iter().map(str::to_owned).collect();
        for name in names {
            ServerName::try_from(name.as_str())
                .map_err(|_| AuthorityError::Name { name: name.clone() })?;
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        let mut params = CertificateParams::new(all)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "mesh bus");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let expires = set_validity(&mut params, now, SERVER_LIFE)?;
        let ca = authority_params(&self.key);
        let leaf = params.signed_by(&key, &Issuer::from_params(&ca, &self.key))?;
        Ok(ServerCertificate {
            chain_pem: format!("{}{}", leaf.pem(), self.certificate_pem),
            key_pem: SecretText::new(key.serialize_pem()),
            expires,
        })
    }

    /// Whether a server that presents this chain will be trusted at `at` (unix seconds) under every one of
    /// `names` and on loopback. If not, issue another; ask about a month from now to renew in time.
    pub fn still_vouches_for(&self, chain_pem: &str, names: &[String], at: u64) -> bool {
        let Ok(leaf) = CertificateDer::from_pem_slice(chain_pem.as_bytes()) else {
            return false;
        };
        let Ok(leaf) = ParsedCertificate::try_from(&leaf) else {
            return false;
        };
        let names = LOOPBACK.into_iter().chain(names.iter().map(String::as_str));
        self.check_signed(&leaf, at).is_ok()
            && names.into_iter().all(|name| {
                ServerName::try_from(name)
                    .is_ok_and(|name| verify_server_name(&leaf, &name).is_ok())
            })
    }

    fn check_signed(&self, leaf: &ParsedCertificate<'_>, at: u64) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
        let algorithms = ring::default_provider()
            .signature_verification_algorithms
            .all;
        verify_server_cert_signed_by_trust_anchor(leaf, &roots, &[], at, algorithms)
    }

    /// The key must be the certificate's, or nothing it issues would be trusted.
    fn check_pair(&self) -> Result<(), AuthorityError> {
        let key =
            PrivateKeyDer::try_from(self.key.serialize_der()).map_err(|_| AuthorityError::NoKey)?;
        let key = ring::default_provider()
            .key_provider
            .load_private_key(key)
            .map_err(|_| AuthorityError::NoKey)?;
        let pair = CertifiedKey::new(vec![self.certificate.clone()], Arc::clone(&key));
        pair.keys_match().map_err(|_| AuthorityError::OtherKey)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}, key redacted)", self.fingerprint())
    }
}

/// What a server presents, and the key it proves it with.
#[derive(Debug, Clone)]
pub struct ServerCertificate {
    /// The server's certificate and the authority's behind it: a pinning client must see both.
    pub chain_pem: String,
    /// The server's private key (PKCS #8).
    pub key_pem: SecretText,
    /// When it ends, in unix seconds.
    pub expires: u64,
}

/// Why an authority was not made or read, or a certificate not issued.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Not in PEM, or something else.
    #[error("the CA certificate is no certificate in PEM; restore it from a backup")]
    NoCertificate,
    /// Not in PEM, or something else.
    #[error("the CA key is no private key in PEM; restore it from a backup")]
    NoKey,
    /// Files of two authorities.
    #[error("the CA key is not the CA certificate's; restore both from the same backup")]
    OtherKey,
    /// Neither a host name nor an address.
    #[error("`{name}` is neither a host name nor an IP address, so no certificate can carry it")]
    Name {
        /// What was given.
        name: String,
    },
    /// The clock is centuries off.
    #[error("the time {now} (unix seconds) lies outside what a certificate can say; set the clock")]
    Clock {
        /// What the clock said.
        now: u64,
    },
    /// A certificate or key could not be made.
    #[error("the certificate could not be made")]
    Make(#[from] rcgen::Error),
}

fn authority_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(key.der_bytes()).into();
    let name = format!("mesh CA {}", HEXLOWER.encode(&[a, b, c, d]));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Good from a day before `now`, for hosts whose clock is behind, to `life` after it; the end is returned.
fn set_validity(
    params: &mut CertificateParams,
    now: u64,
    life: u64,
) -> Result<u64, AuthorityError> {
    if now > LAST_NOW {
        return Err(AuthorityError::Clock { now });
    }
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let expires = now + life;
    params.not_before = epoch + Duration::from_secs(now.saturating_sub(DAY));
    params.not_after = epoch + Duration::from_secs(expires);
    Ok(expires)
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const DAY: u64 = 24 * 60 * 60;
const AUTHORITY_LIFE: u64 = 3652 * DAY;
const SERVER_LIFE: u64 = 365 * DAY;
/// The year 9000: certificates, and the arithmetic on their dates, end with 9999.
const LAST_NOW: u64 = 221_845_392_000;
