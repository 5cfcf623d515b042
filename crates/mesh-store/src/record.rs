//! What is stored, and the seal that shows damage: `[kind u8][version u8][crc32 LE][body]`.
//!
//! The checksum covers key, kind, version and body, so a whole value found under another's key is seen too.

use thiserror::Error;

use crate::engine::RawOp;
use crate::key::{Key, KeyError};
use crate::meta;

/// What a body is: whoever reads it picks the decoder by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form {
    /// Which record this is.
    pub kind: u8,
    /// Which of its forms; a record that gains a field gets a new one.
    pub version: u8,
}

/// One change to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Store `body` under `key`, in place of what was there.
    Put {
        /// Where: 1 to [`Key::MAX`] bytes.
        key: Vec<u8>,
        /// What the body is.
        form: Form,
        /// The bytes: at most [`MAX_BODY`].
        body: Vec<u8>,
    },
    /// Forget what is under `key`, if anything is.
    Remove {
        /// Where: 1 to [`Key::MAX`] bytes.
        key: Vec<u8>,
    },
}

/// One stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is stored.
    pub key: Vec<u8>,
    /// What the body is.
    pub form: Form,
    /// The bytes as they were put.
    pub body: Vec<u8>,
}

/// The longest body taken, in bytes. Sixteen of these stay below a quarter of sled's segment, past which sled writes
/// files it never makes durable.
pub const MAX_BODY: usize = 200 * 1024;

/// Why one op can never be stored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The key is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The body is longer than [`MAX_BODY`].
    #[error("a body of {length} bytes is longer than the {MAX_BODY} the store takes")]
    Body {
        /// How long it is, in bytes.
        length: usize,
    },
}

/// Why stored bytes are not the record they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum UnsealError {
    #[error("a value is too short to be a record")]
    Short,
    #[error("a value's checksum does not match its key and content")]
    Checksum,
}

const CHECKSUM: usize = 4;

pub(crate) fn seal(key: &[u8], form: Form, body: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(2 + CHECKSUM + body.len());
    value.push(form.kind);
    value.push(form.version);
    value.extend_from_slice(&checksum(key, form, body).to_le_bytes());
    value.extend_from_slice(body);
    value
}

pub(crate) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Result<(Form, &'a [u8]), UnsealError> {
    let (&[kind, version], rest) = value.split_first_chunk().ok_or(UnsealError::Short)?;
    let (&stored, body) = rest
        .split_first_chunk::<CHECKSUM>()
        .ok_or(UnsealError::Short)?;
    let form = Form { kind, version };
    if u32::from_le_bytes(stored) == checksum(key, form, body) {
        Ok((form, body))
    } else {
        Err(UnsealError::Checksum)
    }
}

fn checksum(key: &[u8], form: Form, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(&[form.kind, form.version]);
    hasher.update(body);
    hasher.finalize()
}

/// The op as an engine takes it: checked, sealed, in the records' key space.
pub(crate) fn raw(op: Op) -> Result<RawOp, Refusal> {
    match op {
        Op::Put { key, form, body } => {
            if body.len() > MAX_BODY {
                return Err(Refusal::Body { length: body.len() });
            }
            let key = meta::record_key(&Key::try_from(key)?);
            let value = seal(&key, form, &body);
            Ok(RawOp::Put { key, value })
        }
        Op::Remove { key } => Ok(RawOp::Remove {
            key: meta::record_key(&Key::try_from(key)?),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORM: Form = Form {
        kind: 3,
        version: 1,
    };

    #[test]
    fn todays_code_reads_the_first_sealed_record() {
        let golden = include_bytes!("../tests/golden/sealed-1.bin");
        assert_eq!(
            unseal(b"\x01node/n1", golden),
            Ok((FORM, b"a body".as_slice()))
        );
        assert_eq!(seal(b"\x01node/n1", FORM, b"a body"), golden);
    }

    #[test]
    fn a_value_under_anothers_key_is_seen() {
        let value = seal(b"node/1", FORM, b"body");
        assert_eq!(unseal(b"node/2", &value), Err(UnsealError::Checksum));
    }

    #[test]
    fn a_body_over_the_bound_is_refused_and_one_at_it_is_not() {
        let put = |length| {
            raw(Op::Put {
                key: b"k".to_vec(),
                form: FORM,
                body: vec![0; length],
            })
        };
        assert!(put(MAX_BODY).is_ok());
        assert_eq!(
            put(MAX_BODY + 1),
            Err(Refusal::Body {
                length: MAX_BODY + 1
            })
        );
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_unsealed_and_any_flipped_bit_is_seen(
            key in prop::collection::vec(any::<u8>(), 1..40),
            kind: u8,
            version: u8,
            body in prop::collection::vec(any::<u8>(), 0..200),
            flip: prop::sample::Index,
        ) {
            let form = Form { kind, version };
            let mut value = seal(&key, form, &body);
            prop_assert_eq!(unseal(&key, &value), Ok((form, body.as_slice())));

            let bit = flip.index(value.len() * 8);
            value[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(unseal(&key, &value), Err(UnsealError::Checksum));
        }

        #[test]
        fn unsealing_any_bytes_never_panics(key: Vec<u8>, value: Vec<u8>) {
            let _: Result<_, UnsealError> = unseal(&key, &value);
        }
    }
}
