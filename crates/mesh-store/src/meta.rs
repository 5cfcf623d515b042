//! What the store knows about itself, kept beside the records in the same transactions.
//!
//! Raw keys: `00 00` schema, `00 01` store id, `00 02` commit number, `01 ..` the records. The schema sorts first, so
//! a store of a newer schema is known before anything else of it is judged.

use std::fmt;

use thiserror::Error;

use crate::engine::RawOp;
use crate::key::Key;
use crate::record::{Entry, Form, seal, unseal};

/// The layout of raw keys and values written here.
pub(crate) const SCHEMA: u32 = 1;

const SCHEMA_KEY: &[u8] = &[0, 0];
const ID_KEY: &[u8] = &[0, 1];
const COMMIT_KEY: &[u8] = &[0, 2];
const RECORDS: u8 = 1;
const META: Form = Form {
    kind: 0,
    version: 1,
};

/// Which store this is: drawn once when it is created, and anew when one is restored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// An id from 16 random bytes.
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// The 16 bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

pub(crate) fn record_key(key: &Key) -> Vec<u8> {
    let mut raw = Vec::with_capacity(1 + key.as_bytes().len());
    raw.push(RECORDS);
    raw.extend_from_slice(key.as_bytes());
    raw
}

/// What a new store holds before its first commit.
pub(crate) fn birth(id: StoreId, commit: u64) -> Vec<RawOp> {
    vec![
        put(SCHEMA_KEY, &SCHEMA.to_le_bytes()),
        put(ID_KEY, &id.0),
        commit_op(commit),
    ]
}

/// The op that moves the commit number, part of every commit.
pub(crate) fn commit_op(commit: u64) -> RawOp {
    put(COMMIT_KEY, &commit.to_le_bytes())
}

fn put(key: &[u8], body: &[u8]) -> RawOp {
    RawOp::Put {
        key: key.to_vec(),
        value: seal(key, META, body),
    }
}

/// Why raw pairs are no store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Damaged(String),
    #[error("schema {0}")]
    FutureSchema(u32),
}

/// What the store says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) id: StoreId,
    pub(crate) commit: u64,
}

/// Raw pairs, judged one by one in key order.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    schema: Option<u32>,
    id: Option<StoreId>,
    commit: Option<u64>,
}

impl Reading {
    /// Judges one pair. Answers the record, or nothing when the pair was the store's own.
    pub(crate) fn take(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Entry>, ReadError> {
        let damaged = |what: &dyn fmt::Display| {
            ReadError::Damaged(format!("{what} (key {})", key.escape_ascii()))
        };
        let (form, body) = unseal(key, value).map_err(|error| damaged(&error))?;
        match key {
            SCHEMA_KEY => {
                let schema = u32::from_le_bytes(fixed(body).map_err(|error| damaged(&error))?);
                if schema > SCHEMA {
                    return Err(ReadError::FutureSchema(schema));
                }
                self.schema = Some(schema);
            }
            ID_KEY => self.id = Some(StoreId(fixed(body).map_err(|error| damaged(&error))?)),
            COMMIT_KEY => {
                let commit = fixed(body).map_err(|error| damaged(&error))?;
                self.commit = Some(u64::from_le_bytes(commit));
            }
            [RECORDS, key @ ..] => {
                return Ok(Some(Entry {
                    key: key.to_vec(),
                    form,
                    body: body.to_vec(),
                }));
            }
            _ => return Err(damaged(&"a key of no known kind")),
        }
        Ok(None)
    }

    /// What the store said of itself. A store that does not say all of it was never whole.
    pub(crate) fn finish(self) -> Result<Meta, ReadError> {
        match self {
            Self {
                schema: Some(SCHEMA),
                id: Some(id),
                commit: Some(commit),
            } => Ok(Meta { id, commit }),
            _ => Err(ReadError::Damaged(format!(
                "its own records are incomplete: {self:?}"
            ))),
        }
    }
}

fn fixed<const N: usize>(body: &[u8]) -> Result<[u8; N], &'static str> {
    body.try_into()
        .map_err(|_| "one of the store's own records has the wrong length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ops: &[RawOp]) -> Result<Meta, ReadError> {
        let mut reading = Reading::default();
        for op in ops {
            let RawOp::Put { key, value } = op else {
                panic!("{op:?}")
            };
            assert_eq!(reading.take(key, value)?, None);
        }
        reading.finish()
    }

    #[test]
    fn a_new_store_says_who_it_is() {
        let id = StoreId::new([9; 16]);
        assert_eq!(read(&birth(id, 4)), Ok(Meta { id, commit: 4 }));
    }

    #[test]
    fn a_store_that_does_not_say_all_of_it_is_damaged() {
        for missing in 0..3 {
            let mut ops = birth(StoreId::new([9; 16]), 4);
            ops.remove(missing);
            assert!(
                matches!(read(&ops), Err(ReadError::Damaged(_))),
                "without record {missing}"
            );
        }
    }

    #[test]
    fn a_newer_schema_is_named_before_anything_else_is_judged() {
        let ops = [
            put(SCHEMA_KEY, &7_u32.to_le_bytes()),
            put(ID_KEY, b"some other shape"),
        ];
        assert_eq!(read(&ops), Err(ReadError::FutureSchema(7)));
    }

    #[test]
    fn an_id_is_shown_as_hex() {
        assert_eq!(StoreId::new([0xa0; 16]).to_string(), "a0".repeat(16));
    }
}
