//! What a client accepts: servers of the one authority it was told of.

use std::sync::{Arc, OnceLock};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use super::{CaFingerprint, fingerprint};

/// A client configuration that trusts servers whose certificate was issued by the authority with this
/// fingerprint, and nobody else. After a handshake the [`PinnedCa`] has the authority's certificate.
pub fn pinned_client_config(
    pinned: CaFingerprint,
) -> Result<(ClientConfig, Arc<PinnedCa>), TrustError> {
    let provider = Arc::new(ring::default_provider());
    let ca = Arc::new(PinnedCa {
        pinned,
        provider: Arc::clone(&provider),
        found: OnceLock::new(),
    });
    let verifier: Arc<dyn ServerCertVerifier> = Arc::<PinnedCa>::clone(&ca);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok((config, ca))
}

/// A client configuration that trusts servers of the authorities in `ca_pem`, and nobody else.
pub fn ca_client_config(ca_pem: &str) -> Result<ClientConfig, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.map_err(|_| TrustError::NotPem)?)?;
    }
    if roots.is_empty() {
        return Err(TrustError::NotPem);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Why a client configuration was not made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrustError {
    /// No certificate in the text.
    #[error(
        "the CA file holds no certificate in PEM; enrol again, or copy ca.pem from another node"
    )]
    NotPem,
    /// rustls refused the certificate or the provider.
    #[error("the CA certificate cannot be trusted")]
    Tls(#[from] Error),
}

/// Verifies that a server's certificate was issued by the pinned authority, whose certificate it must present.
#[derive(Debug)]
pub struct PinnedCa {
    pinned: CaFingerprint,
    provider: Arc<CryptoProvider>,
    found: OnceLock<CertificateDer<'static>>,
}

impl PinnedCa {
    /// The authority's certificate in PEM, once a server that it vouches for has presented it.
    pub fn certificate_pem(&self) -> Option<String> {
        self.found.get().map(|certificate| {
            let body = data_encoding::BASE64.encode(certificate);
            let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
            for (at, character) in body.chars().enumerate() {
                if at > 0 && at % PEM_LINE == 0 {
                    pem.push('\n');
                }
                pem.push(character);
            }
            pem.push_str("\n-----END CERTIFICATE-----\n");
            pem
        })
    }
}

/// The server's chain lacks the pinned authority: another mesh's server, an impostor, or one that does not
/// present its authority's certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server presented {presented} certificate(s), and none is the mesh's CA with the fingerprint {pinned}; check \
     that the address is the mesh's, and that its server presents the CA certificate behind its own"
)]
pub struct CaNotPresented {
    /// Whom the client trusts.
    pub pinned: CaFingerprint,
    /// How many certificates the server presented.
    pub presented: usize,
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        behind: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Only behind the leaf: an authority never serves with its own certificate.
        let ca = behind
            .iter()
            .find(|certificate| fingerprint(certificate) == self.pinned);
        let ca = ca.ok_or_else(|| {
            let refused = CaNotPresented {
                pinned: self.pinned,
                presented: behind.len() + 1,
            };
            Error::Other(OtherError(Arc::new(refused)))
        })?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        let leaf = ParsedCertificate::try_from(leaf)?;
        // No intermediates: the leaf comes from exactly this authority.
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&leaf, &roots, &[], now, algorithms)?;
        verify_server_name(&leaf, name)?;
        self.found.get_or_init(|| ca.clone().into_owned());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            leaf,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            leaf,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

const PEM_LINE: usize = 64;
