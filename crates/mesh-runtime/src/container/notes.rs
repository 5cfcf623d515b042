//! What is remembered of a module besides its containers: counts, and what was bad. Lost, nothing but the counts is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mesh_model::{LastExit, ModuleName, Timestamp, Workload};
use serde::{Deserialize, Serialize};

use super::label;

/// What is remembered of a module, for as long as it is declared as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// How often it was put back after somebody else had changed it.
    pub(crate) repairs: u32,
    /// How it ended last.
    pub(crate) last_exit: Option<LastExit>,
    /// That it was bad.
    pub(crate) rejected: Option<Rejected>,
}

/// A workload that was tried and was bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// What runs instead.
    pub(crate) back: Workload,
    /// Why, for reports.
    pub(crate) reason: String,
}

/// Every version that was ever written.
#[derive(Serialize, Deserialize)]
#[serde(tag = "version")]
enum Form {
    #[serde(rename = "1")]
    V1(V1),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1 {
    /// Of what they are.
    spec: String,
    restarts: u32,
    repairs: u32,
    exit_at_ms: Option<u64>,
    exit: Option<String>,
    back: Option<String>,
    rejected: Option<String>,
}

impl Notes {
    /// What is remembered of a module as it is declared; nothing of how it was declared before.
    pub(crate) fn read(dir: &Path, declared: &Workload) -> Self {
        let read = || {
            let bytes = fs::read(path(dir, &declared.module)).ok()?;
            let Form::V1(form) = serde_json::from_slice(&bytes).ok()?;
            (Some(&form.spec) == label::spec(declared).as_ref()).then(|| form.into_notes())
        };
        read().unwrap_or_default()
    }

    /// Remembers this of a module as it is declared. Blocks on the disk.
    pub(crate) fn write(&self, dir: &Path, declared: &Workload) -> io::Result<()> {
        let exit = self.last_exit.as_ref();
        let form = Form::V1(V1 {
            spec: label::spec(declared).unwrap_or_default(),
            restarts: self.restarts,
            repairs: self.repairs,
            exit_at_ms: exit.map(|exit| exit.at.as_millis()),
            exit: exit.map(|exit| exit.how.clone()),
            back: self
                .rejected
                .as_ref()
                .and_then(|it| label::encode(&it.back)),
            rejected: self.rejected.as_ref().map(|it| it.reason.clone()),
        });
        let path = path(dir, &declared.module);
        let staged = path.with_extension("tmp");
        fs::write(&staged, serde_json::to_vec(&form)?)?;
        fs::rename(&staged, &path)
    }

    /// Forgets a module.
    pub(crate) fn forget(dir: &Path, module: &ModuleName) -> io::Result<()> {
        match fs::remove_file(path(dir, module)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl V1 {
    fn into_notes(self) -> Notes {
        let exit = self.exit_at_ms.zip(self.exit);
        let back = self.back.and_then(|record| label::decode(&record));
        Notes {
            restarts: self.restarts,
            repairs: self.repairs,
            last_exit: exit.map(|(at, how)| LastExit {
                at: Timestamp::from_millis(at),
                how,
            }),
            rejected: back
                .zip(self.rejected)
                .map(|(back, reason)| Rejected { back, reason }),
        }
    }
}

fn path(dir: &Path, module: &ModuleName) -> PathBuf {
    dir.join(format!("{module}.json"))
}

#[cfg(test)]
mod tests {
    use super::super::label::tests::whole;
    use super::*;

    #[test]
    fn what_is_remembered_is_of_one_declaration() {
        let dir = tempfile::tempdir().unwrap();
        let declared = whole();
        assert_eq!(Notes::read(dir.path(), &declared), Notes::default());
        let notes = Notes {
            restarts: 3,
            repairs: 1,
            last_exit: Some(LastExit {
                at: Timestamp::from_millis(7),
                how: "exited with status 3".to_owned(),
            }),
            rejected: Some(Rejected {
                back: Workload {
                    release: "1.3".to_owned(),
                    ..whole()
                },
                reason: "release 1.4: bad".to_owned(),
            }),
        };
        notes.write(dir.path(), &declared).unwrap();
        assert_eq!(Notes::read(dir.path(), &declared), notes);
        let mut other = declared.clone();
        other.release = "2".to_owned();
        assert_eq!(Notes::read(dir.path(), &other), Notes::default());

        fs::write(path(dir.path(), &declared.module), "{").unwrap();
        assert_eq!(Notes::read(dir.path(), &declared), Notes::default());
        Notes::forget(dir.path(), &declared.module).unwrap();
        Notes::forget(dir.path(), &declared.module).unwrap();
    }
}
