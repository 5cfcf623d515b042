//! The name a record is stored under.

use thiserror::Error;

/// A record's key: 1 to [`Key::MAX`] bytes. Keys sort bytewise, so numbers inside one are big-endian.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    /// The longest key taken, in bytes.
    pub const MAX: usize = 512;

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for Key {
    type Error = KeyError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, KeyError> {
        match bytes.len() {
            0 => Err(KeyError::Empty),
            length if length > Self::MAX => Err(KeyError::TooLong { length }),
            _ => Ok(Self(bytes)),
        }
    }
}

/// Why bytes are no key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No bytes at all.
    #[error("a key has no bytes")]
    Empty,
    /// Longer than [`Key::MAX`].
    #[error("a key of {length} bytes is longer than the {max} the store takes", max = Key::MAX)]
    TooLong {
        /// How long it is, in bytes.
        length: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_between_one_and_512_bytes() {
        let cases = [
            (0, Err(KeyError::Empty)),
            (1, Ok(())),
            (512, Ok(())),
            (513, Err(KeyError::TooLong { length: 513 })),
        ];
        for (length, expected) in cases {
            assert_eq!(
                Key::try_from(vec![7; length]).map(|_| ()),
                expected,
                "{length} bytes"
            );
        }
    }
}
