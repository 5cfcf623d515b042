//! Public keys and sealed bytes: what is known of a principal besides its name. No secret is ever one of these.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::texts;

/// A text that is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no {what}: it has 56 characters of A-Z and 2-7, begins with {letter} and its checksum fits"
)]
pub struct InvalidPublicKey {
    text: String,
    what: &'static str,
    letter: char,
}

/// The digits of base 32, as keys are written.
const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Bytes in a key's text: its kind, the key, a checksum. They fill their 56 digits to the last bit.
const BYTES: usize = 1 + 32 + 2;

/// CRC-16 with the polynomial of XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}

/// Kind, key and checksum, low byte first, in base 32 without padding: the form servers check before they load a user.
fn encode(kind: u8, raw: [u8; 32]) -> String {
    let mut bytes = vec![kind];
    bytes.extend(raw);
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
        .chunks(5)
        .flat_map(|five| {
            let bits = five
                .iter()
                .fold(0, |bits, byte| (bits << 8) | u64::from(*byte));
            (0..8).rev().map(move |place| (bits >> (place * 5)) & 31)
        })
        .filter_map(|digit| DIGITS.get(usize::try_from(digit).ok()?).copied())
        .map(char::from)
        .collect()
}

/// Whether a text is what [`encode`] makes of some key of this kind.
fn encoded(text: &str, kind: u8) -> bool {
    // Eight digits are five bytes, so no digit holds bits of two groups.
    let value = |digit: &u8| DIGITS.iter().position(|it| it == digit);
    let bytes: Vec<u8> = text
        .as_bytes()
        .chunks(8)
        .flat_map(|eight| {
            let bits = eight.iter().try_fold(0, |bits, digit| {
                Some((bits << 5) | u64::try_from(value(digit)?).ok()?)
            });
            let bytes = bits.map(|bits| bits.to_be_bytes().into_iter().skip(3));
            bytes.into_iter().flatten()
        })
        .collect();
    text.len() == 56
        && bytes.len() == BYTES
        && bytes.first() == Some(&kind)
        && bytes
            .split_last_chunk()
            .is_some_and(|(key, crc)| checksum(key).to_le_bytes() == *crc)
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $letter:literal, $kind:expr;)*) => {$(
        texts! {
            $(#[$doc])*
            $name or InvalidPublicKey;
        }

        impl $name {
            /// Takes a text as a key: its kind and its checksum are checked, as a server checks them. Whether anybody
            /// holds the secret half shows when it is used.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidPublicKey> {
                let text = text.into();
                if encoded(&text, $kind) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidPublicKey { text, what: $what, letter: $letter })
                }
            }

            /// The key that has these bytes.
            pub fn from_raw(raw: [u8; 32]) -> Self {
                Self(encode($kind, raw).into())
            }
        }
    )*};
}

keys! {
    /// A user's ed25519 nkey, `U…`: who somebody is on the bus.
    PublicKey, "public user nkey", 'U', 20 << 3;
    /// An x25519 xkey, `X…`, to which secrets are sealed.
    BoxPublicKey, "public xkey", 'X', 23 << 3;
}

/// Bytes that only the holder of one xkey can open.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(pub Vec<u8>);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the NATS documentation, and two made by Go's nkeys.
    const USER: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
    const CURVE: &str = "XBUJMZHVOPQ2SK5VD3TY4VNBPVU2YFGRLK6EFPEPSMVDUYEBSROWZCEA";
    const ACCOUNT: &str = "ACODERUVFFAWZQDSS6SBIACUA5O6SXF7HJ3YTYXBALHZP3P7R4BUO4J2";

    #[test]
    fn a_key_is_of_its_kind() {
        assert_eq!(PublicKey::new(USER).unwrap().as_str(), USER);
        assert_eq!(BoxPublicKey::new(CURVE).unwrap().as_str(), CURVE);
        for text in [CURVE, ACCOUNT] {
            assert!(PublicKey::new(text).is_err(), "{text}");
        }
        for text in [USER, ACCOUNT] {
            assert!(BoxPublicKey::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_that_only_looks_like_a_key_is_none() {
        let looks = format!("U{}", "A".repeat(55));
        let longer = format!("{USER}AAAAAAAA");
        let lower = USER.to_lowercase();
        let shorter: String = USER.chars().take(48).collect();
        for text in ["", "U", &looks, &longer, &lower, &shorter, &"ä".repeat(28)] {
            assert!(PublicKey::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_wrong_digit_is_seen() {
        for at in 0..USER.len() {
            for digit in DIGITS.iter().map(|it| char::from(*it)) {
                let text: String = USER
                    .chars()
                    .enumerate()
                    .map(|(place, own)| if place == at { digit } else { own })
                    .collect();
                assert_eq!(PublicKey::new(&*text).is_ok(), text == USER, "{text}");
            }
        }
    }

    #[test]
    fn bytes_make_a_key_that_is_one() {
        for byte in 0..=255 {
            let raw = [byte; 32];
            let (user, curve) = (PublicKey::from_raw(raw), BoxPublicKey::from_raw(raw));
            assert_eq!(PublicKey::new(user.as_str()), Ok(user.clone()));
            assert_eq!(BoxPublicKey::new(curve.as_str()), Ok(curve.clone()));
            assert!(user.as_str().starts_with('U') && curve.as_str().starts_with('X'));
        }
    }
}
