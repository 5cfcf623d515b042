//! The controller's signature under a declaration.
//!
//! What is signed is [`DOMAIN`] followed by the declaration's bytes, so that a signature made for anything else
//! is never one for a declaration, and the other way round.

use crate::keys::{SigningKey, SigningPublic};

/// What stands before a declaration's bytes when they are signed.
pub const DOMAIN: &[u8] = b"mesh declaration v1\0";

/// The signature was not made over these bytes by this key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the declaration is not signed by the controller this node enrolled with (key {by})")]
pub struct SignatureError {
    /// The key that should have signed.
    pub by: SigningPublic,
}

/// Signs a declaration's bytes (ed25519, 64 bytes).
#[must_use]
pub fn sign(key: &SigningKey, declaration: &[u8]) -> [u8; 64] {
    key.sign_raw(&separated(declaration))
}

/// Checks a declaration's signature against the pinned key.
pub fn verify(
    key: &SigningPublic,
    declaration: &[u8],
    signature: &[u8],
) -> Result<(), SignatureError> {
    if key.verifies_raw(&separated(declaration), signature) {
        Ok(())
    } else {
        Err(SignatureError { by: key.clone() })
    }
}

fn separated(declaration: &[u8]) -> Vec<u8> {
    [DOMAIN, declaration].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_signature_of_the_bare_bytes_is_not_one_of_a_declaration() {
        let key = SigningKey::generate().unwrap();
        let bare = key.sign_raw(b"declaration");
        assert_eq!(
            verify(&key.public(), b"declaration", &bare),
            Err(SignatureError { by: key.public() })
        );
    }

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
