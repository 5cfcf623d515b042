//! The RabbitMQ the demo plays on when it is told to: one of its own on loopback, which ends with it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mesh_testkit::rabbitmq::Broker;

use crate::setup;

/// A broker that runs, and the virtual host the demo has on it.
#[derive(Debug)]
pub(crate) struct Stand {
    broker: Broker,
    vhost: String,
}

impl Stand {
    /// Starts one, or takes the one the environment names.
    pub(crate) fn start() -> Result<Self> {
        setup::rabbitmq()?;
        let broker = Broker::find()?.context("RabbitMQ is installed and cannot be found")?;
        Ok(Self {
            broker,
            vhost: format!("mesh-demo-{}", std::process::id()),
        })
    }

    /// Writes what a controller is told of it, and gives the file.
    pub(crate) fn configure(&self, dir: &Path) -> Result<PathBuf> {
        let (amqp, management) = (self.broker.amqp(), self.broker.management());
        let (user, password) = management.credentials()?;
        let provisioner = dir.join("provisioner");
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&provisioner)?;
        writeln!(file, "{user}:{password}")?;
        let (vhost, http) = (&self.vhost, management.at());
        let text = format!(
            "version = 1\n[bus]\ndefault = \"amqp\"\n[bus.amqp]\n\
             url = \"amqp://{amqp}/{vhost}?users={vhost}.\"\nmanagement_url = \"http://{http}\"\n\
             provisioner_file = \"{}\"\n",
            provisioner.display()
        );
        let config = dir.join("controller.toml");
        fs::write(&config, text)?;
        Ok(config)
    }

    /// Takes away what a mesh leaves on a broker that goes on: its users, and its virtual host with all that is in it.
    pub(crate) fn clear(&self) -> Result<()> {
        let management = self.broker.management();
        let users = management.get("users?columns=name")?;
        let users = users.as_array().into_iter().flatten();
        let prefix = format!("{}.", self.vhost);
        for user in users.filter_map(|user| user.get("name")?.as_str()) {
            if user.starts_with(&prefix) {
                management.ask("DELETE", &format!("users/{user}"), None)?;
            }
        }
        management.ask("DELETE", &format!("vhosts/{}", self.vhost), None)?;
        Ok(())
    }
}
