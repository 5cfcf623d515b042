//! What is wrong with a file, and where.

use std::fmt;

use crate::source::printable;

/// One thing wrong with one file: a stable code, a place, a sentence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileError {
    /// The file, as it was named to us.
    pub file: String,
    /// Where in it; nothing when the file could not be read at all.
    pub position: Option<Position>,
    /// What kind of wrong, for programs.
    pub code: ErrorCode,
    /// What is wrong and what to do, for people.
    pub message: String,
}

/// A place in a file, as an editor counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The kinds of wrong. Their texts are part of the interface and do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The file cannot be read, or is not text.
    Unreadable,
    /// It is not TOML, JSON or YAML, whichever its name says.
    Syntax,
    /// It is of another version, or of none.
    Version,
    /// A key nobody reads.
    UnknownKey,
    /// A key that is needed and not there.
    MissingKey,
    /// A value that is none of those there are, or not of the kind wanted.
    WrongValue,
    /// A name that breaks the rule of names.
    InvalidName,
    /// Something said twice.
    Duplicate,
    /// Each file by itself is well formed, and together they contradict one another.
    Contradiction,
}

impl ErrorCode {
    /// The code as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::Version => "version",
            Self::UnknownKey => "unknown-key",
            Self::MissingKey => "missing-key",
            Self::WrongValue => "wrong-value",
            Self::InvalidName => "invalid-name",
            Self::Duplicate => "duplicate",
            Self::Contradiction => "contradiction",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.message;
        // A file's name is somebody else's text too.
        let file = printable(&self.file);
        match self.position {
            Some(Position { line, column }) => write!(f, "{file}:{line}:{column}: {message}"),
            None => write!(f, "{file}: {message}"),
        }
    }
}

impl std::error::Error for FileError {}
