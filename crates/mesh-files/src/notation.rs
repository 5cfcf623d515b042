//! The notations a file may be in, and their words.

use std::path::Path;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Notation {
    Toml,
    Json,
    Yaml,
}

impl Notation {
    /// By what a file's name ends in; nothing when it is none of ours.
    pub(crate) fn of(file: &str) -> Option<Self> {
        let ending = Path::new(file).extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Toml => "TOML",
            Self::Json => "JSON",
            Self::Yaml => "YAML",
        }
    }

    /// How the version is said.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Toml => "version = 1",
            Self::Json => "\"version\": 1",
            Self::Yaml => "version: 1",
        }
    }

    /// What keys with values are called.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Toml => "a table",
            Self::Json => "an object",
            Self::Yaml => "a mapping",
        }
    }
}
