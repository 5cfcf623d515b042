//! How grants become credentials the server knows: a file of users, written whole and read again on request.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::client::Request;
use mesh_bus::{BusError, HandOver};
use mesh_derive::Plan;
use mesh_derive::render::nats_conf::edge_users;
use mesh_model::{BusFacts, Principal};
use serde::Deserialize;
use serde_json::Value;

use crate::connect::{Connection, Credential, Dialling, Endpoint};
use crate::publish::{ApiError, ask};
use crate::seats::Told;

/// Who tells the server what each principal may do.
#[derive(Debug, Clone)]
pub enum Authority {
    /// The controller, in a file the server includes.
    Files {
        /// The file.
        users_file: PathBuf,
        /// Where the server is asked to read it again.
        reload: Box<SysConnection>,
    },
    /// The credentials themselves carry the grants.
    None,
}

/// A connection in the system account.
#[derive(Debug, Clone)]
pub struct SysConnection(Connection);

impl SysConnection {
    /// Connects in the system account.
    pub async fn open(
        endpoint: &Endpoint,
        credential: &Credential,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let connection =
            Connection::open(endpoint, credential, &Principal::Controller, dialling).await?;
        Ok(Self(connection))
    }

    /// Has the server read its files again, and waits until it has. On an error it goes on with what it had read.
    async fn reload(&self) -> Result<(), BusError> {
        self.call("RELOAD", RELOADED_WITHIN).await.map(drop)
    }

    /// How the server was started.
    pub(crate) async fn server(&self) -> Result<Value, BusError> {
        self.call("VARZ", Duration::from_secs(3)).await
    }

    async fn call(&self, verb: &str, within: Duration) -> Result<Value, BusError> {
        let server = self
            .0
            .server_id()
            .ok_or_else(|| BusError::Away("not connected in the system account".to_owned()))?;
        let subject = format!("$SYS.REQ.SERVER.{server}.{verb}");
        let answer = ask(&self.0, &subject, Request::new(), within).await?;
        let answer: SysAnswer = serde_json::from_slice(&answer)
            .map_err(|error| BusError::Away(format!("{subject}: {error}")))?;
        match answer.error {
            None => Ok(answer.data),
            Some(error) => Err(BusError::Refused {
                what: format!("{verb} of the server"),
                why: error.description,
            }),
        }
    }
}

#[derive(Deserialize)]
struct SysAnswer {
    error: Option<ApiError>,
    #[serde(default)]
    data: Value,
}

/// What the server is known to have read.
#[derive(Debug, Default)]
pub(crate) struct Loaded(Option<String>);

impl Authority {
    /// Makes every user of the plan able to connect, and nobody else; in words what that took. A file that is as it
    /// should be, and was read since, is left.
    pub(crate) async fn bring_to(
        &self,
        plan: &Plan,
        loaded: &mut Loaded,
    ) -> Result<Option<String>, BusError> {
        let Self::Files { users_file, reload } = self else {
            return Ok(None);
        };
        let text = edge_users(plan);
        let before = on_disk(users_file, read).await?;
        let written = before.as_deref() != Some(text.as_str());
        if !written && loaded.0.as_deref() == Some(text.as_str()) {
            return Ok(None);
        }
        loaded.0 = None;
        if written {
            let text = text.clone();
            on_disk(users_file, move |path| replace(path, &text)).await?;
        }
        match reload.reload().await {
            Ok(()) => {}
            Err(error @ BusError::Refused { .. }) => {
                // A running server goes on with what it had; one started anew would refuse the file.
                if let Some(before) = before.filter(|_| written) {
                    on_disk(users_file, move |path| replace(path, &before)).await?;
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        loaded.0 = Some(text);
        Ok(written.then(|| format!("users: {}", plan.users.len())))
    }
}

impl Authority {
    /// In which steps the server is brought to a plan: nobody is to work a seat before whoever did is known not to any more.
    pub(crate) async fn hand_over(
        &self,
        plan: &Plan,
        facts: &BusFacts,
        loaded: &Loaded,
    ) -> Result<HandOver, BusError> {
        let Self::Files { users_file, .. } = self else {
            return Ok(HandOver::default());
        };
        let on_disk = on_disk(users_file, read).await?;
        Ok(Told::of(on_disk.as_deref(), loaded.text()).hand_over(plan, facts))
    }

    /// The users file as it is now, where there is one to be read.
    pub(crate) async fn users(&self) -> Result<Option<Option<String>>, BusError> {
        match self {
            Self::Files { users_file, .. } => on_disk(users_file, read).await.map(Some),
            Self::None => Ok(None),
        }
    }
}

impl Loaded {
    /// What the server was asked to read last, if this controller asked.
    pub(crate) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

async fn on_disk<T, F>(path: &Path, work: F) -> Result<T, BusError>
where
    T: Send + 'static,
    F: FnOnce(&Path) -> io::Result<T> + Send + 'static,
{
    let owned = path.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&owned)).await;
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(BusError::Away(format!("{}: {error}", path.display()))),
        Err(error) => Err(BusError::Away(format!("{}: {error}", path.display()))),
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a file in the place of another, whole or not at all, readable by whom the other was: a new one by its owner only.
/// A server that runs as another user must go on reading its users.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let staged = path.with_file_name(name);
    let before = std::fs::metadata(path).map(|metadata| metadata.permissions());
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&staged)?;
    if let Ok(permissions) = before {
        file.set_permissions(permissions)?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&staged, path)?;
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        std::fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

const RELOADED_WITHIN: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_put_in_the_place_of_another_is_readable_by_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.conf");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        replace(&path, "new").unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, "newer").unwrap();
        assert_eq!(mode(), 0o640);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "newer");
    }
}
