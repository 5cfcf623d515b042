//! A node's side of the bus: one subscription and one ack subject, and no part of the JetStream API.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use mesh_bus::{BusError, Link, NodeBus, NodeEvent, NodeSettlement};
use mesh_derive::{is_ack_of, subject};
use mesh_model::{BusFacts, ConsumerRef, InvalidBusName, NodeName, Principal, Subject};
use tokio::sync::{Mutex, Notify, broadcast, watch};
use tokio::time::Instant;

use crate::ack::{DONE, WORKING};
use crate::connect::{Connection, Credential, Dialling, Endpoint};
use crate::denial::{Denial, Denied};
use crate::publish::store;
use crate::pull::Receipt;
use crate::retry::Retry;

/// A node, over JetStream.
#[derive(Debug)]
pub struct NatsNode {
    connection: Connection,
    idle_heartbeat: Duration,
    accepts: Accepts,
    report: Subject,
    heartbeat: Subject,
    log: Subject,
    ask: Subject,
    asked: Mutex<Subscriber>,
    ear: Mutex<Ear>,
    again: Notify,
    dropped: AtomicU64,
}

/// What a node accepts: everything else on its deliver subject is somebody's mistake, or malice.
#[derive(Debug)]
struct Accepts {
    deliver: Subject,
    declare: Subject,
    consumer: ConsumerRef,
    bus: BusFacts,
}

#[derive(Debug)]
struct Ear {
    declarations: Subscriber,
    link: watch::Receiver<Link>,
    denials: broadcast::Receiver<Denial>,
    /// When the last refusal was passed on: a server may refuse each of a thousand messages.
    denied: Option<Instant>,
    /// After a refused subscription, when to subscribe again.
    retry: Retry,
}

/// What a message on the deliver subject is.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Declared { reply: String },
    Idle,
    Foreign,
}

impl NatsNode {
    /// Connects and listens. `bus` is what the node was told when it enrolled, and `idle_heartbeat` what its consumer is
    /// made with.
    pub async fn connect(
        endpoint: &Endpoint,
        credential: &Credential,
        node: &NodeName,
        bus: BusFacts,
        idle_heartbeat: Duration,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let principal = Principal::Node(node.clone());
        let connection = Connection::open(endpoint, credential, &principal, dialling).await?;
        let accepts = Accepts {
            deliver: subject::deliver_node(node),
            declare: subject::declare(node),
            consumer: ConsumerRef::new(subject::nodes_stream(), node.as_str())
                .map_err(invalid_name)?,
            bus,
        };
        let mut link = connection.link();
        link.mark_changed();
        let ear = Ear {
            denials: connection.denials(),
            declarations: connection.subscribe(accepts.deliver.as_str(), None).await?,
            link,
            denied: None,
            retry: Retry::default(),
        };
        let ask = subject::ask(node);
        let asked = connection.subscribe(ask.as_str(), None).await?;
        Ok(Self {
            connection,
            idle_heartbeat,
            accepts,
            report: subject::report(node),
            heartbeat: subject::heartbeat(node),
            log: subject::log(node),
            ask,
            asked: Mutex::new(asked),
            ear: Mutex::new(ear),
            again: Notify::new(),
            dropped: AtomicU64::new(0),
        })
    }

    /// How many messages arrived that were not this node's own declarations.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Subscribes anew. May be dropped: it is then still to be done.
    async fn resubscribe(&self, ear: &mut Ear) {
        let subscribe = self
            .connection
            .subscribe(self.accepts.deliver.as_str(), None);
        match ear.retry.attempt(subscribe).await {
            Ok(declarations) => ear.declarations = declarations,
            Err(error) => {
                ear.retry.after(RETRY_AFTER);
                tracing::warn!(%error, "the node cannot listen");
            }
        }
    }

    fn hear(&self, message: Message) -> Option<NodeEvent<Receipt>> {
        match self.accepts.read(&message) {
            Heard::Declared { reply } => Some(NodeEvent::Declared {
                body: message.payload.to_vec(),
                receipt: Receipt(reply),
            }),
            Heard::Idle => Some(NodeEvent::Idle),
            Heard::Foreign => {
                let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
                if dropped.is_power_of_two() {
                    tracing::warn!(subject = %message.subject, dropped, "dropped a message that is no declaration of this node");
                }
                None
            }
        }
    }
}

impl Accepts {
    fn read(&self, message: &Message) -> Heard {
        match message.status {
            Some(StatusCode::IDLE_HEARTBEAT) if message.reply.is_none() => return Heard::Idle,
            None => {}
            Some(_) => return Heard::Foreign,
        }
        let reply = message.reply.as_deref().unwrap_or_default();
        if message.subject.as_str() == self.declare.as_str()
            && is_ack_of(reply, &self.consumer, &self.bus)
        {
            Heard::Declared {
                reply: reply.to_owned(),
            }
        } else {
            Heard::Foreign
        }
    }
}

impl Ear {
    /// What to say of a refusal, if it is new. One of a subscription is tried again after a while: the server does not
    /// revive it when it grants it later.
    fn deny(&mut self, denial: Denial, deliver: &str) -> Option<String> {
        let now = Instant::now();
        if denial.is_of_subscription(deliver) {
            self.retry.after(RETRY_AFTER);
        } else if matches!(denial.of, Denied::Publish(_)) {
            // Whoever published hears of it.
            return None;
        }
        let due = self
            .denied
            .is_none_or(|denied| now.duration_since(denied) >= SAY_EACH);
        due.then(|| {
            self.denied = Some(now);
            denial.text
        })
    }
}

impl NodeBus for NatsNode {
    type Receipt = Receipt;

    fn idle_heartbeat(&self) -> Option<Duration> {
        Some(self.idle_heartbeat)
    }

    async fn next(&self) -> NodeEvent<Receipt> {
        let mut ear = self.ear.lock().await;
        loop {
            let ear = &mut *ear;
            tokio::select! {
                biased;
                () = self.again.notified() => ear.retry.after(Duration::ZERO),
                Ok(()) = ear.link.changed() => {
                    let link = *ear.link.borrow_and_update();
                    return NodeEvent::Link(link);
                }
                denial = ear.denials.recv() => match denial {
                    Ok(denial) => {
                        let said = ear.deny(denial, self.accepts.deliver.as_str());
                        if let Some(text) = said {
                            return NodeEvent::Denied(text);
                        }
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        ear.retry.after(RETRY_AFTER);
                    }
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                },
                () = ear.retry.due() => self.resubscribe(ear).await,
                message = ear.declarations.next() => match message {
                    Some(message) => if let Some(event) = self.hear(message) {
                        return event;
                    },
                    None => ear.retry.after(RETRY_AFTER),
                },
            }
        }
    }

    async fn settle(&self, receipt: &Receipt, how: NodeSettlement) -> Result<(), BusError> {
        let body = match how {
            NodeSettlement::Done => DONE,
            NodeSettlement::Working => WORKING,
        };
        self.connection.tell(&receipt.0, body.to_vec()).await
    }

    async fn report(&self, body: Vec<u8>) -> Result<(), BusError> {
        let subject = self.report.as_str();
        store(&self.connection, subject, HeaderMap::new(), body)
            .await
            .map(drop)
    }

    async fn heartbeat(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.connection.tell(self.heartbeat.as_str(), body).await
    }

    async fn asked(&self) -> Vec<u8> {
        let mut asked = self.asked.lock().await;
        loop {
            match asked.next().await {
                Some(message) if message.subject.as_str() == self.ask.as_str() => {
                    return message.payload.to_vec();
                }
                Some(_) => {}
                None => return std::future::pending().await,
            }
        }
    }

    async fn say_log(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.connection.tell(self.log.as_str(), body).await
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        self.again.notify_one();
        Ok(())
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        self.connection
            .client()
            .force_reconnect()
            .await
            .map_err(|error| BusError::Away(error.to_string()))
    }
}

pub(crate) fn invalid_name(InvalidBusName(name): InvalidBusName) -> BusError {
    BusError::Refused {
        what: name,
        why: "no consumer can be called so".to_owned(),
    }
}

const RETRY_AFTER: Duration = Duration::from_secs(1);
const SAY_EACH: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &str, reply: Option<&str>, status: Option<StatusCode>) -> Message {
        Message {
            subject: subject.into(),
            reply: reply.map(Into::into),
            payload: bytes::Bytes::new(),
            headers: None,
            status,
            description: None,
            length: 0,
        }
    }

    #[test]
    fn only_the_own_declaration_through_the_own_consumer_is_accepted() {
        let node: NodeName = "n1".parse().unwrap();
        let accepts = Accepts {
            deliver: subject::deliver_node(&node),
            declare: subject::declare(&node),
            consumer: ConsumerRef::new(subject::nodes_stream(), "n1").unwrap(),
            bus: BusFacts {
                domain: None,
                account: "MESH".to_owned(),
            },
        };
        let own = "mesh.node.n1.declare";
        let ack = "$JS.ACK.NODES.n1.1.4.3.0.0";
        let declared = Heard::Declared {
            reply: ack.to_owned(),
        };
        for (message, expected) in [
            (message(own, Some(ack), None), declared),
            (
                message("mesh.deliver.node.n1", Some(ack), None),
                Heard::Foreign,
            ),
            (
                message("mesh.node.n2.declare", Some(ack), None),
                Heard::Foreign,
            ),
            (message(own, None, None), Heard::Foreign),
            (
                message(own, Some("$JS.ACK.NODES.n2.1.4.3.0.0"), None),
                Heard::Foreign,
            ),
            (
                message(own, Some("mesh.control.report.n1"), None),
                Heard::Foreign,
            ),
            (
                message(
                    "mesh.deliver.node.n1",
                    None,
                    Some(StatusCode::IDLE_HEARTBEAT),
                ),
                Heard::Idle,
            ),
            (
                message(
                    "mesh.deliver.node.n1",
                    None,
                    Some(StatusCode::NO_RESPONDERS),
                ),
                Heard::Foreign,
            ),
        ] {
            assert_eq!(accepts.read(&message), expected, "{message:?}");
        }
    }
}
