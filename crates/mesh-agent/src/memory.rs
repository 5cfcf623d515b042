//! What an agent must find again after a restart, in one file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use mesh_auth::keyfile::write_secret;
use mesh_auth::secret::SecretText;
use mesh_bus::Memory;
use mesh_control::Remembered;
use mesh_model::Seq;
use mesh_wire::{decode_declaration, decode_report, encode_declaration, encode_report};
use serde::{Deserialize, Serialize};

/// An agent's memory on disk: written whole or not at all, for its owner alone (0600).
#[derive(Debug, Clone)]
pub struct DiskMemory {
    path: PathBuf,
}

/// Why what is on disk was not read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The host does not let it be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// It is not what an agent writes.
    #[error(
        "{} is damaged: {why}; restore it, or remove it: the controller then declares anew what this node runs",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A later release wrote it.
    #[error(
        "{} is written in version {found} and this program reads version {VERSION}; run the release that wrote it, or \
         remove the file: the controller then declares anew what this node runs",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Head {
    version: u64,
}

/// Version 1. The declaration and the reports are the bytes `mesh-wire` gives them, which have versions of their own.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1 {
    version: u64,
    declaration: Option<String>,
    seq: u64,
    unsent: Vec<String>,
}

impl DiskMemory {
    /// Over this file, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What is on disk; nothing remembered when there is no file.
    pub fn load(&self) -> Result<Remembered, LoadError> {
        match fs::read(&self.path) {
            Ok(bytes) => decode(&self.path, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Remembered::default()),
            Err(source) => Err(LoadError::Unreadable {
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// What is on disk. A file that is not understood is set aside, as `remembered.unread`, and the agent begins with
    /// nothing: it ends no workload, and the controller, which hears of no generation, declares everything anew. To
    /// refuse to start instead would leave the host unsupervised for a file nobody needs.
    pub fn load_or_set_aside(&self) -> Result<Remembered, LoadError> {
        let error = match self.load() {
            Err(error @ (LoadError::Damaged { .. } | LoadError::Newer { .. })) => error,
            other => return other,
        };
        let aside = self.path.with_extension("unread");
        fs::rename(&self.path, &aside).map_err(|source| LoadError::Unreadable {
            path: self.path.clone(),
            source,
        })?;
        tracing::error!(
            %error,
            aside = %aside.display(),
            "what was remembered is set aside; what runs is left running until the controller declares anew"
        );
        Ok(Remembered::default())
    }
}

impl Memory for DiskMemory {
    async fn keep(&self, remembered: &Remembered) -> Result<(), String> {
        let (path, text) = (self.path.clone(), encode(remembered));
        let written = tokio::task::spawn_blocking(move || write_secret(&path, &text)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(with_causes(&error)),
            Err(ended) => Err(ended.to_string()),
        }
    }
}

/// An error and what led to it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn encode(remembered: &Remembered) -> SecretText {
    let form = V1 {
        version: VERSION,
        declaration: remembered
            .declaration
            .as_ref()
            .map(|declaration| BASE64.encode(&encode_declaration(declaration))),
        seq: remembered.seq.0,
        unsent: remembered
            .unsent
            .iter()
            .map(|report| BASE64.encode(&encode_report(report)))
            .collect(),
    };
    #[expect(
        clippy::expect_used,
        reason = "a struct of texts and numbers becomes JSON in memory"
    )]
    let text = serde_json::to_string_pretty(&form).expect("texts and numbers");
    SecretText::new(text + "\n")
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Remembered, LoadError> {
    let damaged = |why: String| LoadError::Damaged {
        path: path.to_owned(),
        why,
    };
    // A later version may hold keys that this one does not know, so its number is read first and alone.
    let head: Head = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    match head.version {
        VERSION => {}
        found if found > VERSION => {
            return Err(LoadError::Newer {
                path: path.to_owned(),
                found,
            });
        }
        found => return Err(damaged(format!("no release wrote version {found}"))),
    }
    let form: V1 = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let bytes = |text: &String| {
        BASE64
            .decode(text.as_bytes())
            .map_err(|error| damaged(format!("a text in it is no base64: {error}")))
    };
    let declaration = form
        .declaration
        .as_ref()
        .map(|text| decode_declaration(&bytes(text)?).map_err(|error| damaged(error.to_string())));
    let unsent = form
        .unsent
        .iter()
        .map(|text| decode_report(&bytes(text)?).map_err(|error| damaged(error.to_string())));
    Ok(Remembered {
        declaration: declaration.transpose()?,
        seq: Seq(form.seq),
        unsent: unsent.collect::<Result<_, _>>()?,
    })
}

const VERSION: u64 = 1;

#[cfg(test)]
mod tests;
