//! What is remembered of a module besides its containers: counts, what was bad, and how its containers came to their
//! ends. Lost, nothing that runs is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mesh_control::convergence::declared_as;
use mesh_model::{LastExit, ModuleName, Timestamp, Workload};
use serde::{Deserialize, Serialize};

use super::label;
use crate::host::write_whole;

/// What is remembered of a module: all of it for as long as it is declared as it is, and of its containers for as long as
/// they are there.
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
    /// The container that was ended here to make way for a newer one, and is to go on should it be wanted again.
    pub(crate) made_way: Option<String>,
    /// The container that was ended here, or ended, without having done its work, and is not started again.
    pub(crate) failed: Option<String>,
    /// The last end that was seen to be the container's own doing.
    pub(crate) own_end: Option<End>,
}

/// One end of one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    /// Whose.
    pub(crate) container: String,
    /// When, as the engine writes it.
    pub(crate) at: String,
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
    /// Of what they are: its record.
    declared: String,
    restarts: u32,
    repairs: u32,
    exit_at_ms: Option<u64>,
    exit: Option<String>,
    back: Option<String>,
    rejected: Option<String>,
    made_way: Option<String>,
    failed: Option<String>,
    own_end: Option<End>,
}

impl Notes {
    /// What is on disk of a module, and as what it was declared by then.
    pub(crate) fn read(dir: &Path, module: &ModuleName) -> Option<(Workload, Self)> {
        let bytes = fs::read(path(dir, module)).ok()?;
        let Form::V1(form) = serde_json::from_slice(&bytes).ok()?;
        Some((label::decode(&form.declared)?, form.into_notes()))
    }

    /// What of them holds when the module was declared as `before` and is declared as `now`.
    ///
    /// A module that is asked for its health in another way, and else is the same, keeps its counts. Declared otherwise it
    /// begins anew, and what was bad may be tried again.
    pub(crate) fn turned(self, before: &Workload, now: &Workload) -> Self {
        // What was bad is bad with another credential, too.
        let before = Workload {
            key: now.key.clone(),
            ..before.clone()
        };
        if declared_as(&before, now) {
            return self;
        }
        if before.runs_as(now) {
            return Self {
                rejected: None,
                ..self
            };
        }
        Self {
            made_way: self.made_way,
            failed: self.failed,
            own_end: self.own_end,
            ..Self::default()
        }
    }

    /// A container was started, however it ended before; the answer is whether that is news.
    pub(crate) fn started(&mut self, container: &str) -> bool {
        let mut news = false;
        for note in [&mut self.made_way, &mut self.failed] {
            news |= note.take_if(|noted| noted == container).is_some();
        }
        news
    }

    /// Remembers this of a module as it is declared; when this returns it is on disk. One at a time.
    pub(crate) fn write(&self, dir: &Path, declared: &Workload) -> io::Result<()> {
        let exit = self.last_exit.as_ref();
        let form = Form::V1(V1 {
            declared: label::encode(declared).unwrap_or_default(),
            restarts: self.restarts,
            repairs: self.repairs,
            exit_at_ms: exit.map(|exit| exit.at.as_millis()),
            exit: exit.map(|exit| exit.how.clone()),
            back: self
                .rejected
                .as_ref()
                .and_then(|it| label::encode(&it.back)),
            rejected: self.rejected.as_ref().map(|it| it.reason.clone()),
            made_way: self.made_way.clone(),
            failed: self.failed.clone(),
            own_end: self.own_end.clone(),
        });
        write_whole(&path(dir, &declared.module), &serde_json::to_vec(&form)?)
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
            made_way: self.made_way,
            failed: self.failed,
            own_end: self.own_end,
        }
    }
}

fn path(dir: &Path, module: &ModuleName) -> PathBuf {
    dir.join(format!("{module}.json"))
}

#[cfg(test)]
mod tests {
    use mesh_model::{Health, Probe, PublicKey};

    use super::super::label::tests::whole;
    use super::*;

    type Change = fn(&mut Workload);

    fn everything() -> Notes {
        Notes {
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
            made_way: Some("a".to_owned()),
            failed: Some("b".to_owned()),
            own_end: Some(End {
                container: "c".to_owned(),
                at: "2026-01-01T00:00:00Z".to_owned(),
            }),
        }
    }

    #[test]
    fn what_is_remembered_is_read_back_with_what_it_is_of() {
        let dir = tempfile::tempdir().unwrap();
        let declared = whole();
        assert_eq!(Notes::read(dir.path(), &declared.module), None);
        everything().write(dir.path(), &declared).unwrap();
        let read = Notes::read(dir.path(), &declared.module).unwrap();
        assert_eq!(read, (declared.clone(), everything()));
        fs::write(path(dir.path(), &declared.module), "{").unwrap();
        assert_eq!(Notes::read(dir.path(), &declared.module), None);
        Notes::forget(dir.path(), &declared.module).unwrap();
        Notes::forget(dir.path(), &declared.module).unwrap();
    }

    #[test]
    fn what_is_declared_otherwise_is_not_what_was_bad_and_a_new_credential_is_no_other_declaration()
    {
        let of_containers = Notes {
            restarts: 0,
            repairs: 0,
            last_exit: None,
            rejected: None,
            ..everything()
        };
        let counts = Notes {
            rejected: None,
            ..everything()
        };
        let changes: [(Change, Notes); 4] = [
            (|_| {}, everything()),
            (|w| w.key = PublicKey::from_raw([1; 32]), everything()),
            (
                |w| {
                    w.health = Some(Health {
                        probe: Probe::Tcp("127.0.0.1:1".to_owned()),
                        every: 1000,
                        within: 1000,
                    });
                },
                counts,
            ),
            (|w| w.release = "2".to_owned(), of_containers),
        ];
        for (change, expected) in changes {
            let mut now = whole();
            change(&mut now);
            assert_eq!(everything().turned(&whole(), &now), expected);
        }
    }

    #[test]
    fn what_was_started_has_made_way_for_nobody_and_has_not_failed() {
        let mut notes = everything();
        assert!(!notes.started("another"));
        assert_eq!(notes, everything());
        assert!(notes.started("a") && notes.started("b") && !notes.started("a"));
        assert_eq!((notes.made_way, notes.failed), (None, None));
    }
}
