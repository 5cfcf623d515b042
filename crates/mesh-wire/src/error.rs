//! Why bytes are not what they should be.

use mesh_model::{
    InvalidImage, InvalidName, InvalidPort, InvalidPublicKey, InvalidSecretName, InvalidSubject,
    InvalidVolume,
};
use thiserror::Error;

/// Bytes that were not understood.
///
/// Only [`Newer`](Self::Newer) can become readable, by an upgrade of the reader; the others never will.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// There is nothing to read.
    #[error("the {what} is empty")]
    Empty {
        /// What was to be read.
        what: &'static str,
    },
    /// More than is ever read.
    #[error("the {what} has {length} bytes, more than the {limit} that are read")]
    TooLarge {
        /// What was to be read.
        what: &'static str,
        /// How many bytes it has.
        length: usize,
        /// How many are read.
        limit: usize,
    },
    /// A version its writer knows and we do not.
    #[error(
        "the {what} is written in version {found} and this program reads up to {known}; upgrade this program"
    )]
    Newer {
        /// What was to be read.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// The bytes end before the content does.
    #[error("the {what} is cut short after {length} bytes")]
    CutShort {
        /// What was to be read.
        what: &'static str,
        /// How many bytes there are.
        length: usize,
    },
    /// Something follows the content.
    #[error("the {what} is followed by {extra} bytes that do not belong to it")]
    Trailing {
        /// What was to be read.
        what: &'static str,
        /// How many bytes follow.
        extra: usize,
    },
    /// The bytes are no such thing.
    #[error("the {what} is malformed: {why}")]
    Malformed {
        /// What was to be read.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Well formed, but a text in it is not what its field takes.
    #[error("the {what} holds an invalid {error}")]
    Field {
        /// What was to be read.
        what: &'static str,
        /// Which field, and the rule it breaks.
        error: FieldError,
    },
    /// A record of a kind that is not known here.
    #[error("a record is of kind {kind}, which this program does not know; upgrade this program")]
    UnknownKind {
        /// The kind found.
        kind: u8,
    },
    /// A record that belongs under another key.
    #[error("the {what} is kept under the key \"{found}\" and belongs under \"{expected}\"")]
    WrongKey {
        /// What was to be read.
        what: &'static str,
        /// The key it was found under, bytes that are not printed escaped.
        found: String,
        /// The key of what it says.
        expected: String,
    },
}

/// A field whose text is not what the field takes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {rule}")]
pub struct FieldError {
    /// Which field, as a path in what was read.
    pub field: &'static str,
    /// The rule it breaks.
    pub rule: InvalidText,
}

/// A text that is not what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidText {
    /// It is to be shown, and is no line: a character in it steers a terminal, or there are too many.
    #[error("a text of {0} bytes is more than 500, or holds a character that is not to be shown")]
    NoLine(usize),
    /// It is no name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// It is no subject.
    #[error(transparent)]
    Subject(#[from] InvalidSubject),
    /// It is no public key.
    #[error(transparent)]
    PublicKey(#[from] InvalidPublicKey),
    /// It is no name of a secret.
    #[error(transparent)]
    SecretName(#[from] InvalidSecretName),
    /// It is no image.
    #[error(transparent)]
    Image(#[from] InvalidImage),
    /// It is no port of a container.
    #[error(transparent)]
    Port(#[from] InvalidPort),
    /// It is no volume.
    #[error(transparent)]
    Volume(#[from] InvalidVolume),
}
