//! The mark: how far a store had come, said on the bus, so that a store that lost something is noticed.

use serde::{Deserialize, Serialize};

use crate::codec::{self, Versions};
use crate::error::WireError;

/// Which store, and a commit it has promised to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The store's identity, made when it was created.
    pub store: [u8; 16],
    /// The number of its newest commit.
    pub commit: u64,
}

/// The bytes of a mark, in the newest version.
pub fn encode_mark(mark: &Mark) -> Vec<u8> {
    codec::write(&MarkForm::V1 {
        store: mark.store,
        commit: mark.commit,
    })
}

/// The mark in these bytes.
pub fn decode_mark(bytes: &[u8]) -> Result<Mark, WireError> {
    let MarkForm::V1 { store, commit } = codec::read(bytes)?;
    Ok(Mark { store, commit })
}

#[derive(Serialize, Deserialize)]
enum MarkForm {
    V1 { store: [u8; 16], commit: u64 },
}

impl Versions for MarkForm {
    const WHAT: &'static str = "mark";
    const KNOWN: u32 = 1;
}
