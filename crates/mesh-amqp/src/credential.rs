//! A principal's secret, and what of it may be known: a password derived from a seed, and its hash as a public key.
//!
//! The holder of a seed logs in with a password derived from it; the mesh's records and requests hold the password's
//! hash and nothing else, in the place where they hold a public key on NATS. It serves the same ends there: it says who
//! somebody is, only the holder of the seed can prove it, and nobody can come from it to the seed.

use std::fmt;

use data_encoding::{BASE32_NOPAD, BASE64, HEXLOWER};
use mesh_model::PublicKey;
use sha2::{Digest, Sha256};

/// What a principal logs in with.
#[derive(Clone)]
pub struct Credential {
    password: String,
}

impl Credential {
    /// Of the seed of a user's key: the same text that is a credential on NATS.
    pub fn of_seed(seed: &str) -> Self {
        let digest = Sha256::new()
            .chain_update(PURPOSE)
            .chain_update(seed.as_bytes())
            .finalize();
        Self {
            password: HEXLOWER.encode(&digest),
        }
    }

    /// What records hold of it.
    pub fn public(&self) -> PublicKey {
        let digest = Sha256::new()
            .chain_update(SALT)
            .chain_update(self.password.as_bytes())
            .finalize();
        PublicKey::from_raw(digest.into())
    }

    /// The password, which is a secret: for what speaks AMQP by other means than these.
    pub fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(redacted)")
    }
}

/// What the broker is told of whoever has this key: the hash that the key is.
pub(crate) fn password_hash(key: &PublicKey) -> Option<String> {
    let bytes = BASE32_NOPAD.decode(key.as_str().as_bytes()).ok()?;
    // A byte for the kind, the key, two for a checksum.
    let digest = bytes.get(1..33)?;
    Some(BASE64.encode(&[&SALT, digest].concat()))
}

/// So that the password is of no use for anything else a seed is for.
const PURPOSE: &[u8] = b"mesh amqp password v1\0";
/// The same for everybody: a password is the hash of 32 random bytes, so no table of passwords has it, and no two are
/// equal. With it a hash is as long as a key.
const SALT: [u8; 4] = *b"mesh";

#[cfg(test)]
mod tests {
    use mesh_derive::render::rabbitmq::PasswordHash;

    use super::*;

    #[test]
    fn the_key_in_the_records_is_the_hash_a_broker_keeps_of_the_password() {
        let credential = Credential::of_seed("SUAsomebody");
        let kept = PasswordHash::new(SALT, credential.password());
        let told = password_hash(&credential.public());
        assert_eq!(told.as_deref(), Some(kept.as_str()));
        assert_ne!(
            Credential::of_seed("SUAsomebodyelse").public(),
            credential.public()
        );
    }

    #[test]
    fn a_credential_does_not_show_itself() {
        let credential = Credential::of_seed("SUAsomebody");
        let shown = format!("{credential:?}");
        assert!(!shown.contains("SUA") && !shown.contains(credential.password()));
    }
}
