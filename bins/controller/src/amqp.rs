//! A RabbitMQ somebody runs: the controller makes everything in it through its management.

use std::path::Path;

use anyhow::Context;
use mesh_amqp::{
    Account, AmqpController, ControllerSetup, Dialling, Endpoint, FirstAttempt, Trust,
};
use mesh_auth::keyfile::read_secret;
use mesh_bus::ControllerBus;
use mesh_derive::Bounds;

use crate::config::{Amqp, Provisioner};
use crate::managed::Reach;
use crate::served::vouching;

/// A broker that is there, and how hosts reach it.
#[derive(Debug)]
pub(crate) struct AmqpBus {
    /// The controller's side.
    pub(crate) bus: AmqpController,
    /// What hosts are told.
    pub(crate) reach: Reach,
}

/// Connects.
pub(crate) async fn open(amqp: &Amqp) -> anyhow::Result<AmqpBus> {
    let pem = match &amqp.ca {
        Some(ca) => Some(
            std::fs::read_to_string(ca)
                .with_context(|| format!("bus.amqp.ca: {} cannot be read", ca.display()))?,
        ),
        None => None,
    };
    let trust = pem.as_deref().map(Trust::of_pem).transpose();
    let trust = trust.context("bus.amqp.ca")?;
    let account = match &amqp.provisioner {
        Provisioner::Written(account) => account.clone(),
        Provisioner::File(path) => account(path)?,
    };
    let url = amqp.url.to_string();
    let setup = ControllerSetup {
        endpoint: Endpoint::of_urls(&[&url], trust.clone(), "controller")?,
        management: amqp.management.management(trust, account),
        bounds: Bounds::default(),
        queues: amqp.queues,
        dialling: Dialling {
            first: FirstAttempt::MustSucceed,
            seed: mesh_host::seed(),
        },
    };
    let bus = AmqpController::connect(setup).await.context("the bus")?;
    let pinned = pem.filter(|_| amqp.url.encrypted);
    let ca = pinned.map(|pem| vouching("bus.amqp.ca", pem)).transpose()?;
    let reach = Reach {
        urls: vec![url],
        ca,
        facts: bus.facts(),
    };
    Ok(AmqpBus { bus, reach })
}

/// The account in a file that is its owner's alone.
fn account(path: &Path) -> anyhow::Result<Account> {
    let text = read_secret(path).context("bus.amqp.provisioner_file")?;
    let (user, password) = text
        .expose()
        .trim_end()
        .split_once(':')
        .filter(|(user, password)| !user.is_empty() && !password.is_empty())
        .with_context(|| {
            format!(
                "bus.amqp.provisioner_file: {} holds no account; write one line USER:PASSWORD",
                path.display()
            )
        })?;
    Ok(Account {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_account_is_one_line_in_a_file_of_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("provisioner");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        };
        write("admin:a:b\n", 0o600);
        let found = account(&path).unwrap();
        assert_eq!(
            (found.user.as_str(), found.password.as_str()),
            ("admin", "a:b")
        );
        for text in ["admin", ":b", "admin:", ""] {
            write(text, 0o600);
            let error = format!("{:#}", account(&path).unwrap_err());
            assert!(error.contains("USER:PASSWORD"), "{text:?}: {error}");
        }
        write("admin:secret", 0o644);
        let error = format!("{:#}", account(&path).unwrap_err());
        assert!(
            error.contains("provisioner_file") && !error.contains("secret"),
            "{error}"
        );
    }
}
