//! NATS as the world in which the claims about every bus are checked.

use mesh_bus::BusError;
use mesh_bus::conformance::World;
use mesh_derive::Bounds;
use mesh_model::{
    BoxPublicKey, ConsumerRef, InstanceRef, NodeName, Principal, PublicKey, StreamName, Timestamp,
    TokenId,
};
use mesh_nats::{NatsController, NatsJoiner, NatsModule, NatsNode};

use crate::keys::KeyRing;
use crate::server::{DIALLING, Server, Shape};
use crate::tool::Tool;

/// A server of its own, with nobody but the controller in it.
#[derive(Debug)]
pub struct NatsWorld {
    server: Server,
    keys: KeyRing,
    tool: Tool,
    withheld: bool,
}

impl NatsWorld {
    /// Starts the server; nothing when there is none to start.
    pub async fn start(shape: Shape) -> anyhow::Result<Option<Self>> {
        let Some(server) = Server::start(shape).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            tool: server.tool().await?,
            server,
            keys: KeyRing::default(),
            withheld: shape == Shape::WithoutEventAcks,
        }))
    }
}

impl World for NatsWorld {
    type Controller = NatsController;
    type Node = NatsNode;
    type Joiner = NatsJoiner;
    type Module = NatsModule;
    type Mint = KeyRing;

    fn clock(&self) -> fn() -> Timestamp {
        mesh_host::now
    }

    #[expect(
        clippy::expect_used,
        reason = "the system has randomness, and a generated key has a key's form"
    )]
    fn user(&self, who: &Principal) -> PublicKey {
        self.keys.public(who).expect("a key can be made")
    }

    #[expect(
        clippy::expect_used,
        reason = "the system has randomness, and a generated key has a key's form"
    )]
    fn box_key(&self, node: &NodeName) -> BoxPublicKey {
        self.keys.box_key(node).expect("a key can be made")
    }

    fn mint(&self) -> KeyRing {
        self.keys.clone()
    }

    async fn controller(&self) -> Result<NatsController, BusError> {
        self.server.controller().await
    }

    async fn node(&self, node: &NodeName) -> Result<NatsNode, BusError> {
        connect_node(&self.server, &self.keys, node).await
    }

    async fn joiner(&self, token: &TokenId) -> Result<NatsJoiner, BusError> {
        connect_joiner(&self.server, &self.keys, token).await
    }

    async fn module(&self, instance: &InstanceRef) -> Result<NatsModule, BusError> {
        connect_module(&self.server, &self.keys, instance).await
    }

    async fn stored(&self, stream: &StreamName) -> Result<usize, BusError> {
        counted(self.tool.stored(stream).await)
    }

    async fn unsettled(&self, consumer: &ConsumerRef) -> Result<usize, BusError> {
        counted(self.tool.unsettled(consumer).await)
    }

    /// What a controller may is in the file its server was started with: it was withheld then, or cannot be.
    async fn withhold_event_acks(&self) -> Result<bool, BusError> {
        Ok(self.withheld)
    }

    async fn delete_consumer(&self, consumer: &ConsumerRef) -> Result<bool, BusError> {
        self.tool.delete_consumer(consumer).await.map_err(away)
    }

    async fn delete_stream(&self, stream: &StreamName) -> Result<bool, BusError> {
        self.tool.delete_stream(stream).await.map_err(away)
    }
}

pub(crate) async fn connect_node(
    server: &Server,
    keys: &KeyRing,
    node: &NodeName,
) -> Result<NatsNode, BusError> {
    let key = keys.credential(&Principal::Node(node.clone()));
    let beat = Bounds::default().idle_heartbeat_secs;
    let beat = std::time::Duration::from_secs(beat.into());
    NatsNode::connect(
        &server.endpoint(),
        &key.map_err(away)?,
        node,
        Server::facts(),
        beat,
        DIALLING,
    )
    .await
}

pub(crate) async fn connect_joiner(
    server: &Server,
    keys: &KeyRing,
    token: &TokenId,
) -> Result<NatsJoiner, BusError> {
    let key = keys.credential(&Principal::Joiner(token.clone()));
    NatsJoiner::connect(&server.endpoint(), &key.map_err(away)?, token, DIALLING).await
}

pub(crate) async fn connect_module(
    server: &Server,
    keys: &KeyRing,
    instance: &InstanceRef,
) -> Result<NatsModule, BusError> {
    let key = keys.credential(&Principal::Instance(instance.clone()));
    NatsModule::connect(
        &server.endpoint(),
        &key.map_err(away)?,
        instance,
        Server::facts(),
        DIALLING,
    )
    .await
}

fn counted(counted: anyhow::Result<u64>) -> Result<usize, BusError> {
    let counted = counted.map_err(away)?;
    Ok(usize::try_from(counted).unwrap_or(usize::MAX))
}

fn away(error: anyhow::Error) -> BusError {
    BusError::Away(format!("{error:#}"))
}
