//! RabbitMQ as the world in which the claims about every bus are checked: one broker for all, a virtual host for each.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use mesh_amqp::{
    AmqpController, AmqpJoiner, AmqpModule, AmqpNode, ControllerSetup, Credential, Dialling,
    Endpoint, FirstAttempt, Management,
};
use mesh_bus::BusError;
use mesh_bus::conformance::World;
use mesh_control::{Mint, MintError, Minted};
use mesh_derive::topology::{Queue, QueueClass, QueueKind, whose_login};
use mesh_derive::{Bounds, subject};
use mesh_model::{
    BoxPublicKey, BusKind, ConsumerRef, InstanceRef, NodeName, Principal, PublicKey, StreamName,
    Timestamp, TokenId,
};
use mesh_testkit::rabbitmq::{Broker, Management as Tool, Shape};
use serde_json::Value;

use crate::keys::KeyRing;
use crate::lent::Lent;

/// A virtual host of its own, with nobody in it.
#[derive(Debug)]
pub struct AmqpWorld {
    broker: Lent,
    vhost: String,
    keys: AmqpKeys,
}

/// Keys as they are on this bus: what is public of one is the hash of a password.
#[derive(Debug, Clone, Default)]
pub struct AmqpKeys(KeyRing);

impl AmqpKeys {
    /// What somebody logs in with.
    pub fn credential(&self, who: &Principal) -> anyhow::Result<Credential> {
        let key = self.0.user(who)?;
        Ok(Credential::of_seed(key.seed().expose()))
    }

    /// The password in it.
    pub fn password(&self, who: &Principal) -> anyhow::Result<String> {
        Ok(self.credential(who)?.password().to_owned())
    }
}

impl Mint for AmqpKeys {
    fn mint(
        &mut self,
        whom: &Principal,
        bus: BusKind,
        to: &BoxPublicKey,
    ) -> Result<Minted, MintError> {
        let minted = self.0.mint(whom, bus, to)?;
        let own = self.credential(whom);
        let own = own.map_err(|why| MintError {
            whom: whom.clone(),
            why: format!("{why:#}"),
        })?;
        Ok(Minted {
            key: own.public(),
            ..minted
        })
    }

    fn reseal(
        &mut self,
        whom: &Principal,
        sealed: &mesh_model::Sealed,
        to: &BoxPublicKey,
    ) -> Result<mesh_model::Sealed, MintError> {
        self.0.reseal(whom, sealed, to)
    }
}

impl AmqpWorld {
    /// A new one; nothing when there is no broker.
    pub async fn start() -> anyhow::Result<Option<Self>> {
        let broker = tokio::task::spawn_blocking(Broker::shared).await??;
        Ok(broker.map(|broker| Self::on(Lent::Shared(broker))))
    }

    /// A new one, on a broker that tells of connections and readers too.
    pub async fn with_statistics() -> anyhow::Result<Option<Self>> {
        let broker = tokio::task::spawn_blocking(Broker::shared_with_statistics).await??;
        Ok(broker.map(|broker| Self::on(Lent::Shared(broker))))
    }

    /// A new one, on a broker of its own.
    pub async fn of_its_own(shape: Shape) -> anyhow::Result<Option<Self>> {
        let broker = tokio::task::spawn_blocking(move || Broker::own(&shape)).await??;
        Ok(broker.map(|broker| Self::on(Lent::Own(Box::new(broker)))))
    }

    fn on(broker: Lent) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            broker,
            vhost: format!("live-{}-{nth}", std::process::id()),
            keys: AmqpKeys::default(),
        }
    }

    /// A node whose agent began at this time.
    pub async fn node_since(&self, node: &NodeName, session: u64) -> Result<AmqpNode, BusError> {
        let own = self.keys.credential(&Principal::Node(node.clone()));
        let own = own.map_err(away)?;
        AmqpNode::connect(&self.endpoint(), &own, node, session, DIALLING).await
    }

    /// The broker it is on.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Where it is.
    pub fn endpoint(&self) -> Endpoint {
        let at = self.broker.amqp();
        Endpoint {
            servers: vec![(at.ip().to_string(), at.port())],
            vhost: self.vhost.clone(),
            users: format!("{}.", self.vhost),
            trust: None,
            name: "live test".to_owned(),
        }
    }

    /// Its virtual host.
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// An operator's tool.
    pub fn tool(&self) -> &Tool {
        self.broker.management()
    }

    /// Everybody's keys.
    pub const fn keys(&self) -> &AmqpKeys {
        &self.keys
    }

    /// What a controller is told, with these bounds.
    pub fn setup(&self, bounds: Bounds) -> anyhow::Result<ControllerSetup> {
        Ok(ControllerSetup {
            endpoint: self.endpoint(),
            management: self.management()?,
            bounds,
            queues: QueueKind::Classic,
            dialling: DIALLING,
        })
    }

    fn management(&self) -> anyhow::Result<Management> {
        let tool = self.broker.management();
        let (user, password) = tool.credentials()?;
        Ok(Management {
            host: tool.at().ip().to_string(),
            port: tool.at().port(),
            trust: None,
            user,
            password,
        })
    }

    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Tool, &str) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, BusError> {
        let (tool, vhost) = (self.broker.management().clone(), self.vhost.clone());
        let asked = tokio::task::spawn_blocking(move || ask(&tool, &vhost)).await;
        let asked = asked.map_err(anyhow::Error::from).flatten();
        asked.map_err(|error| BusError::Away(format!("{error:#}")))
    }

    /// What queues have, waiting and out.
    async fn count(&self, is: impl Fn(&Queue) -> bool + Send + 'static) -> Result<usize, BusError> {
        // The counts of the tests' own broker are this old at most; those of another may be five seconds old.
        tokio::time::sleep(COUNTED_EACH * 2).await;
        self.ask(move |tool, vhost| {
            let all = tool.get(&format!("queues/{vhost}?columns=name,messages"))?;
            let all = all.as_array().map(Vec::as_slice).unwrap_or_default();
            let of_queues = all
                .iter()
                .filter(|it| named(it).is_some_and(|queue| is(&queue)));
            let counts = of_queues.filter_map(|it| it.get("messages")?.as_u64());
            Ok(usize::try_from(counts.sum::<u64>())?)
        })
        .await
    }

    /// Deletes queues with all they hold. Answers whether there was one.
    async fn delete(&self, is: impl Fn(&Queue) -> bool + Send + 'static) -> Result<bool, BusError> {
        self.ask(move |tool, vhost| {
            let mut was = false;
            for queue in queues(tool, vhost)?.filter(|queue| is(queue)) {
                let path = format!("queues/{vhost}/{}", queue.name());
                was |= tool.ask("DELETE", &path, None)?.status == 204;
            }
            Ok(was)
        })
        .await
    }
}

fn queues(tool: &Tool, vhost: &str) -> anyhow::Result<impl Iterator<Item = Queue> + use<>> {
    let all = tool.get(&format!("queues/{vhost}?columns=name"))?;
    let all = all.as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().filter_map(|it| named(&it)))
}

fn named(queue: &Value) -> Option<Queue> {
    Queue::named(queue.get("name")?.as_str()?)
}

/// Whether a queue is a stream's, as it is on this bus.
fn is_of(stream: &StreamName, queue: &Queue) -> bool {
    let class = queue.class();
    if *stream == subject::nodes_stream() {
        matches!(class, QueueClass::Node | QueueClass::Mark)
    } else if *stream == subject::control_stream() {
        matches!(class, QueueClass::Reports | QueueClass::Enrolments)
    } else if *stream == subject::events_stream() {
        matches!(class, QueueClass::Module | QueueClass::Announcements)
    } else if *stream == subject::parked_stream() {
        class == QueueClass::Parked
    } else {
        matches!(queue, Queue::Seat(seat) if subject::seat_stream(seat) == *stream)
    }
}

/// Whether a queue is what a consumer is on this bus.
fn is_consumer(consumer: &ConsumerRef, queue: &Queue) -> bool {
    match queue {
        Queue::Node(node) => {
            *consumer.stream() == subject::nodes_stream() && consumer.name() == node.as_str()
        }
        Queue::Module(module) => {
            *consumer.stream() == subject::events_stream() && consumer.name() == module.as_str()
        }
        Queue::Announcements => {
            *consumer.stream() == subject::events_stream() && consumer.name() == "controller"
        }
        Queue::Seat(seat) => *consumer.stream() == subject::seat_stream(seat),
        _ => false,
    }
}

impl World for AmqpWorld {
    type Controller = AmqpController;
    type Node = AmqpNode;
    type Joiner = AmqpJoiner;
    type Module = AmqpModule;
    type Mint = AmqpKeys;

    fn clock(&self) -> fn() -> Timestamp {
        mesh_host::now
    }

    #[expect(
        clippy::expect_used,
        reason = "the system has randomness, and a generated key has a key's form"
    )]
    fn user(&self, who: &Principal) -> PublicKey {
        self.keys
            .credential(who)
            .expect("a key can be made")
            .public()
    }

    #[expect(
        clippy::expect_used,
        reason = "the system has randomness, and a generated key has a key's form"
    )]
    fn box_key(&self, node: &NodeName) -> BoxPublicKey {
        self.keys.0.box_key(node).expect("a key can be made")
    }

    fn mint(&self) -> AmqpKeys {
        self.keys.clone()
    }

    async fn controller(&self) -> Result<AmqpController, BusError> {
        AmqpController::connect(self.setup(Bounds::default()).map_err(away)?).await
    }

    async fn node(&self, node: &NodeName) -> Result<AmqpNode, BusError> {
        self.node_since(node, 0).await
    }

    async fn joiner(&self, token: &TokenId) -> Result<AmqpJoiner, BusError> {
        let own = self.keys.credential(&Principal::Joiner(token.clone()));
        AmqpJoiner::connect(&self.endpoint(), &own.map_err(away)?, token, DIALLING).await
    }

    async fn module(&self, instance: &InstanceRef) -> Result<AmqpModule, BusError> {
        let own = self.keys.credential(&Principal::Instance(instance.clone()));
        AmqpModule::connect(&self.endpoint(), &own.map_err(away)?, instance, DIALLING).await
    }

    async fn stored(&self, stream: &StreamName) -> Result<usize, BusError> {
        let stream = stream.clone();
        self.count(move |queue| is_of(&stream, queue)).await
    }

    async fn unsettled(&self, consumer: &ConsumerRef) -> Result<usize, BusError> {
        let consumer = consumer.clone();
        self.count(move |queue| is_consumer(&consumer, queue)).await
    }

    /// A broker lets everybody settle what it delivered to him: there is nothing to withhold.
    async fn withhold_event_acks(&self) -> Result<bool, BusError> {
        Ok(false)
    }

    async fn delete_consumer(&self, consumer: &ConsumerRef) -> Result<bool, BusError> {
        let consumer = consumer.clone();
        self.delete(move |queue| is_consumer(&consumer, queue))
            .await
    }

    async fn delete_stream(&self, stream: &StreamName) -> Result<bool, BusError> {
        let stream = stream.clone();
        self.delete(move |queue| is_of(&stream, queue)).await
    }
}

impl Drop for AmqpWorld {
    /// Users belong to the broker: they would outlive the virtual host.
    fn drop(&mut self) {
        if self.broker.is_shared() {
            // What is left behind goes with the broker, or is seen there.
            let _left = clear(self.broker.management(), &self.vhost);
        }
    }
}

fn clear(tool: &Tool, vhost: &str) -> anyhow::Result<()> {
    let users = tool.get("users?columns=name")?;
    let users = users.as_array().context("users are a list")?;
    let names = users.iter().filter_map(|user| user.get("name")?.as_str());
    let mesh = format!("{vhost}.");
    for user in names.filter(|name| whose_login(&mesh, name).is_some()) {
        tool.ask("DELETE", &format!("users/{user}"), None)?;
    }
    tool.ask("DELETE", &format!("vhosts/{vhost}"), None)?;
    Ok(())
}

fn away(error: anyhow::Error) -> BusError {
    BusError::Away(format!("{error:#}"))
}

const DIALLING: Dialling = Dialling {
    first: FirstAttempt::MustSucceed,
    seed: 7,
};
/// How often the broker of the tests counts (`collect_statistics_interval`).
const COUNTED_EACH: Duration = Duration::from_millis(100);
