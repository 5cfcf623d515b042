//! Secrets sealed to one box key, so that whoever carries or stores them cannot read them.
//!
//! A sealed secret is `1` (the version, one byte), the public text of a key made for this one secret and thrown
//! away (56 bytes), and what nkeys seals between that key and the receiver's (`xkv1`, nonce, `crypto_box`). The
//! sender is thereby unproven on purpose: who says it is proven by the signature of the declaration or the
//! answer that carries it, and no long-lived key of the controller can open what it once sealed.

use std::fmt;

use nkeys::XKey;

use crate::{
    entropy::{EntropyError, random},
    keys::{BoxKey, BoxPublic},
    secret::SecretBytes,
};

/// A secret only one box key opens. Safe to store and to send.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Takes bytes [`seal`] once made; whether they are whole shows when they are opened.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes to store or send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes to store or send.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// Why a secret was not sealed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SealError {
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The box was not made.
    #[error("nothing can be sealed to the box key {to}; give the receiver a new one")]
    Receiver {
        /// Whom it was for.
        to: BoxPublic,
    },
}

/// Why a sealed secret was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not as long as the shortest sealed secret.
    #[error("the sealed secret is cut short ({found} bytes)")]
    CutShort {
        /// How many bytes there were.
        found: usize,
    },
    /// Sealed by a later release, or not sealed at all.
    #[error(
        "the secret is sealed in form {found}, and this release opens form {VERSION}; update it"
    )]
    Version {
        /// The version byte.
        found: u8,
    },
    /// Sealed to another key, or changed since.
    #[error("the secret does not open with {with}: it was sealed to another key, or changed since")]
    Refused {
        /// The key it was tried with.
        with: BoxPublic,
    },
}

/// Seals `plain` so that only the holder of `to`'s other half reads it.
pub fn seal(to: &BoxPublic, plain: &[u8]) -> Result<Sealed, SealError> {
    let refused = || SealError::Receiver { to: to.clone() };
    let receiver = XKey::from_public_key(to.as_str()).map_err(|_| refused())?;
    let sender = BoxKey::generate()?;
    let nonce = *random::<24>()?;
    let boxed = sender
        .xkey()
        .seal_with_nonce(plain, &receiver, nonce.into())
        .map_err(|_| refused())?;
    Ok(Sealed(
        [&[VERSION], sender.public().as_str().as_bytes(), &boxed].concat(),
    ))
}

/// Opens what was sealed to `key`.
pub fn open(key: &BoxKey, sealed: &Sealed) -> Result<SecretBytes, OpenError> {
    let cut_short = OpenError::CutShort {
        found: sealed.0.len(),
    };
    let Some((version, rest)) = sealed.0.split_first() else {
        return Err(cut_short);
    };
    if *version != VERSION {
        return Err(OpenError::Version { found: *version });
    }
    let Some((sender, boxed)) = rest.split_at_checked(SENDER_LENGTH) else {
        return Err(cut_short);
    };
    let refused = || OpenError::Refused { with: key.public() };
    let sender = str::from_utf8(sender).map_err(|_| refused())?;
    let sender = sender.parse::<BoxPublic>().map_err(|_| refused())?;
    let sender = XKey::from_public_key(sender.as_str()).map_err(|_| refused())?;
    key.xkey()
        .open(boxed, &sender)
        .map(SecretBytes::new)
        .map_err(|_| refused())
}

const VERSION: u8 = 1;
const SENDER_LENGTH: usize = 56;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_key_does_not_open_it() {
        let [key, other] = [BoxKey::generate().unwrap(), BoxKey::generate().unwrap()];
        let sealed = seal(&key.public(), b"hunter2").unwrap();
        assert_eq!(
            open(&other, &sealed).unwrap_err(),
            OpenError::Refused {
                with: other.public()
            }
        );
    }

    #[test]
    fn equal_secrets_are_sealed_differently() {
        let key = BoxKey::generate().unwrap();
        assert_ne!(
            seal(&key.public(), b"hunter2").unwrap(),
            seal(&key.public(), b"hunter2").unwrap()
        );
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let key = BoxKey::generate().unwrap();
        let sealed = seal(&key.public(), b"hunter2").unwrap().into_bytes();
        let with = |bytes: &[u8]| open(&key, &Sealed::from_bytes(bytes.to_vec())).unwrap_err();
        assert_eq!(with(&[]), OpenError::CutShort { found: 0 });
        assert_eq!(with(&sealed[..40]), OpenError::CutShort { found: 40 });
        assert_eq!(with(b"\x02anything"), OpenError::Version { found: 2 });
        for end in 57..sealed.len() {
            assert!(
                matches!(with(&sealed[..end]), OpenError::Refused { .. }),
                "cut at {end}"
            );
        }
        let printed = format!("{:?} {}", with(b"\x02hunter2"), with(b"\x02hunter2"));
        assert!(!printed.contains("hunter2"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn it_opens_whole_and_with_any_bit_flipped_not_at_all(
            plain: Vec<u8>, at: prop::sample::Index, bit in 0..8_u8,
        ) {
            let key = BoxKey::generate().unwrap();
            let mut bytes = seal(&key.public(), &plain).unwrap().into_bytes();
            let opened = open(&key, &Sealed::from_bytes(bytes.clone())).unwrap();
            prop_assert_eq!(opened.expose(), &plain[..]);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(open(&key, &Sealed::from_bytes(bytes)).is_err());
        }
    }
}
