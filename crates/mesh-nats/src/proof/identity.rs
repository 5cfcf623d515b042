//! Answering a server's challenge with a credential: the one thing of a client that is not text.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use mesh_bus::BusError;
use mesh_model::PublicKey;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Map, Value};

use crate::connect::Credential;

/// The members of a `CONNECT` that prove who connects.
pub(super) fn proof_of(
    credential: &Credential,
    challenge: &str,
) -> Result<Map<String, Value>, BusError> {
    let (jwt, seed) = match credential {
        Credential::NKeySeed(seed) => (None, seed.trim()),
        Credential::Creds(text) => {
            let jwt = block(text, "NATS USER JWT").ok_or_else(no_key)?;
            let seed = block(text, "USER NKEY SEED").ok_or_else(no_key)?;
            (Some(jwt), seed)
        }
    };
    let (public, signature) = sign(seed, challenge.as_bytes()).ok_or_else(no_key)?;
    let mut members = Map::new();
    members.insert("sig".to_owned(), BASE64URL_NOPAD.encode(&signature).into());
    match jwt {
        Some(jwt) => members.insert("jwt".to_owned(), jwt.into()),
        None => members.insert("nkey".to_owned(), public.as_str().into()),
    };
    Ok(members)
}

/// The line between `-----BEGIN of-----` and its end.
fn block<'a>(text: &'a str, of: &str) -> Option<&'a str> {
    let begin = format!("BEGIN {of}");
    let mut lines = text.lines().skip_while(|line| !line.contains(&begin));
    lines.nth(1).map(str::trim)
}

/// Whose seed it is, and their signature.
fn sign(seed: &str, message: &[u8]) -> Option<(PublicKey, Vec<u8>)> {
    let decoded = BASE32_NOPAD.decode(seed.as_bytes()).ok()?;
    // Two bytes of kind, the seed, two of checksum.
    let raw: [u8; 32] = decoded.get(2..34)?.try_into().ok()?;
    let mut pkcs8 = ED25519_PKCS8.to_vec();
    pkcs8.extend(raw);
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8)).ok()?;
    let public = key.public_key()?;
    let public = public.last_chunk::<32>()?;
    let signer = key.choose_scheme(&[SignatureScheme::ED25519])?;
    Some((PublicKey::from_raw(*public), signer.sign(message).ok()?))
}

fn no_key() -> BusError {
    BusError::Refused {
        what: "a credential".to_owned(),
        why: "it holds no seed of a user's key".to_owned(),
    }
}

/// What stands before the 32 bytes of an ed25519 seed in PKCS #8 (RFC 8410).
const ED25519_PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

#[cfg(test)]
mod tests {
    use nkeys::KeyPair;

    use super::*;

    #[test]
    fn a_challenge_is_answered_as_the_library_of_keys_would() {
        let pair = KeyPair::new_user();
        let seed = pair.seed().unwrap();
        let (public, signature) = sign(&seed, b"challenge").unwrap();
        assert_eq!(public.as_str(), pair.public_key());
        assert!(pair.verify(b"challenge", &signature).is_ok());
        let creds = format!(
            "-----BEGIN NATS USER JWT-----\nJWT\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        let members = proof_of(&Credential::Creds(creds), "challenge").unwrap();
        assert_eq!(members.get("jwt"), Some(&"JWT".into()));
        let by_seed = proof_of(&Credential::NKeySeed(seed), "challenge").unwrap();
        assert_eq!(members.get("sig"), by_seed.get("sig"));
        assert_eq!(by_seed.get("nkey"), Some(&public.as_str().into()));
    }

    #[test]
    fn a_text_that_is_no_credential_proves_nothing() {
        for credential in [
            Credential::NKeySeed("SUAX".to_owned()),
            Credential::Creds("no creds".to_owned()),
        ] {
            assert!(proof_of(&credential, "challenge").is_err());
        }
    }
}
