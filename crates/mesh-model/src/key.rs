//! Public keys and sealed bytes: what is known of a principal besides its name. No secret is ever one of these.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: it has 56 characters of A-Z and 2-7 and begins with {prefix}")]
pub struct InvalidPublicKey {
    text: String,
    what: &'static str,
    prefix: &'static str,
}

fn encoded(text: &str, prefixes: &[char]) -> bool {
    text.len() == 56
        && text.starts_with(prefixes)
        && text.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'2'..=b'7'))
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $prefixes:expr, $shown:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a text as a key; its form is checked here, its checksum by whoever uses it for cryptography.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidPublicKey> {
                let text = text.into();
                if encoded(&text, $prefixes) {
                    Ok(Self(text))
                } else {
                    Err(InvalidPublicKey { text, what: $what, prefix: $shown })
                }
            }

            /// The key as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidPublicKey;
            fn try_from(text: String) -> Result<Self, InvalidPublicKey> {
                Self::new(text)
            }
        }

        impl FromStr for $name {
            type Err = InvalidPublicKey;
            fn from_str(text: &str) -> Result<Self, InvalidPublicKey> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(key: $name) -> Self {
                key.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

keys! {
    /// An ed25519 nkey: a user's (`U…`) or an account's (`A…`).
    PublicKey, "public nkey", &['U', 'A'], "U or A";
    /// An x25519 xkey, to which secrets are sealed.
    BoxPublicKey, "public xkey", &['X'], "X";
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
