//! A node's side of the bus: it reads one queue, reports, and lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lapin::Acker;
use lapin::options::BasicAckOptions;
use mesh_bus::{BusError, Link, NodeBus, NodeEvent, NodeSettlement};
use mesh_derive::subject;
use mesh_derive::topology::{Address, Queue, login};
use mesh_model::{NodeName, Principal, Subject};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::credential::Credential;
use crate::ear::{self, Heard, Told};
use crate::endpoint::Endpoint;
use crate::intake::address;
use crate::line::{Dialling, FirstAttempt, Line, Login};
use crate::publish::{Letter, Publisher, place_of};

/// A node, over AMQP.
#[derive(Debug)]
pub struct AmqpNode {
    consuming: Arc<Line>,
    publisher: Publisher,
    report: Subject,
    heartbeat: Address,
    log: Address,
    asked: Mutex<mpsc::Receiver<Vec<u8>>>,
    declare: Subject,
    told: Arc<Told>,
    ear: Mutex<Ear>,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Ear {
    heard: mpsc::UnboundedReceiver<Heard>,
    link: watch::Receiver<Link>,
    /// When the last refusal was passed on.
    denied: Option<Instant>,
    _task: JoinSet<()>,
}

/// What settling a declaration takes.
#[derive(Debug, Clone)]
pub struct NodeReceipt(Acker);

impl AmqpNode {
    /// Connects and listens. `session` is when this run of the agent began: of two that read the node's queues with one
    /// credential the later hears everything, be the other one that hangs on a connection the broker has not given up yet.
    pub async fn connect(
        endpoint: &Endpoint,
        credential: &Credential,
        node: &NodeName,
        session: u64,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let priority = Some(i64::try_from(session).unwrap_or(i64::MAX));
        let who = Principal::Node(node.clone());
        let (consuming, publishing) = lines(endpoint, credential, &who, dialling).await?;
        let told = Arc::new(Told::default());
        let (hears, heard) = mpsc::unbounded_channel();
        let queue = ear::Queue {
            name: Queue::Node(node.clone()).name(),
            prefetch: DECLARATIONS_OUT,
            settled: false,
            priority,
        };
        let mut task = JoinSet::new();
        let hear = move |heard| {
            // Whoever no longer wants to know is about to end this.
            let _unheard = hears.send(heard);
            None
        };
        task.spawn(ear::listen(
            Arc::clone(&consuming),
            queue,
            Arc::clone(&told),
            hear,
        ));
        let (asks, asked) = mpsc::channel(ASKS_AHEAD);
        let (queue, on) = (ask_queue(node, priority), subject::ask(node));
        let hear = move |heard| {
            if let Heard::Delivered(message) = heard
                && address(&message).and_then(|at| at.subject()).as_ref() == Some(&on)
            {
                // Whoever asks asks again.
                drop(asks.try_send(message.data));
            }
            None
        };
        let never = Arc::new(Told::default());
        task.spawn(ear::listen(Arc::clone(&consuming), queue, never, hear));
        let mut link = consuming.link();
        link.mark_changed();
        Ok(Self {
            consuming,
            publisher: Publisher::new(publishing),
            report: subject::report(node),
            heartbeat: place_of(&subject::heartbeat(node))?,
            log: place_of(&subject::log(node))?,
            asked: Mutex::new(asked),
            declare: subject::declare(node),
            told,
            ear: Mutex::new(Ear {
                heard,
                link,
                denied: None,
                _task: task,
            }),
            dropped: AtomicU64::new(0),
        })
    }

    /// How many messages arrived that were not this node's own declarations.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// What it is to the node, if anything.
    fn event(&self, ear: &mut Ear, heard: Heard) -> Option<NodeEvent<NodeReceipt>> {
        match heard {
            Heard::Delivered(message) => {
                let subject = address(&message).and_then(|at| at.subject());
                if subject.as_ref() != Some(&self.declare) {
                    let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
                    if dropped.is_power_of_two() {
                        tracing::warn!(exchange = %message.exchange, key = %message.routing_key, dropped, "dropped a message that is no declaration of this node");
                    }
                    return None;
                }
                Some(NodeEvent::Declared {
                    body: message.data,
                    receipt: NodeReceipt(message.acker),
                })
            }
            Heard::Refused(BusError::Refused { what, why }) => {
                let now = Instant::now();
                let due = ear
                    .denied
                    .is_none_or(|at| now.duration_since(at) >= SAY_EACH);
                due.then(|| {
                    ear.denied = Some(now);
                    NodeEvent::Denied(format!("{what}: {why}"))
                })
            }
            Heard::Refused(error) => {
                tracing::debug!(%error, "the node cannot listen now");
                None
            }
            Heard::Listening | Heard::Ended(_) => None,
        }
    }
}

/// Where a node is asked for something for now.
fn ask_queue(node: &NodeName, priority: Option<i64>) -> ear::Queue {
    ear::Queue {
        name: Queue::Ask(node.clone()).name(),
        prefetch: ASKS_OUT,
        settled: true,
        priority,
    }
}

/// The two connections of a principal.
pub(crate) async fn lines(
    endpoint: &Endpoint,
    credential: &Credential,
    who: &Principal,
    dialling: Dialling,
) -> Result<(Arc<Line>, Arc<Line>), BusError> {
    let endpoint = Arc::new(endpoint.clone());
    let user = login(&endpoint.users, who);
    let line = || {
        let login = Login {
            user: user.clone(),
            credential: credential.clone(),
        };
        Arc::new(Line::new(Arc::clone(&endpoint), Some(login), dialling.seed))
    };
    let (consuming, publishing) = (line(), line());
    match consuming.channel().await {
        Err(error) if dialling.first == FirstAttempt::MustSucceed => return Err(error),
        Err(error) => {
            tracing::warn!(connection = endpoint.name, %error, "the bus is not reached; it is tried again and again");
        }
        Ok(_) => {}
    }
    Ok((consuming, publishing))
}

/// Acknowledges. One that can no longer be comes again.
pub(crate) async fn acknowledge(acker: &Acker) -> Result<(), BusError> {
    match acker.ack(BasicAckOptions::default()).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(BusError::Away("its channel has ended".to_owned())),
        Err(error) => Err(BusError::Away(error.to_string())),
    }
}

impl NodeBus for AmqpNode {
    type Receipt = NodeReceipt;

    /// None is needed: a connection that died is noticed by its own heartbeats, and a queue that went by its consumer's end.
    fn idle_heartbeat(&self) -> Option<Duration> {
        None
    }

    async fn next(&self) -> NodeEvent<NodeReceipt> {
        let mut ear = self.ear.lock().await;
        loop {
            let ear = &mut *ear;
            tokio::select! {
                biased;
                Ok(()) = ear.link.changed() => {
                    return NodeEvent::Link(*ear.link.borrow_and_update());
                }
                heard = ear.heard.recv() => {
                    let Some(heard) = heard else {
                        return std::future::pending().await;
                    };
                    if let Some(event) = self.event(ear, heard) {
                        return event;
                    }
                }
            }
        }
    }

    /// A declaration in hand needs no sign of work: the broker waits half an hour and more, and delivers it anew.
    async fn settle(&self, receipt: &NodeReceipt, how: NodeSettlement) -> Result<(), BusError> {
        match how {
            NodeSettlement::Done => acknowledge(&receipt.0).await,
            NodeSettlement::Working => Ok(()),
        }
    }

    async fn report(&self, body: Vec<u8>) -> Result<(), BusError> {
        let letter = Letter::to(&self.report, &body)?;
        self.publisher.deliver(&letter, &body).await
    }

    async fn heartbeat(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.publisher.tell(&self.heartbeat, &body).await
    }

    async fn asked(&self) -> Vec<u8> {
        match self.asked.lock().await.recv().await {
            Some(body) => body,
            None => std::future::pending().await,
        }
    }

    async fn say_log(&self, body: Vec<u8>) -> Result<(), BusError> {
        self.publisher.tell(&self.log, &body).await
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        self.told.again();
        Ok(())
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        self.publisher.line().hang_up().await;
        self.consuming.hang_up().await;
        Ok(())
    }
}

/// A superseded declaration is acknowledged at once, but one nobody signed is left: it must not keep out the next.
const DECLARATIONS_OUT: u16 = 16;
const SAY_EACH: Duration = Duration::from_secs(10);
/// What the node is asked and has not looked at yet, before some is missed.
const ASKS_AHEAD: usize = 256;
const ASKS_OUT: u16 = 64;
