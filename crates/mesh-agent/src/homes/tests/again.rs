//! What is to be done anew on both buses is done on each, whatever becomes of it on the other.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mesh_auth::creds::Credentials;
use mesh_auth::keys::{BoxKey, UserKey};
use mesh_bus::{BusError, NodeBus, NodeEvent, NodeSettlement};
use mesh_model::{BusFacts, BusKind, BusPlace};
use tokio::sync::watch;

use crate::homes::{Homes, HomesParts, PlaceFiles};
use crate::{Dial, DialError, HandedFiles, Place, Surroundings};

/// Two buses, of which RabbitMQ takes nothing; and how often each was asked to listen again.
#[derive(Clone, Default)]
struct Wire([Arc<AtomicU32>; 2]);

struct Wired {
    bus: BusKind,
    asked: Arc<AtomicU32>,
}

impl Dial for Wire {
    type Node = Wired;

    async fn dial(&self, place: &Place) -> Result<Wired, DialError> {
        let asked = Arc::clone(&self.0[usize::from(place.bus == BusKind::Amqp)]);
        let bus = place.bus;
        Ok(Wired { bus, asked })
    }
}

impl Wired {
    fn answer(&self) -> Result<(), BusError> {
        match self.bus {
            BusKind::Nats => Ok(()),
            BusKind::Amqp => Err(BusError::Away("a test".to_owned())),
        }
    }
}

impl NodeBus for Wired {
    type Receipt = ();

    fn idle_heartbeat(&self) -> Option<Duration> {
        None
    }

    /// Whoever is offered is refused, once for each time it is asked.
    async fn next(&self) -> NodeEvent<()> {
        match self.bus {
            BusKind::Nats => pending().await,
            BusKind::Amqp => NodeEvent::Denied("a test".to_owned()),
        }
    }

    async fn settle(&self, (): &(), _: NodeSettlement) -> Result<(), BusError> {
        self.answer()
    }

    async fn report(&self, _: Vec<u8>) -> Result<(), BusError> {
        self.answer()
    }

    async fn heartbeat(&self, _: Vec<u8>) -> Result<(), BusError> {
        self.answer()
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer()
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        self.answer()
    }
}

fn place(bus: BusKind) -> Place {
    let key = UserKey::generate().unwrap();
    Place {
        bus,
        at: BusPlace {
            urls: vec![],
            ca: None,
            facts: BusFacts::default(),
        },
        credentials: Credentials::parse(key.seed().expose()).unwrap(),
    }
}

#[tokio::test]
async fn what_the_bus_it_is_offered_refuses_is_no_news_of_its_home() {
    for (home, offered, heard) in [
        (BusKind::Nats, BusKind::Amqp, false),
        (BusKind::Amqp, BusKind::Nats, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (_, homes) = opened(dir.path(), home, offered).await;
        let denied = async { while !matches!(homes.next().await, NodeEvent::Denied(_)) {} };
        let denied = tokio::time::timeout(Duration::from_millis(300), denied).await;
        assert_eq!(denied.is_ok(), heard, "at home on {home}");
    }
}

/// A node at home on one and offered the other, which it has reached.
async fn opened(dir: &Path, home: BusKind, offered: BusKind) -> (Wire, Homes<Wire>) {
    let (box_key, wire) = (BoxKey::generate().unwrap(), Wire::default());
    let surroundings = Surroundings {
        node: "web-1".parse().unwrap(),
        urls: vec![],
        ca: None,
        bus: BusFacts::default(),
        box_key: box_key.clone(),
        handed: HandedFiles::of_state(dir),
    };
    let homes = Homes::open(HomesParts {
        dial: wire.clone(),
        node: surroundings.node.clone(),
        files: PlaceFiles::new(dir, &box_key),
        box_key,
        home: place(home),
        offered: Some(place(offered)),
        surroundings: watch::Sender::new(surroundings),
    });
    let homes = homes.await.unwrap();
    while homes.both().1.unwrap().node().is_none() {
        tokio::task::yield_now().await;
    }
    (wire, homes)
}

#[tokio::test]
async fn a_node_listens_again_at_home_while_the_bus_it_is_offered_takes_nothing() {
    for [home, offered] in [
        [BusKind::Nats, BusKind::Amqp],
        [BusKind::Amqp, BusKind::Nats],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (wire, homes) = opened(dir.path(), home, offered).await;
        let before = wire.0.clone().map(|asked| asked.load(Ordering::Relaxed));
        assert!(homes.listen_again().await.is_err());
        let after = wire.0.clone().map(|asked| asked.load(Ordering::Relaxed));
        assert_eq!(after, before.map(|asked| asked + 1), "at home on {home}");
    }
}
