//! What a broker keeps of a password.

use data_encoding::BASE64;
use sha2::{Digest, Sha256};

/// A salted hash of a password, in the broker's form: it gives it back as it was imported.
///
/// It is one round of SHA-256, so a password is a generated one of 32 bytes, never a person's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// The broker's word for how it is made.
    pub const ALGORITHM: &'static str = "rabbit_password_hashing_sha256";

    /// Of this password with this salt: four bytes that nobody else's password has.
    pub fn new(salt: [u8; 4], password: &str) -> Self {
        let digest = Sha256::new()
            .chain_update(salt)
            .chain_update(password.as_bytes())
            .finalize();
        Self(BASE64.encode(&[salt.as_slice(), digest.as_slice()].concat()))
    }

    /// The hash as it is imported.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D47
    #[test]
    fn a_password_is_hashed_as_a_broker_does() {
        // What RabbitMQ 3.10.8 kept of this password of a user it had made.
        let kept = "vobXnkcj5AxCKFvOaE+z7lMmfaLmZH0e2DIMrvrpuV55vE/T";
        let raw = BASE64.decode(kept.as_bytes()).unwrap();
        let salt = raw.first_chunk().unwrap();
        assert_eq!(PasswordHash::new(*salt, "x").as_str(), kept);
        assert_ne!(PasswordHash::new(*salt, "y").as_str(), kept);
    }
}
