//! Where a node's bus is, once it has moved: on disk, so that it is found again whenever the agent ends.
//!
//! An offered bus is on disk before anybody can hear the node there, and becomes its home by being given another name:
//! whenever the host stops, one of the two files leads to the controller.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_auth::creds::{Credentials, CredentialsError};
use mesh_auth::keyfile::{KeyFileError, read_secrets, write_public, write_secret};
use mesh_auth::keys::BoxKey;
use mesh_auth::secret::SecretText;
use mesh_model::{BusFacts, BusKind, BusPlace};
use serde::{Deserialize, Serialize};

use crate::Place;
use crate::state_dir::{authority_path, home_path, offered_path};

/// The files that say where a node's buses are, for their owner alone (0600).
#[derive(Debug, Clone)]
pub struct PlaceFiles {
    dir: PathBuf,
    /// The public half of the key secrets are sealed to: another enrolment has another.
    enrolment: String,
    /// Which offer may be put on disk: a write that began for one before it is not to come after.
    turn: Arc<AtomicU64>,
    writing: Arc<Mutex<()>>,
}

/// What they say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Where the node is at home, if it has moved since it was enrolled.
    pub home: Option<Place>,
    /// Where it may go.
    pub offered: Option<Place>,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The host does not let it be read, or it is nobody's secret any more.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// It is not what this program writes.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A later release wrote it.
    #[error(
        "{} is written in version {found} and this program reads version {VERSION}; run the release that wrote it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u64,
    },
    /// Another enrolment's.
    #[error("{} is of an earlier enrolment of this host", path.display())]
    Earlier {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Deserialize)]
struct Head {
    version: u64,
}

/// Version 1.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1 {
    version: u64,
    enrolment: String,
    bus: String,
    urls: Vec<String>,
    ca: Option<String>,
    domain: Option<String>,
    account: String,
    credential: String,
}

impl PlaceFiles {
    /// In this state directory, of the enrolment whose secrets are sealed to this key.
    pub fn new(dir: &Path, box_key: &BoxKey) -> Self {
        Self {
            dir: dir.to_owned(),
            enrolment: box_key.public().as_str().to_owned(),
            turn: Arc::default(),
            writing: Arc::default(),
        }
    }

    /// What there is. A file that is not understood is set aside, as `*.unread`, and said: to refuse to start would leave
    /// the host unsupervised, and the other file or `agent.toml` may lead to the controller as well.
    pub fn load(&self) -> Result<Kept, PlaceError> {
        let home = self.load_one(&home_path(&self.dir))?;
        let mut offered = self.load_one(&offered_path(&self.dir))?;
        // It became home, and the host stopped before its other name was gone.
        let same = |offered: &Place| home.as_ref().is_some_and(|home| home.bus == offered.bus);
        if offered.as_ref().is_some_and(same) {
            offered = None;
            remove(&offered_path(&self.dir)).unwrap_or_else(|error| {
                tracing::warn!(%error, "an offer that was taken is left on disk");
            });
        }
        Ok(Kept { home, offered })
    }

    fn load_one(&self, path: &Path) -> Result<Option<Place>, PlaceError> {
        let error = match read(path, Some(&self.enrolment)) {
            Err(PlaceError::File(error)) => return Err(error.into()),
            Err(error) => error,
            read => return read,
        };
        let aside = path.with_extension("unread");
        tracing::error!(%error, aside = %aside.display(), "where a bus is was not understood, and is set aside");
        if let Err(error) = fs::rename(path, &aside) {
            tracing::warn!(%error, file = %path.display(), "it stays where it is");
        }
        Ok(None)
    }

    /// From here on no offer before counts.
    pub(super) fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Keeps where an offered bus is, and who vouches for it, unless the turn is another's by now.
    pub(super) fn offer(&self, place: &Place, turn: u64) -> Result<(), KeyFileError> {
        let _writing = self.writing();
        if self.turn.load(Ordering::Acquire) != turn {
            return Ok(());
        }
        self.put_authority(place)?;
        write_secret(&offered_path(&self.dir), &self.encode(place))
    }

    /// Makes an offered bus the node's home, in one step, which takes no room on the disk.
    pub(super) fn make_home(&self, place: &Place) -> Result<(), KeyFileError> {
        let _writing = self.writing();
        let (offered, home) = (offered_path(&self.dir), home_path(&self.dir));
        let kept = read(&offered, Some(&self.enrolment));
        if !kept.is_ok_and(|kept| kept.as_ref() == Some(place)) {
            self.put_authority(place)?;
            write_secret(&home, &self.encode(place))?;
            return remove(&offered).map_err(refused(&offered, "removed"));
        }
        fs::rename(&offered, &home).map_err(refused(&home, "put in place"))?;
        sync(&self.dir).map_err(refused(&self.dir, "synced"))
    }

    /// Forgets an offer of a bus of this kind.
    pub(super) fn withdraw(&self, bus: BusKind) -> io::Result<()> {
        let _writing = self.writing();
        remove(&offered_path(&self.dir))?;
        remove(&authority_path(&self.dir, bus))?;
        sync(&self.dir)
    }

    /// Where modules find who vouches for the bus of a place.
    pub fn authority(&self, place: &Place) -> Option<PathBuf> {
        let vouched = place.at.ca.is_some();
        vouched.then(|| authority_path(&self.dir, place.bus))
    }

    /// Has who vouches for a bus in a file of its own, for modules.
    pub fn put_authority(&self, place: &Place) -> Result<(), KeyFileError> {
        let Some(pem) = &place.at.ca else {
            return Ok(());
        };
        let path = authority_path(&self.dir, place.bus);
        // Not written again when it is the same: a module may be reading it.
        if fs::read_to_string(&path).is_ok_and(|kept| kept == *pem) {
            return Ok(());
        }
        write_public(&path, pem)
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encode(&self, place: &Place) -> SecretText {
        let form = V1 {
            version: VERSION,
            enrolment: self.enrolment.clone(),
            bus: place.bus.as_str().to_owned(),
            urls: place.at.urls.clone(),
            ca: place.at.ca.clone(),
            domain: place.at.facts.domain.clone(),
            account: place.at.facts.account.clone(),
            credential: place.credentials.render().expose().to_owned(),
        };
        #[expect(
            clippy::expect_used,
            reason = "a struct of texts and a number becomes JSON in memory"
        )]
        let text = serde_json::to_string_pretty(&form).expect("texts and a number");
        SecretText::new(text + "\n")
    }
}

/// What a file of a place says, of whichever enrolment unless one is named; nothing when there is none.
pub(crate) fn read(path: &Path, enrolment: Option<&str>) -> Result<Option<Place>, PlaceError> {
    let text = match read_secrets(path, LIMIT) {
        Ok(text) => text,
        Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    decode(path, text.expose(), enrolment).map(Some)
}

fn decode(path: &Path, text: &str, enrolment: Option<&str>) -> Result<Place, PlaceError> {
    let damaged = |why: String| PlaceError::Damaged {
        path: path.to_owned(),
        why,
    };
    // An error of the parser may show what it read, and that is a secret: only where it was is said.
    let form = |error: serde_json::Error| {
        damaged(format!(
            "it is not what this program writes, at line {}",
            error.line()
        ))
    };
    // A later version may hold keys that this one does not know, so its number is read first and alone.
    let head: Head = serde_json::from_str(text).map_err(form)?;
    match head.version {
        VERSION => {}
        found if found > VERSION => {
            let path = path.to_owned();
            return Err(PlaceError::Newer { path, found });
        }
        found => return Err(damaged(format!("no release wrote version {found}"))),
    }
    let read: V1 = serde_json::from_str(text).map_err(form)?;
    if enrolment.is_some_and(|enrolment| read.enrolment != enrolment) {
        let path = path.to_owned();
        return Err(PlaceError::Earlier { path });
    }
    let bus = read.bus.parse();
    let credentials = Credentials::parse(&read.credential);
    Ok(Place {
        bus: bus.map_err(|error: mesh_model::InvalidBusKind| damaged(error.to_string()))?,
        at: BusPlace {
            urls: read.urls,
            ca: read.ca,
            facts: BusFacts {
                domain: read.domain,
                account: read.account,
            },
        },
        credentials: credentials.map_err(|error: CredentialsError| damaged(error.to_string()))?,
    })
}

/// Forgets where a host moved to as a node it is no more: its next enrolment says where its bus is.
pub fn forget_moves(dir: &Path) -> io::Result<()> {
    for path in [home_path(dir), offered_path(dir)] {
        remove(&path)?;
    }
    for bus in BusKind::ALL {
        remove(&authority_path(dir, bus))?;
    }
    sync(dir)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Until a folder is synced, a power cut may take back what became of the names in it.
fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn refused(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> KeyFileError {
    move |source| KeyFileError::Io {
        path: path.to_owned(),
        step,
        source,
    }
}

const VERSION: u64 = 1;
/// Certificates of many authorities, and a credential.
const LIMIT: u64 = 1024 * 1024;

#[cfg(test)]
mod tests;
