//! The controller's own keys and certificates: made once, kept beside the store.

use std::path::{Path, PathBuf};

use anyhow::Context;
use mesh_auth::keyfile;
use mesh_auth::keys::{BoxKey, SigningKey, UserKey};
use mesh_auth::secret::SecretText;
use mesh_auth::sign::sign;
use mesh_auth::tls::Authority;
use mesh_bus::Signer;
use mesh_model::PublicKey;

use crate::state::Begun;

/// Everything that makes this controller the one nodes believe.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Signs declarations and answers; nodes pin its public half.
    pub(crate) signing: SigningKey,
    /// The controller's user in the account that holds JetStream.
    pub(crate) controller: UserKey,
    /// Its user in the system account.
    pub(crate) system: UserKey,
    /// Opens the secrets operators set: they are kept sealed to it.
    pub(crate) secrets: BoxKey,
}

impl Keys {
    /// Signs as this controller.
    pub(crate) fn signer(&self) -> Signer {
        let signing = self.signing.clone();
        Signer::new(move |message| sign(&signing, message))
    }

    /// Reads the keys of a state directory; makes them where none were begun. `sealing` says whether a secret is kept:
    /// an earlier release made no key for that, and what is sealed to one that is gone opens no more.
    pub(crate) fn open(dir: &Path, begun: Begun, sealing: Begun) -> anyhow::Result<Self> {
        private_dir(dir)?;
        let file = |name: &str| dir.join(format!("{name}.seed"));
        Ok(Self {
            signing: key(
                begun,
                &file("signing"),
                SigningKey::generate,
                SigningKey::from_seed,
                SigningKey::seed,
            )?,
            controller: key(
                begun,
                &file("controller"),
                UserKey::generate,
                UserKey::from_seed,
                UserKey::seed,
            )?,
            system: key(
                begun,
                &file("system"),
                UserKey::generate,
                UserKey::from_seed,
                UserKey::seed,
            )?,
            secrets: key(
                sealing,
                &file("secrets"),
                BoxKey::generate,
                BoxKey::from_seed,
                BoxKey::seed,
            )?,
        })
    }
}

fn key<
    K,
    G: std::error::Error + Send + Sync + 'static,
    R: std::error::Error + Send + Sync + 'static,
>(
    begun: Begun,
    path: &Path,
    generate: impl Fn() -> Result<K, G>,
    read: impl Fn(&str) -> Result<K, R>,
    seed: impl Fn(&K) -> SecretText,
) -> anyhow::Result<K> {
    if is_there(path, begun)? {
        let text = keyfile::read_secret(path)?;
        let key = read(text.expose().trim());
        return key.with_context(|| {
            format!(
                "key {} cannot be used; restore it from a backup",
                path.display()
            )
        });
    }
    let key = generate()?;
    keyfile::write_secret(path, &seed(&key))?;
    Ok(key)
}

/// Whether a key is there. One that was made and is gone is lost: a new one in its place would be nobody's to believe.
fn is_there(path: &Path, begun: Begun) -> anyhow::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && begun == Begun::Now => Ok(false),
        Err(error) => Err(error).with_context(|| {
            format!(
                "key {} was made and is not there; restore it from a backup: another one in its place is of no use",
                path.display()
            )
        }),
    }
}

/// The certificate authority of a managed bus, and the certificate its server shows.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// Who vouches.
    pub(crate) authority: Authority,
    /// The server's certificate, with the authority's.
    pub(crate) chain: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

/// Seconds before its end at which a certificate is renewed.
const RENEW_BEFORE: u64 = 30 * 24 * 3600;

impl Certificates {
    /// Reads the certificates of a state directory, makes what is missing and renews what is about to end.
    pub(crate) fn open(dir: &Path, names: &[String], begun: Begun) -> anyhow::Result<Self> {
        private_dir(dir)?;
        let now = mesh_host::now().as_secs();
        let (ca, ca_key) = (dir.join("ca.pem"), dir.join("ca.key"));
        let authority = if is_there(&ca_key, begun)? {
            let certificate = std::fs::read_to_string(&ca)
                .with_context(|| format!("certificate {} cannot be read", ca.display()))?;
            let key = keyfile::read_secret(&ca_key)?;
            Authority::from_pem(&certificate, key.expose())?
        } else {
            let authority = Authority::generate(now)?;
            keyfile::write_public(&ca, authority.certificate_pem())?;
            keyfile::write_secret(&ca_key, &authority.key_pem())?;
            authority
        };
        let (chain, key) = (dir.join("server.pem"), dir.join("server.key"));
        let current = std::fs::read_to_string(&chain).ok();
        let good = |pem: &String| authority.still_vouches_for(pem, names, now + RENEW_BEFORE);
        if !key.exists() || !current.as_ref().is_some_and(good) {
            let issued = authority.issue(names, now)?;
            keyfile::write_secret(&key, &issued.key_pem)?;
            keyfile::write_public(&chain, &issued.chain_pem)?;
        }
        Ok(Self {
            authority,
            chain,
            key,
        })
    }
}

/// A user's public key in the mesh's own type.
pub(crate) fn public(key: &UserKey) -> anyhow::Result<PublicKey> {
    Ok(PublicKey::new(key.public().as_str())?)
}

/// Makes a directory for its owner alone.
pub(crate) fn private_dir(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let what = || format!("directory {} cannot be made", dir.display());
    if dir.is_dir() {
        let mode = std::fs::metadata(dir)
            .with_context(what)?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
                .with_context(what)?;
        }
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(what)
}
