//! What is to be done anew on both buses is done on each, whatever becomes of it on the other.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mesh_auth::creds::Credentials;
use mesh_auth::keys::{BoxKey, UserKey};
use mesh_bus::{BusError, NodeBus, NodeEvent, NodeSettlement};
use mesh_model::{BusFacts, BusKind, BusPlace};
use tokio::sync::watch;

use crate::homes::{Homes, HomesParts, PlaceFiles};
use crate::{Dial, DialError, Place, Surroundings};

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

    async fn next(&self) -> NodeEvent<()> {
        pending().await
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
async fn a_node_listens_again_at_home_while_the_bus_it_is_offered_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let box_key = BoxKey::generate().unwrap();
    let wire = Wire::default();
    let told = Surroundings {
        node: "web-1".parse().unwrap(),
        urls: vec![],
        ca: None,
        bus: BusFacts::default(),
        box_key: box_key.clone(),
        credentials: dir.path().to_owned(),
    };
    for [home, offered] in [
        [BusKind::Nats, BusKind::Amqp],
        [BusKind::Amqp, BusKind::Nats],
    ] {
        let homes = Homes::open(HomesParts {
            dial: wire.clone(),
            node: told.node.clone(),
            files: PlaceFiles::new(dir.path(), &box_key),
            box_key: box_key.clone(),
            home: place(home),
            offered: Some(place(offered)),
            surroundings: watch::Sender::new(told.clone()),
        });
        let homes = homes.await.unwrap();
        while homes.both().1.unwrap().node().is_none() {
            tokio::task::yield_now().await;
        }
        let before = wire.0.clone().map(|asked| asked.load(Ordering::Relaxed));
        assert!(homes.listen_again().await.is_err());
        let after = wire.0.clone().map(|asked| asked.load(Ordering::Relaxed));
        assert_eq!(after, before.map(|asked| asked + 1), "at home on {home}");
    }
}
