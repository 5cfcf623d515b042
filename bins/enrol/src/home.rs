//! The agent's directory on this host: what an earlier attempt left there, and what this one puts there.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use mesh_agent::{AgentConfig, RuntimeKind, forget_moves};
use mesh_auth::creds::{Credentials, VouchedKey};
use mesh_auth::keyfile::{read_secret, write_public, write_secret};
use mesh_auth::keys::{BoxKey, UserKey};
use mesh_auth::secret::SecretText;
use mesh_auth::token::Token;
use mesh_model::{BusFacts, MeshName, NodeName};

/// The directory, held: no other enrolment has it until this is dropped, and no agent.
#[derive(Debug)]
pub(crate) struct Home {
    dir: PathBuf,
    _lock: File,
}

/// What is there before anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// It exists.
    exists: bool,
    /// Something is in it.
    occupied: bool,
    /// Its permission bits, if it exists.
    mode: u32,
    /// A configuration: this host is a node.
    enrolled: bool,
}

/// What to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Make it.
    Make,
    /// Take it, once nobody else has access.
    Close,
    /// Take it as it is, with the keys an interrupted attempt may have left.
    Take,
    /// It belongs to a node.
    IsNode,
    /// It is somebody's: others have access to what is in it.
    IsOpen,
}

/// The keys of this host.
#[derive(Debug)]
pub(crate) struct HostKeys {
    /// Who it is on the bus.
    pub user: UserKey,
    /// What secrets are sealed to.
    pub secrets: BoxKey,
}

/// What the controller accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The mesh this host joined.
    pub mesh: MeshName,
    /// What it is called there.
    pub node: NodeName,
    /// What of the bus stands in the subjects it checks.
    pub bus: BusFacts,
    /// What vouches for its key, on a bus that wants that.
    pub jwt: Option<String>,
    /// The certificate of the bus's authority, where it has one.
    pub ca_pem: Option<String>,
}

/// What to do with a directory.
pub(crate) const fn decide(found: Found) -> Decision {
    let open = found.mode & 0o077 != 0;
    if found.enrolled {
        Decision::IsNode
    } else if !found.exists {
        Decision::Make
    } else if !open {
        Decision::Take
    } else if found.occupied {
        Decision::IsOpen
    } else {
        Decision::Close
    }
}

impl Home {
    /// Takes the directory, if it is fit.
    pub(crate) fn take(dir: &Path) -> anyhow::Result<Self> {
        let what = || format!("directory {} cannot be used", dir.display());
        let dir = std::path::absolute(dir).with_context(what)?;
        let shown = dir.display();
        match decide(find(&dir).with_context(what)?) {
            Decision::Take => {}
            Decision::Make => {
                let mut builder = DirBuilder::new();
                builder
                    .recursive(true)
                    .mode(0o700)
                    .create(&dir)
                    .with_context(what)?;
            }
            Decision::Close => {
                let owner_only = fs::Permissions::from_mode(0o700);
                fs::set_permissions(&dir, owner_only).with_context(what)?;
            }
            Decision::IsNode => return Err(is_node(&dir)),
            Decision::IsOpen => bail!(
                "{shown} holds files and others have access to it; name a new directory with `--dir`, or, if it is the \
                 agent's, run `chmod 700 {shown}`"
            ),
        }
        let lock = hold(&dir)?;
        // Another enrolment may have ended since it was looked at.
        if fs::exists(dir.join(CONFIG)).with_context(what)? {
            return Err(is_node(&dir));
        }
        Ok(Self { dir, _lock: lock })
    }

    /// The keys an interrupted attempt left, or new ones. With the same keys the same token gets the same answer.
    pub(crate) fn keys(&self) -> anyhow::Result<HostKeys> {
        let credential = self.credential();
        let user = if credential.exists() {
            Credentials::read(&credential)?.key().clone()
        } else {
            let key = UserKey::generate()?;
            Credentials::Nkey(key.clone()).write(&credential)?;
            key
        };
        let path = self.box_key();
        let secrets = if path.exists() {
            let seed = read_secret(&path)?;
            BoxKey::from_seed(seed.expose().trim()).with_context(|| {
                format!(
                    "{} holds no key; remove it, and create a new token",
                    path.display()
                )
            })?
        } else {
            let key = BoxKey::generate()?;
            write_secret(
                &path,
                &SecretText::new(format!("{}\n", key.seed().expose())),
            )?;
            key
        };
        Ok(HostKeys { user, secrets })
    }

    /// Writes what makes this host a node; the configuration last, since with it the host is one.
    pub(crate) fn settle(
        &self,
        token: &Token,
        keys: &HostKeys,
        accepted: Accepted,
    ) -> anyhow::Result<()> {
        if let Some(jwt) = accepted.jwt {
            let jwt = jwt
                .parse()
                .context("the credential in the controller's answer")?;
            let vouched = VouchedKey::new(jwt, keys.user.clone())
                .context("the credential in the controller's answer")?;
            Credentials::Jwt(vouched).write(&self.credential())?;
        }
        let ca = match accepted.ca_pem {
            Some(pem) => {
                let path = self.dir.join("ca.pem");
                write_public(&path, &pem)?;
                Some(path)
            }
            None => None,
        };
        // Where it moved to as the node it was before is not where this one's bus is.
        forget_moves(&self.dir).with_context(|| {
            format!(
                "where an earlier enrolment moved to cannot be removed from {}",
                self.dir.display()
            )
        })?;
        let config = AgentConfig {
            node: accepted.node,
            mesh: accepted.mesh,
            urls: token.urls.clone(),
            ca,
            credential: self.credential(),
            box_key: self.box_key(),
            controller: token.controller.clone(),
            bus: accepted.bus,
            runtime: RuntimeKind::Process,
            containers: mesh_agent::ContainerSettings::default(),
            heartbeat: AgentConfig::HEARTBEAT,
            state_dir: self.dir.clone(),
        };
        Ok(config.write(&self.config())?)
    }

    /// The agent's configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join(CONFIG)
    }

    fn credential(&self) -> PathBuf {
        self.dir.join("node.creds")
    }

    fn box_key(&self) -> PathBuf {
        self.dir.join("node.xkey")
    }
}

fn is_node(dir: &Path) -> anyhow::Error {
    let shown = dir.display();
    anyhow!(
        "{shown} already belongs to a node: run `node-agent --config {shown}/agent.toml`, or name another directory \
         with `--dir`; to make this host a new node, stop its agent and move {shown} away first"
    )
}

/// Takes the lock of the directory, the one its agent will hold: two enrolments at once would each write over the other's
/// keys.
fn hold(dir: &Path) -> anyhow::Result<File> {
    let path = dir.join("agent.lock");
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("{} cannot be opened", path.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => bail!(
            "another `enrol` or an agent is at work in {}; wait for it to end, or name another directory with `--dir`",
            dir.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", path.display()))
        }
    }
}

fn find(dir: &Path) -> std::io::Result<Found> {
    let metadata = match fs::metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Found {
                exists: false,
                occupied: false,
                mode: 0,
                enrolled: false,
            });
        }
        metadata => metadata?,
    };
    Ok(Found {
        exists: true,
        occupied: fs::read_dir(dir)?.next().is_some(),
        mode: metadata.permissions().mode() & 0o777,
        enrolled: fs::exists(dir.join(CONFIG))?,
    })
}

const CONFIG: &str = "agent.toml";

#[cfg(test)]
mod tests;
