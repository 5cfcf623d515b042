//! Which engine: the one that is named, or the first that is found, and from then on that one.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::fault::Fault;

/// Which container engine a host uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineChoice {
    /// The first of these sockets that is there. It is remembered: a second engine that appears while the first is away
    /// would start everything twice.
    Auto(Vec<PathBuf>),
    /// None.
    Off,
    /// The one at this socket.
    Socket(PathBuf),
}

/// A choice, and where the one that was found is written down.
#[derive(Debug)]
pub(crate) struct Chosen {
    choice: EngineChoice,
    kept: PathBuf,
}

impl Chosen {
    pub(crate) const fn new(choice: EngineChoice, kept: PathBuf) -> Self {
        Self { choice, kept }
    }

    /// Where the engine is.
    pub(crate) fn socket(&self) -> Result<PathBuf, Fault> {
        match &self.choice {
            EngineChoice::Socket(path) => Ok(path.clone()),
            EngineChoice::Off => Err(Fault::NoEngine(
                "this node runs no containers: its agent.toml says engine = \"off\" under [containers]".to_owned(),
            )),
            EngineChoice::Auto(places) => self.found(places),
        }
    }

    /// Remembers the engine that answered.
    pub(crate) fn keep(&self, socket: &Path) {
        let EngineChoice::Auto(_) = self.choice else {
            return;
        };
        if self.remembered().as_deref() == Some(socket) {
            return;
        }
        let written = self
            .kept
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&self.kept, socket.as_os_str().as_encoded_bytes()));
        if let Err(error) = written {
            tracing::warn!(path = %self.kept.display(), %error, "which container engine is used is not written down");
        }
    }

    fn found(&self, places: &[PathBuf]) -> Result<PathBuf, Fault> {
        if let Some(socket) = self.remembered() {
            return Ok(socket);
        }
        let there = places.iter().find(|place| is_there(place));
        there.cloned().ok_or_else(|| {
            let tried: Vec<_> = places.iter().map(|it| it.display().to_string()).collect();
            Fault::NoEngine(format!(
                "this node has no container engine: there is none of {}; install Docker or Podman, or name its socket \
                 in agent.toml: [containers] engine = \"unix:///path\"",
                tried.join(", ")
            ))
        })
    }

    fn remembered(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(&self.kept).ok()?;
        Some(PathBuf::from(text.trim())).filter(|path| path.is_absolute())
    }
}

/// A socket that may not be looked at is there all the same, and says so when it is used.
fn is_there(place: &Path) -> bool {
    match fs::metadata(place) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_engine_that_is_there_is_taken_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let [docker, podman, kept] =
            ["docker.sock", "podman.sock", "state/engine"].map(|name| dir.path().join(name));
        let chosen = || {
            let places = vec![docker.clone(), podman.clone()];
            Chosen::new(EngineChoice::Auto(places), kept.clone())
        };
        let none = chosen().socket().unwrap_err().to_string();
        assert!(none.contains(&docker.display().to_string()), "{none}");

        fs::write(&podman, "").unwrap();
        assert_eq!(chosen().socket().unwrap(), podman);
        chosen().keep(&podman);
        // Docker was only starting later: what runs is on the other.
        fs::write(&docker, "").unwrap();
        assert_eq!(chosen().socket().unwrap(), podman);
        fs::remove_file(&podman).unwrap();
        assert_eq!(
            chosen().socket().unwrap(),
            podman,
            "it is away, and no other"
        );

        let named = Chosen::new(EngineChoice::Socket(docker.clone()), kept.clone());
        assert_eq!(named.socket().unwrap(), docker);
        named.keep(&docker);
        assert_eq!(chosen().socket().unwrap(), podman);
        let off = Chosen::new(EngineChoice::Off, kept);
        assert!(off.socket().unwrap_err().to_string().contains("off"));
    }
}
