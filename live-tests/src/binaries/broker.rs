//! A mesh of real programs over RabbitMQ: on the broker of the tests, with a virtual host of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use mesh_agent::AgentConfig;
use mesh_amqp::{AmqpNode, Credential, Dialling, Endpoint, FirstAttempt};
use mesh_auth::creds::Credentials;
use mesh_derive::render::nats_conf::EDGE_USERS_FILE;
use mesh_testkit::rabbitmq::Broker;
use serde_json::Value;

use super::programs::Programs;
use super::site::Site;

/// What a mesh has of the broker. Dropped, it is gone with everything in it.
#[derive(Debug)]
pub(super) struct Vhost {
    broker: &'static Broker,
    name: String,
}

impl Site {
    /// A folder in which nothing runs yet, of a mesh over RabbitMQ; nothing when there is none, which was said aloud.
    pub fn over_amqp() -> anyhow::Result<Option<Self>> {
        let Some(vhost) = Vhost::take()? else {
            return Ok(None);
        };
        let site = Self::with(Programs::without_nats()?, Some(vhost))?;
        let vhost = site.broker.as_ref().context("it was given")?;
        let text = vhost.configuration(site.dir())?;
        site.write("controller.toml", &text)?;
        Ok(Some(site))
    }

    /// The same of a mesh on RabbitMQ and on the NATS server its controller brings, at once; nothing when either is not
    /// there, which was said aloud.
    pub fn on_both() -> anyhow::Result<Option<Self>> {
        let (Some(programs), Some(vhost)) = (Programs::get()?, Vhost::take()?) else {
            return Ok(None);
        };
        let site = Self::with(programs, Some(vhost))?;
        let vhost = site.broker.as_ref().context("it was given")?;
        let text = vhost.configuration(site.dir())? + "[bus.nats]\n";
        site.write("controller.toml", &text)?;
        Ok(Some(site))
    }

    /// Somebody with a node's credential, beside its agent; as who no longer has it is refused.
    pub async fn as_node(&self, node: &str) -> anyhow::Result<AmqpNode> {
        let config = AgentConfig::read(&self.home(node).join("agent.toml"))?;
        let credential = Credentials::read(&config.credential)?;
        let credential = Credential::of_seed(credential.key().seed().expose());
        let endpoint = Endpoint::of_urls(&config.urls, None, "a test")?;
        let dialling = Dialling {
            first: FirstAttempt::MustSucceed,
            seed: 7,
        };
        Ok(AmqpNode::connect(&endpoint, &credential, &config.node, dialling).await?)
    }

    /// What one of the mesh's users may read on the broker, as the pattern of its permission; nothing for one there is not.
    pub fn may_read(&self, user: &str) -> anyhow::Result<Option<String>> {
        let vhost = self.broker.as_ref().context("it is over RabbitMQ")?;
        let (name, tool) = (&vhost.name, vhost.broker.management());
        let answer = tool.ask("GET", &format!("permissions/{name}/{name}.{user}"), None)?;
        if answer.status == 404 {
            return Ok(None);
        }
        ensure!(answer.status == 200, "{answer:?}");
        let found: Value = serde_json::from_str(&answer.body)?;
        Ok(found.get("read").and_then(Value::as_str).map(str::to_owned))
    }

    /// The file of users the controller writes for the NATS server it brings.
    pub fn nats_users(&self) -> anyhow::Result<String> {
        let file = self.state_dir().join("bus").join(EDGE_USERS_FILE);
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// The names of the mesh's users on the broker, without what they begin with.
    pub fn users(&self) -> anyhow::Result<Vec<String>> {
        self.broker.as_ref().context("it is over RabbitMQ")?.users()
    }
}

impl Vhost {
    fn take() -> anyhow::Result<Option<Self>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let broker = Broker::shared()?;
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(broker.map(|broker| Self {
            broker,
            name: format!("site-{}-{nth}", std::process::id()),
        }))
    }

    /// What a controller is told of it; who provisions stands in a file of its own in `dir`.
    fn configuration(&self, dir: &Path) -> anyhow::Result<String> {
        let tool = self.broker.management();
        let (user, password) = tool.credentials()?;
        let file = dir.join("provisioner");
        std::fs::write(&file, format!("{user}:{password}\n"))?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
        let (amqp, http, name) = (self.broker.amqp(), tool.at(), &self.name);
        Ok(format!(
            "version = 1\n[bus]\ndefault = \"amqp\"\n[bus.amqp]\nurl = \"amqp://{amqp}/{name}?users={name}.\"\n\
             management_url = \"http://{http}\"\nprovisioner_file = \"{}\"\n",
            file.display()
        ))
    }

    fn users(&self) -> anyhow::Result<Vec<String>> {
        let users = self.broker.management().get("users?columns=name")?;
        let users = users.as_array().context("users are a list")?;
        let names = users.iter().filter_map(|user| user.get("name")?.as_str());
        let own = names.filter_map(|name| name.strip_prefix(&self.name)?.strip_prefix('.'));
        Ok(own.map(str::to_owned).collect())
    }

    fn clear(&self) -> anyhow::Result<()> {
        let tool = self.broker.management();
        for user in self.users()? {
            tool.ask("DELETE", &format!("users/{}.{user}", self.name), None)?;
        }
        tool.ask("DELETE", &format!("vhosts/{}", self.name), None)?;
        Ok(())
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        // What is left behind goes with the broker, or is seen there.
        let _left = self.clear();
    }
}
