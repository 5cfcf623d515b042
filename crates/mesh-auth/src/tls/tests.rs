//! Whole handshakes in memory: who is trusted, and what a refusal says.

use std::sync::Arc;

use rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    version::{TLS12, TLS13},
};

use super::*;
use crate::secret::SecretText;

/// What rustls verifies against is the machine's clock, so certificates are made around it.
fn now() -> u64 {
    UnixTime::now().as_secs()
}

fn server(
    chain_pem: &str,
    key_pem: &str,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap();
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

/// Carries bytes between the two until both are done, or one refuses.
fn shake(client: ClientConfig, server: ServerConfig, name: &str) -> Result<(), rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets()?;
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}

fn issued(authority: &Authority, at: u64) -> ServerCertificate {
    authority
        .issue(&["bus.example".to_owned(), "192.0.2.7".to_owned()], at)
        .unwrap()
}

fn pinned_shake(
    pinned: CaFingerprint,
    server_config: ServerConfig,
    name: &str,
) -> (Result<(), String>, Arc<PinnedCa>) {
    let (client, ca) = pinned_client_config(pinned).unwrap();
    (
        shake(client, server_config, name).map_err(|error| error.to_string()),
        ca,
    )
}

#[test]
fn the_right_fingerprint_is_trusted_and_the_ca_then_known() {
    let authority = Authority::generate(now()).unwrap();
    let certificate = issued(&authority, now());
    for version in [&TLS12, &TLS13] {
        for name in ["bus.example", "localhost", "127.0.0.1", "::1", "192.0.2.7"] {
            let server = || {
                server(
                    &certificate.chain_pem,
                    certificate.key_pem.expose(),
                    &[version],
                )
            };
            let (outcome, ca) = pinned_shake(authority.fingerprint(), server(), name);
            assert_eq!(outcome, Ok(()), "{name} by {version:?}");
            let pem = ca.certificate_pem().unwrap();
            assert_eq!(
                fingerprint(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()),
                authority.fingerprint()
            );
            assert_eq!(
                shake(ca_client_config(&pem).unwrap(), server(), name),
                Ok(())
            );
        }
    }
}

/// What a client that pins `pinned` says to this server as `bus.example`, having kept nothing of it.
fn refusal(pinned: CaFingerprint, chain_pem: &str, key_pem: &SecretText, name: &str) -> String {
    let (outcome, ca) = pinned_shake(pinned, server(chain_pem, key_pem.expose(), &[&TLS13]), name);
    assert_eq!(ca.certificate_pem(), None);
    outcome.unwrap_err()
}

#[test]
fn another_authority_is_refused_by_fingerprint() {
    let [ours, other] = [
        Authority::generate(now()).unwrap(),
        Authority::generate(now()).unwrap(),
    ];
    let theirs = issued(&other, now());
    let text = refusal(
        ours.fingerprint(),
        &theirs.chain_pem,
        &theirs.key_pem,
        "bus.example",
    );
    assert!(text.contains("presented 2 certificate(s)"), "{text}");
    assert!(text.contains(&ours.fingerprint().to_string()), "{text}");
}

#[test]
fn a_server_that_shows_our_ca_behind_a_certificate_of_another_is_refused() {
    let [ours, other] = [
        Authority::generate(now()).unwrap(),
        Authority::generate(now()).unwrap(),
    ];
    let theirs = issued(&other, now());
    let leaf = theirs
        .chain_pem
        .strip_suffix(other.certificate_pem())
        .unwrap();
    let chain = format!("{leaf}{}", ours.certificate_pem());
    let text = refusal(ours.fingerprint(), &chain, &theirs.key_pem, "bus.example");
    assert_eq!(text, "invalid peer certificate: UnknownIssuer");
}

#[test]
fn a_server_that_does_not_show_its_ca_is_refused() {
    let authority = Authority::generate(now()).unwrap();
    let certificate = issued(&authority, now());
    let leaf = certificate
        .chain_pem
        .strip_suffix(authority.certificate_pem())
        .unwrap();
    let text = refusal(
        authority.fingerprint(),
        leaf,
        &certificate.key_pem,
        "bus.example",
    );
    assert!(text.contains("presented 1 certificate(s)"), "{text}");
}

#[test]
fn the_ca_certificate_itself_serves_nobody() {
    let authority = Authority::generate(now()).unwrap();
    let text = refusal(
        authority.fingerprint(),
        authority.certificate_pem(),
        &authority.key_pem(),
        "bus.example",
    );
    assert!(text.contains("presented 1 certificate(s)"), "{text}");
}

#[test]
fn another_name_is_refused() {
    let authority = Authority::generate(now()).unwrap();
    let certificate = issued(&authority, now());
    for name in ["other.example", "192.0.2.8"] {
        let text = refusal(
            authority.fingerprint(),
            &certificate.chain_pem,
            &certificate.key_pem,
            name,
        );
        assert!(text.contains("certificate not valid for name"), "{text}");
    }
}

#[test]
fn an_expired_and_a_future_certificate_are_refused() {
    let authority = Authority::generate(now()).unwrap();
    let year = 366 * 24 * 60 * 60;
    for (at, expected) in [(now() - year, "expired"), (now() + year, "not valid yet")] {
        let certificate = issued(&authority, at);
        let text = refusal(
            authority.fingerprint(),
            &certificate.chain_pem,
            &certificate.key_pem,
            "bus.example",
        );
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_leaf_of_ours_vouches_for_no_other() {
    let authority = Authority::generate(now()).unwrap();
    let certificate = issued(&authority, now());
    // A server whose own certificate is taken for an authority's.
    let key = rcgen::KeyPair::from_pem(certificate.key_pem.expose()).unwrap();
    let issuer = rcgen::Issuer::new(rcgen::CertificateParams::default(), key);
    let forged_key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["bus.example".to_owned()]).unwrap();
    let forged = params.signed_by(&forged_key, &issuer).unwrap();
    let chain = format!("{}{}", forged.pem(), certificate.chain_pem);
    let text = refusal(
        authority.fingerprint(),
        &chain,
        &SecretText::new(forged_key.serialize_pem()),
        "bus.example",
    );
    assert_eq!(text, "invalid peer certificate: UnknownIssuer");
}

#[test]
fn an_authority_read_back_issues_what_is_trusted() {
    let first = Authority::generate(now()).unwrap();
    let again = Authority::from_pem(first.certificate_pem(), first.key_pem().expose()).unwrap();
    assert_eq!(again.fingerprint(), first.fingerprint());
    let certificate = issued(&again, now());
    let server = server(
        &certificate.chain_pem,
        certificate.key_pem.expose(),
        &[&TLS13],
    );
    assert_eq!(
        pinned_shake(first.fingerprint(), server, "bus.example").0,
        Ok(())
    );
}

#[test]
fn files_of_two_authorities_do_not_make_one() {
    let [one, two] = [
        Authority::generate(now()).unwrap(),
        Authority::generate(now()).unwrap(),
    ];
    let read = |certificate: &str, key: &str| Authority::from_pem(certificate, key).unwrap_err();
    assert!(matches!(
        read(one.certificate_pem(), two.key_pem().expose()),
        AuthorityError::OtherKey
    ));
    assert!(matches!(
        read("", one.key_pem().expose()),
        AuthorityError::NoCertificate
    ));
    assert!(matches!(
        read(one.certificate_pem(), "hunter2"),
        AuthorityError::NoKey
    ));
    assert!(matches!(
        ca_client_config("no certificate"),
        Err(TrustError::NotPem)
    ));
}

#[test]
fn a_certificate_is_asked_for_before_it_ends_or_when_a_name_is_new() {
    let [authority, other] = [
        Authority::generate(now()).unwrap(),
        Authority::generate(now()).unwrap(),
    ];
    let certificate = issued(&authority, now());
    let names = ["bus.example".to_owned()];
    let vouches =
        |names: &[String], at| authority.still_vouches_for(&certificate.chain_pem, names, at);
    assert!(vouches(&names, now()));
    assert!(vouches(&[], certificate.expires - 1));
    assert!(!vouches(&names, certificate.expires + 1));
    assert!(!vouches(&["new.example".to_owned()], now()));
    assert!(!vouches(&["not a name".to_owned()], now()));
    assert!(!other.still_vouches_for(&certificate.chain_pem, &names, now()));
    assert!(!authority.still_vouches_for("", &names, now()));
}

#[test]
fn what_no_certificate_can_say_is_refused() {
    let authority = Authority::generate(now()).unwrap();
    let error = authority
        .issue(&["not a name".to_owned()], now())
        .unwrap_err();
    assert!(
        error.to_string().starts_with("`not a name` is neither"),
        "{error}"
    );
    assert!(matches!(
        Authority::generate(u64::MAX),
        Err(AuthorityError::Clock { now: u64::MAX })
    ));
    assert!(matches!(
        authority.issue(&[], LAST + 1),
        Err(AuthorityError::Clock { .. })
    ));
    assert!(authority.issue(&[], LAST).is_ok() && authority.issue(&[], 0).is_ok());
}

/// The year 9000.
const LAST: u64 = 221_845_392_000;

#[test]
fn no_private_key_is_printed() {
    let authority = Authority::generate(now()).unwrap();
    let certificate = issued(&authority, now());
    let printed = format!("{authority:?} {certificate:#?}");
    assert!(
        !printed.contains("PRIVATE KEY") && !printed.contains("MIG"),
        "{printed}"
    );
}

#[test]
fn a_fingerprint_is_64_hexadecimal_digits() {
    let fingerprint = CaFingerprint::from_bytes([0xab; 32]);
    assert_eq!(fingerprint.to_string(), "ab".repeat(32));
    assert_eq!("ab".repeat(32).parse(), Ok(fingerprint));
    assert_eq!("AB".repeat(32).parse(), Ok(fingerprint));
    for text in [
        "",
        "ab",
        &"ab".repeat(33),
        &"zz".repeat(32),
        &"ab:".repeat(32),
    ] {
        let error = text.parse::<CaFingerprint>().unwrap_err();
        assert_eq!(error, FingerprintTextError { found: text.len() });
    }
}
