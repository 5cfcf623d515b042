//! A node's side of the loopback.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_control::NodeSettlement;
use mesh_derive::subject;
use mesh_model::{ConsumerRef, NodeName, Principal, PublicKey, Subject};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::queue::{Settled, Stored};
use super::state::{Shared, change_or};
use super::{Receipt, consumer};
use crate::seam::{BusError, Link, NodeBus, NodeEvent};

/// A node, over the loopback.
#[derive(Debug)]
pub struct LoopbackNode {
    shared: Arc<Shared>,
    name: NodeName,
    key: PublicKey,
    principal: Principal,
    ear: Mutex<Ear>,
    said: tokio::sync::Mutex<broadcast::Receiver<(Subject, Vec<u8>)>>,
}

#[derive(Debug)]
struct Ear {
    /// What was last said of the link.
    link: Option<Link>,
    /// It subscribed and was not refused.
    listens: bool,
    /// When the consumer last showed that it is there.
    heard: Instant,
}

/// What a look at the bus gives: something heard, or when to look again.
type Look = Result<NodeEvent<Receipt>, Option<Instant>>;

impl LoopbackNode {
    pub(super) fn new(shared: Arc<Shared>, name: NodeName, key: PublicKey) -> Self {
        Self {
            said: tokio::sync::Mutex::new(shared.said.subscribe()),
            shared,
            principal: Principal::Node(name.clone()),
            name,
            key,
            ear: Mutex::new(Ear {
                link: None,
                listens: false,
                heard: Instant::now(),
            }),
        }
    }

    fn ear(&self) -> MutexGuard<'_, Ear> {
        self.ear.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, from: &ConsumerRef) -> Look {
        let (mut ear, mut state) = (self.ear(), self.shared.state());
        let now = Instant::now();
        let known = state.is_user(&self.key, &self.principal);
        let link = if state.is_up() && known {
            Link::Up
        } else {
            Link::Down
        };
        if ear.link.replace(link) != Some(link) {
            ear.listens = link == Link::Up;
            ear.heard = now;
            return Ok(NodeEvent::Link(link));
        }
        if link == Link::Down || !ear.listens {
            return Err(None);
        }
        let deliver = subject::deliver_node(&self.name);
        if !state.may_hear(&self.principal, &deliver, None) {
            ear.listens = false;
            return Ok(NodeEvent::Denied(format!("no grant allows {deliver}")));
        }
        if let Some((receipt, stored)) = state.deliver(from) {
            ear.heard = now;
            // The node's own check: a message of another subject is none of its declarations.
            if stored.subject == subject::declare(&self.name) {
                let body = stored.body;
                return Ok(NodeEvent::Declared { body, receipt });
            }
        }
        if !state.has(from) {
            return Err(None);
        }
        let idle = ear.heard + IDLE_HEARTBEAT;
        if now >= idle {
            ear.heard = now;
            return Ok(NodeEvent::Idle);
        }
        Err(state.wakes(from).into_iter().chain([idle]).min())
    }

    /// A credential that is nobody's is refused whatever it tries.
    fn require_known(&self, what: &Subject) -> Result<(), BusError> {
        let state = self.shared.state();
        state.require_up()?;
        if state.is_user(&self.key, &self.principal) {
            Ok(())
        } else {
            Err(BusError::Refused {
                what: what.to_string(),
                why: "the key is nobody's".to_owned(),
            })
        }
    }
}

impl NodeBus for LoopbackNode {
    type Receipt = Receipt;

    fn idle_heartbeat(&self) -> Option<Duration> {
        Some(IDLE_HEARTBEAT)
    }

    async fn next(&self) -> NodeEvent<Receipt> {
        let Ok(from) = consumer(subject::nodes_stream(), self.name.as_str()) else {
            return std::future::pending().await;
        };
        let mut changed = self.shared.changed.subscribe();
        loop {
            match self.look(&from) {
                Ok(event) => return event,
                Err(again) => change_or(&mut changed, again).await,
            }
        }
    }

    async fn settle(&self, receipt: &Receipt, how: NodeSettlement) -> Result<(), BusError> {
        let how = match how {
            NodeSettlement::Done => Settled::Done,
            NodeSettlement::Working => Settled::Working,
        };
        self.require_known(&subject::declare(&self.name))?;
        self.shared.settle(&self.principal, receipt, how)
    }

    async fn report(&self, body: Vec<u8>) -> Result<(), BusError> {
        let subject = subject::report(&self.name);
        self.require_known(&subject)?;
        let message = Stored {
            subject,
            body,
            id: None,
            why: None,
        };
        self.shared.publish(&self.principal, message).map(drop)
    }

    async fn heartbeat(&self, body: Vec<u8>) -> Result<(), BusError> {
        let subject = subject::heartbeat(&self.name);
        self.require_known(&subject)?;
        self.shared.say(&self.principal, &subject, body)
    }

    async fn asked(&self) -> Vec<u8> {
        let ask = subject::ask(&self.name);
        let mut said = self.said.lock().await;
        loop {
            match said.recv().await {
                Ok((subject, body)) if subject == ask => {
                    let state = self.shared.state();
                    let known = state.is_user(&self.key, &self.principal);
                    if known && state.may_hear(&self.principal, &ask, None) {
                        return body;
                    }
                }
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
            }
        }
    }

    async fn say_log(&self, body: Vec<u8>) -> Result<(), BusError> {
        let subject = subject::log(&self.name);
        self.require_known(&subject)?;
        self.shared.say(&self.principal, &subject, body)
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        self.ear().listens = true;
        self.shared.change(|_| ());
        Ok(())
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        self.ear().link = None;
        self.shared.change(|_| ());
        Ok(())
    }
}

/// After how long a silence a node's consumer says that it is there, as consumers are made by default.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(30);
