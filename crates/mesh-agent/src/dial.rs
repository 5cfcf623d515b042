//! How a node gets onto a bus, whichever kind it is.

use std::time::Duration;

use mesh_amqp::{AmqpNode, InvalidTrust, InvalidUrl, Trust};
use mesh_auth::creds::Credentials;
use mesh_auth::tls::{TrustError, ca_client_config};
use mesh_bus::{BusError, NodeBus, NodeEvent, NodeSettlement};
use mesh_derive::Bounds;
use mesh_model::{BusKind, NodeName};
use mesh_nats::NatsNode;

use crate::Place;

/// Connects a node to buses.
pub trait Dial: Send + Sync + 'static {
    /// What it is connected by.
    type Node: NodeBus;

    /// Connects. A bus that is away is no error: it is tried for ever.
    fn dial(&self, place: &Place) -> impl Future<Output = Result<Self::Node, DialError>> + Send;
}

/// Why a bus cannot be connected to, in a way that no waiting mends.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The certificate authority.
    #[error(transparent)]
    Ca(#[from] TrustError),
    /// The certificate authority of a broker.
    #[error("the certificate authority cannot be used; copy ca.pem from another node")]
    BrokerCa(#[from] InvalidTrust),
    /// Where the broker is.
    #[error("the addresses of the bus")]
    Address(#[from] InvalidUrl),
    /// The bus itself.
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// Connects this host.
#[derive(Debug, Clone)]
pub struct HostDial {
    /// As this node.
    pub node: NodeName,
    /// When this run of the agent began, in milliseconds.
    pub session: u64,
    /// What the spread of delays is drawn from.
    pub seed: u64,
}

impl Dial for HostDial {
    type Node = HostNode;

    async fn dial(&self, place: &Place) -> Result<HostNode, DialError> {
        match place.bus {
            // Both futures are large, and would be part of every caller's.
            BusKind::Nats => Box::pin(self.nats(place)).await.map(HostNode::Nats),
            BusKind::Amqp => Box::pin(self.amqp(place)).await.map(HostNode::Amqp),
        }
    }
}

impl HostDial {
    async fn nats(&self, place: &Place) -> Result<NatsNode, DialError> {
        let endpoint = mesh_nats::Endpoint {
            urls: place.at.urls.clone(),
            tls: place.at.ca.as_deref().map(ca_client_config).transpose()?,
            name: format!("node/{}", self.node),
        };
        let credential = nats_credential(&place.credentials);
        let idle = Duration::from_secs(Bounds::default().idle_heartbeat_secs.into());
        let dialling = mesh_nats::Dialling {
            first: mesh_nats::FirstAttempt::MayFail,
            seed: self.seed,
        };
        let facts = place.at.facts.clone();
        let connected =
            NatsNode::connect(&endpoint, &credential, &self.node, facts, idle, dialling);
        Ok(connected.await?)
    }

    async fn amqp(&self, place: &Place) -> Result<AmqpNode, DialError> {
        let name = format!("node/{}", self.node);
        let trust = place.at.ca.as_deref().map(Trust::of_pem).transpose()?;
        let endpoint = mesh_amqp::Endpoint::of_urls(&place.at.urls, trust, &name)?;
        let seed = place.credentials.key().seed();
        let credential = mesh_amqp::Credential::of_seed(seed.expose());
        let dialling = mesh_amqp::Dialling {
            first: mesh_amqp::FirstAttempt::MayFail,
            seed: self.seed,
        };
        let (node, session) = (&self.node, self.session);
        Ok(AmqpNode::connect(&endpoint, &credential, node, session, dialling).await?)
    }
}

fn nats_credential(credentials: &Credentials) -> mesh_nats::Credential {
    match credentials {
        Credentials::Nkey(key) => mesh_nats::Credential::NKeySeed(key.seed().expose().to_owned()),
        Credentials::Jwt(_) => {
            mesh_nats::Credential::Creds(credentials.render().expose().to_owned())
        }
    }
}

/// A node over either kind of bus.
#[derive(Debug)]
pub enum HostNode {
    /// Over JetStream.
    Nats(NatsNode),
    /// Over AMQP.
    Amqp(AmqpNode),
}

/// What settling a declaration takes.
#[derive(Debug, Clone)]
pub enum HostReceipt {
    /// On JetStream.
    Nats(<NatsNode as NodeBus>::Receipt),
    /// On AMQP.
    Amqp(<AmqpNode as NodeBus>::Receipt),
}

impl NodeBus for HostNode {
    type Receipt = HostReceipt;

    fn idle_heartbeat(&self) -> Option<Duration> {
        match self {
            Self::Nats(node) => node.idle_heartbeat(),
            Self::Amqp(node) => node.idle_heartbeat(),
        }
    }

    async fn next(&self) -> NodeEvent<HostReceipt> {
        match self {
            Self::Nats(node) => with(node.next().await, HostReceipt::Nats),
            Self::Amqp(node) => with(node.next().await, HostReceipt::Amqp),
        }
    }

    async fn settle(&self, receipt: &HostReceipt, how: NodeSettlement) -> Result<(), BusError> {
        match (self, receipt) {
            (Self::Nats(node), HostReceipt::Nats(receipt)) => node.settle(receipt, how).await,
            (Self::Amqp(node), HostReceipt::Amqp(receipt)) => node.settle(receipt, how).await,
            _ => Err(BusError::Away("it came over another bus".to_owned())),
        }
    }

    async fn report(&self, body: Vec<u8>) -> Result<(), BusError> {
        match self {
            Self::Nats(node) => node.report(body).await,
            Self::Amqp(node) => node.report(body).await,
        }
    }

    async fn heartbeat(&self, body: Vec<u8>) -> Result<(), BusError> {
        match self {
            Self::Nats(node) => node.heartbeat(body).await,
            Self::Amqp(node) => node.heartbeat(body).await,
        }
    }

    async fn asked(&self) -> Vec<u8> {
        match self {
            Self::Nats(node) => node.asked().await,
            Self::Amqp(node) => node.asked().await,
        }
    }

    async fn say_log(&self, body: Vec<u8>) -> Result<(), BusError> {
        match self {
            Self::Nats(node) => node.say_log(body).await,
            Self::Amqp(node) => node.say_log(body).await,
        }
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        match self {
            Self::Nats(node) => node.listen_again().await,
            Self::Amqp(node) => node.listen_again().await,
        }
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        match self {
            Self::Nats(node) => node.reconnect().await,
            Self::Amqp(node) => node.reconnect().await,
        }
    }
}

/// An event with its receipt made another.
pub(crate) fn with<R, S>(event: NodeEvent<R>, tag: impl FnOnce(R) -> S) -> NodeEvent<S> {
    match event {
        NodeEvent::Declared { body, receipt } => NodeEvent::Declared {
            body,
            receipt: tag(receipt),
        },
        NodeEvent::Idle => NodeEvent::Idle,
        NodeEvent::Link(link) => NodeEvent::Link(link),
        NodeEvent::Denied(why) => NodeEvent::Denied(why),
    }
}
