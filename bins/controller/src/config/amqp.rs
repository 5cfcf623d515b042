//! `[bus.amqp]`: a RabbitMQ somebody runs, as typed and as meant.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use mesh_amqp::{Account, BrokerUrl, ManagementUrl};
use mesh_derive::topology::QueueKind;
use serde::Deserialize;

/// A RabbitMQ somebody runs.
#[derive(Debug, Clone)]
pub(crate) struct Amqp {
    /// Where it speaks AMQP, for the controller and for everybody else.
    pub(crate) url: BrokerUrl,
    /// Where it is managed.
    pub(crate) management: ManagementUrl,
    /// Who vouches for both; nothing where neither encrypts.
    pub(crate) ca: Option<PathBuf>,
    /// Who provisions it.
    pub(crate) provisioner: Provisioner,
    /// What kind of queues hold what must not be lost.
    pub(crate) queues: QueueKind,
}

/// Where the account is that makes users and queues.
#[derive(Debug, Clone)]
pub(crate) enum Provisioner {
    /// In the configuration.
    Written(Account),
    /// In a file of its own, one line `USER:PASSWORD`.
    File(PathBuf),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedAmqp {
    url: Option<String>,
    management_url: Option<String>,
    ca: Option<PathBuf>,
    provisioner_file: Option<PathBuf>,
    queues: Option<String>,
}

impl fmt::Debug for TypedAmqp {
    /// There may be a password in the URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypedAmqp")
    }
}

impl TypedAmqp {
    /// What is meant by it. `file` is where it stands.
    pub(super) fn meant(self, file: Option<&Path>) -> anyhow::Result<Amqp> {
        let url = self
            .url
            .context("bus.amqp needs url = \"amqps://HOST:5671/VHOST\"")?;
        let (url, account) = BrokerUrl::with_account(&url).context("bus.amqp.url")?;
        let management = self
            .management_url
            .context("bus.amqp needs management_url = \"https://HOST:15671\": the controller makes users and queues through it")?;
        let management: ManagementUrl = management.parse().context("bus.amqp.management_url")?;
        if self.ca.is_none() && (url.encrypted || management.encrypted) {
            bail!("bus.amqp needs ca = \"FILE\": who vouches for the broker's certificate");
        }
        let provisioner = match (account, self.provisioner_file) {
            (None, Some(path)) => Provisioner::File(path),
            (Some(account), None) => {
                if let Some(file) = file {
                    only_its_owners(file)?;
                }
                Provisioner::Written(account)
            }
            (Some(_), Some(_)) => bail!(
                "bus.amqp: an account in url and provisioner_file are two of one thing; leave the account out of url"
            ),
            (None, None) => bail!(
                "bus.amqp needs provisioner_file = \"FILE\", which holds USER:PASSWORD of the account that makes users and queues"
            ),
        };
        let queues = match self.queues.as_deref() {
            None | Some("classic") => QueueKind::Classic,
            Some("quorum") => QueueKind::Quorum,
            Some(_) => bail!("bus.amqp.queues: write \"classic\" or \"quorum\""),
        };
        Ok(Amqp {
            url,
            management,
            ca: self.ca,
            provisioner,
            queues,
        })
    }
}

impl fmt::Display for Amqp {
    /// For an operator's eyes: no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "amqp {}, managed at {} ", self.url, self.management)?;
        match &self.provisioner {
            Provisioner::Written(account) => write!(f, "as {} (password redacted)", account.user),
            Provisioner::File(path) => write!(f, "as {} says", path.display()),
        }
    }
}

fn only_its_owners(file: &Path) -> anyhow::Result<()> {
    let what = || format!("configuration {} cannot be looked at", file.display());
    let mode = file.metadata().with_context(what)?.permissions().mode();
    if mode & 0o077 != 0 {
        let file = file.display();
        bail!(
            "bus.amqp.url has a password in it, and others may read {file}: run `chmod 600 {file}`, or write the account into a file of its own and name that as provisioner_file"
        );
    }
    Ok(())
}
