//! The controller's signature.
//!
//! What is signed says itself what kind of message it is: `mesh-wire` puts that before the message's bytes, so that a
//! signature under one kind is never one under another.

use crate::keys::{SigningKey, SigningPublic};

/// The signature was not made over these bytes by this key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not signed by the controller this host was told to believe (key {by})")]
pub struct SignatureError {
    /// The key that should have signed.
    pub by: SigningPublic,
}

/// Signs a message (ed25519, 64 bytes).
#[must_use]
pub fn sign(key: &SigningKey, message: &[u8]) -> [u8; 64] {
    key.sign_raw(message)
}

/// Checks a message's signature against the pinned key.
pub fn verify(key: &SigningPublic, message: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
    if key.verifies_raw(message, signature) {
        Ok(())
    } else {
        Err(SignatureError { by: key.clone() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_controller_is_refused() {
        let [key, other] = [
            SigningKey::generate().unwrap(),
            SigningKey::generate().unwrap(),
        ];
        let error =
            verify(&key.public(), b"declaration", &sign(&other, b"declaration")).unwrap_err();
        assert!(error.to_string().contains(key.public().as_str()), "{error}");
    }

    #[test]
    fn a_signature_of_any_other_length_is_refused() {
        let key = SigningKey::generate().unwrap();
        let signature = sign(&key, b"declaration");
        for signature in [&[][..], &signature[..63], &[&signature[..], &[0]].concat()] {
            assert!(verify(&key.public(), b"declaration", signature).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn it_holds_for_these_bytes_and_no_others(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, bit in 0..8_u8) {
            let key = SigningKey::generate().unwrap();
            let signature = sign(&key, &bytes);
            prop_assert!(verify(&key.public(), &bytes, &signature).is_ok());

            let mut signed = [&signature[..], &bytes[..]].concat();
            let at = at.index(signed.len());
            signed[at] ^= 1 << bit;
            prop_assert!(verify(&key.public(), &signed[64..], &signed[..64]).is_err());
        }
    }
}
