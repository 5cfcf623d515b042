//! Bytes with the controller's signature: what is signed, and how the two travel together.

use serde::{Deserialize, Serialize};

use crate::codec::{self, Versions};
use crate::error::WireError;

const WHAT: &str = "signed message";

/// What a signature is for. One made for one kind is none for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedKind {
    /// A declaration.
    Declaration,
    /// An answer to an enrolment.
    EnrolmentAnswer,
    /// An ask.
    Ask,
}

impl SignedKind {
    /// What stands before the body when it is signed. No prefix begins another: each ends in a zero byte and has none
    /// before.
    pub const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Declaration => b"mesh declaration v1\0",
            Self::EnrolmentAnswer => b"mesh enrolment answer v1\0",
            Self::Ask => b"mesh ask v1\0",
        }
    }
}

/// A body and the signature said to be over it; nothing here has checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The bytes that were encoded.
    pub body: Vec<u8>,
    /// ed25519, over [`to_sign`] of the body.
    pub signature: [u8; 64],
}

/// The bytes the signature is over.
pub fn to_sign(kind: SignedKind, body: &[u8]) -> Vec<u8> {
    [kind.prefix(), body].concat()
}

/// A body and its signature as they are sent.
pub fn seal_signed(body: &[u8], signature: &[u8; 64]) -> Vec<u8> {
    codec::write(&SignedForm::V1 {
        signature: signature.to_vec(),
        body: body.to_vec(),
    })
}

/// Takes apart what was sent, without reading the body: that is for when the signature has been checked.
pub fn open_signed(bytes: &[u8]) -> Result<Signed, WireError> {
    let SignedForm::V1 { signature, body } = codec::read(bytes)?;
    let signature = signature.try_into().map_err(|other: Vec<u8>| {
        let why = format!("its signature has {} bytes, not 64", other.len());
        WireError::Malformed { what: WHAT, why }
    })?;
    Ok(Signed { body, signature })
}

#[derive(Serialize, Deserialize)]
enum SignedForm {
    V1 { signature: Vec<u8>, body: Vec<u8> },
}

impl Versions for SignedForm {
    const WHAT: &'static str = WHAT;
    const KNOWN: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_for_one_kind_is_nothing_of_the_other() {
        let kinds = [
            SignedKind::Declaration,
            SignedKind::EnrolmentAnswer,
            SignedKind::Ask,
        ];
        let prefixes = kinds.map(|kind| {
            assert_eq!(
                to_sign(kind, b"body").strip_prefix(kind.prefix()),
                Some(&b"body"[..])
            );
            assert_eq!(
                kind.prefix().iter().position(|b| *b == 0),
                Some(kind.prefix().len() - 1)
            );
            kind.prefix()
        });
        for one in prefixes {
            let begins = prefixes.iter().filter(|other| other.starts_with(one));
            assert_eq!(begins.count(), 1, "{one:?}");
        }
    }

    #[test]
    fn a_signature_of_another_length_is_malformed() {
        for length in [0, 63, 65] {
            let bytes = codec::write(&SignedForm::V1 {
                signature: vec![1; length],
                body: b"body".to_vec(),
            });
            assert_eq!(
                open_signed(&bytes),
                Err(WireError::Malformed {
                    what: WHAT,
                    why: format!("its signature has {length} bytes, not 64")
                })
            );
        }
    }
}
