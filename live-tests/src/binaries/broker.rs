//! A mesh of real programs over RabbitMQ: on the broker of the tests, with a virtual host of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use mesh_agent::AgentConfig;
use mesh_amqp::{AmqpNode, Credential, Dialling, Endpoint, FirstAttempt, Trust};
use mesh_auth::creds::Credentials;
use mesh_auth::tls::Authority;
use mesh_derive::render::nats_conf::EDGE_USERS_FILE;
use mesh_testkit::rabbitmq::{Broker, Shape};
use serde_json::Value;

use super::programs::Programs;
use super::site::Site;
use super::wire::Publisher;
use crate::lent::Lent;

/// What a mesh has of the broker. Dropped, it is gone with everything in it.
#[derive(Debug)]
pub(super) struct Vhost {
    broker: Lent,
    name: String,
}

impl Site {
    /// A folder in which nothing runs yet, of a mesh over RabbitMQ; nothing when there is none, which was said aloud.
    pub fn over_amqp() -> anyhow::Result<Option<Self>> {
        let Some(vhost) = Vhost::take()? else {
            return Ok(None);
        };
        let site = Self::with(Programs::without_nats()?, Some(vhost))?;
        site.tell_controller(None)?;
        Ok(Some(site))
    }

    /// The same over a broker of its own, which may be stopped.
    pub fn over_own_broker(shape: &Shape) -> anyhow::Result<Option<Self>> {
        let Some(vhost) = Vhost::own(shape)? else {
            return Ok(None);
        };
        let site = Self::with(Programs::without_nats()?, Some(vhost))?;
        site.tell_controller(None)?;
        Ok(Some(site))
    }

    /// The same over a broker of its own, spoken to over TLS alone; who vouches for it comes along.
    pub fn over_amqps() -> anyhow::Result<Option<(Self, Authority)>> {
        let authority = Authority::generate(seconds())?;
        let own = authority.issue(&[], seconds())?;
        let shape = Shape {
            certificate: Some((own.chain_pem, own.key_pem.expose().to_owned())),
            ..Shape::default()
        };
        let Some(vhost) = Vhost::own(&shape)? else {
            return Ok(None);
        };
        let site = Self::with(Programs::without_nats()?, Some(vhost))?;
        site.tell_controller(Some(authority.certificate_pem()))?;
        Ok(Some((site, authority)))
    }

    /// The same of a mesh on RabbitMQ and on the NATS server its controller brings, at once; nothing when either is not
    /// there, which was said aloud.
    pub fn on_both() -> anyhow::Result<Option<Self>> {
        let (Some(programs), Some(vhost)) = (Programs::get()?, Vhost::take()?) else {
            return Ok(None);
        };
        let site = Self::with(programs, Some(vhost))?;
        let text = site.vhost()?.configuration(site.dir(), None)? + "[bus.nats]\n";
        site.write("controller.toml", &text)?;
        Ok(Some(site))
    }

    /// Writes what the controller is told of its broker; with whom to trust, over TLS.
    pub fn tell_controller(&self, trusted: Option<&str>) -> anyhow::Result<()> {
        let text = self.vhost()?.configuration(self.dir(), trusted)?;
        self.write("controller.toml", &text)?;
        Ok(())
    }

    /// Somebody with a node's credential, beside its agent; as who no longer has it is refused.
    pub async fn as_node(&self, node: &str) -> anyhow::Result<AmqpNode> {
        let config = AgentConfig::read(&self.home(node).join("agent.toml"))?;
        let credential = Credentials::read(&config.credential)?;
        let credential = Credential::of_seed(credential.key().seed().expose());
        let trust = config.ca.map(|ca| -> anyhow::Result<Trust> {
            Ok(Trust::of_pem(&std::fs::read_to_string(ca)?)?)
        });
        let endpoint = Endpoint::of_urls(&config.urls, trust.transpose()?, "a test")?;
        let dialling = Dialling {
            first: FirstAttempt::MustSucceed,
            seed: 7,
        };
        Ok(AmqpNode::connect(&endpoint, &credential, &config.node, 0, dialling).await?)
    }

    /// Somebody who reports in place of a node's agent, about its newest declaration.
    pub async fn amqp_publisher(&self, node: &str) -> anyhow::Result<Publisher<AmqpNode>> {
        let generation = self.declared(node).await?;
        Ok(Publisher::over(
            self.as_node(node).await?,
            node.parse()?,
            generation,
        ))
    }

    /// Its broker.
    pub fn broker(&self) -> anyhow::Result<&Broker> {
        Ok(&self.vhost()?.broker)
    }

    /// How many messages of a queue wait, and how many are out.
    pub fn queue(&self, queue: &str) -> anyhow::Result<(u64, u64)> {
        let vhost = self.vhost()?;
        let tool = vhost.broker.management();
        let columns = "columns=name,messages_ready,messages_unacknowledged";
        let all = tool.get(&format!("queues/{}?{columns}", vhost.name))?;
        let mut all = all.as_array().into_iter().flatten();
        let found = all.find(|it| it.get("name").and_then(Value::as_str) == Some(queue));
        let found = found.with_context(|| format!("there is no queue {queue}"))?;
        let count = |of: &str| found.get(of).and_then(Value::as_u64);
        let counted = count("messages_ready").zip(count("messages_unacknowledged"));
        counted.with_context(|| format!("queue {queue} is not counted: {found}"))
    }

    /// What one of the mesh's users may read on the broker, as the pattern of its permission; nothing for one there is not.
    pub fn may_read(&self, user: &str) -> anyhow::Result<Option<String>> {
        let vhost = self.vhost()?;
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

    fn vhost(&self) -> anyhow::Result<&Vhost> {
        self.broker.as_ref().context("it is over RabbitMQ")
    }

    /// The names of the mesh's users on the broker, without what they begin with.
    pub fn users(&self) -> anyhow::Result<Vec<String>> {
        self.vhost()?.users()
    }
}

impl Vhost {
    fn take() -> anyhow::Result<Option<Self>> {
        let broker = Broker::shared()?;
        Ok(broker.map(|broker| Self::of(Lent::Shared(broker))))
    }

    fn own(shape: &Shape) -> anyhow::Result<Option<Self>> {
        let broker = Broker::own(shape)?;
        Ok(broker.map(|broker| Self::of(Lent::Own(Box::new(broker)))))
    }

    fn of(broker: Lent) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("site-{}-{nth}", std::process::id());
        Self { broker, name }
    }

    /// What a controller is told of it; who provisions, and whom to trust, stand in files of their own in `dir`.
    fn configuration(&self, dir: &Path, trusted: Option<&str>) -> anyhow::Result<String> {
        let (broker, name) = (&*self.broker, &self.name);
        let tool = broker.management();
        let (user, password) = tool.credentials()?;
        let file = dir.join("provisioner");
        std::fs::write(&file, format!("{user}:{password}\n"))?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
        let (amqp, http, ca) = match trusted {
            None => (
                format!("amqp://{}", broker.amqp()),
                format!("http://{}", tool.at()),
                String::new(),
            ),
            Some(trusted) => {
                let ca = dir.join("trusted.pem");
                std::fs::write(&ca, trusted)?;
                let at = broker.amqps().zip(broker.https());
                let (amqps, https) = at.context("the broker is of the tests' own")?;
                (
                    format!("amqps://{amqps}"),
                    format!("https://{https}"),
                    format!("ca = \"{}\"\n", ca.display()),
                )
            }
        };
        Ok(format!(
            "version = 1\n[bus]\ndefault = \"amqp\"\n[bus.amqp]\nurl = \"{amqp}/{name}?users={name}.\"\n\
             management_url = \"{http}\"\n{ca}provisioner_file = \"{}\"\n",
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
        if self.broker.is_shared() {
            // What is left behind goes with the broker, or is seen there.
            let _left = self.clear();
        }
    }
}

fn seconds() -> u64 {
    mesh_host::now().as_millis() / 1000
}
