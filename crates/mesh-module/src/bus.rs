//! The bus a module was handed, NATS or RabbitMQ, by the same calls.
//!
//! Both are in every module: one that knew a single bus would keep its node from ever changing to the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mesh_amqp::{AmqpListener, AmqpModule};
use mesh_bus::{BusError, Incoming, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_model::{EventName, InstanceRef, SeatName};
use mesh_nats::{NatsListener, NatsModule};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::BusConfig;

/// The bus a module was handed. What it is connected with may be replaced, when its credential is.
#[derive(Debug)]
pub struct HandedBus {
    wire: watch::Sender<Arc<Wire>>,
    /// What renews its credential; ends with it.
    renewing: Mutex<JoinSet<()>>,
}

/// What a module is connected with.
#[derive(Debug)]
enum Wire {
    Nats(NatsModule),
    Amqp(AmqpModule),
}

/// What a module listens with on the bus it was handed.
#[derive(Debug)]
pub struct HandedListener {
    source: Source,
    wires: watch::Receiver<Arc<Wire>>,
    /// Over which it listens.
    wire: Arc<Wire>,
    ear: Ear,
    /// The terms of the ear there is; with another credential what was heard before stays this reader's to settle.
    ear_terms: watch::Receiver<u64>,
    terms: watch::Sender<u64>,
    /// What it listened with before, until everything that was on its way has come.
    leaving: Option<Leaving>,
}

#[derive(Debug)]
enum Ear {
    Nats(Box<NatsListener>),
    Amqp(AmqpListener, Duration),
}

#[derive(Debug)]
struct Leaving {
    ear: Box<NatsListener>,
    asked: bool,
    until: Instant,
    /// Held so that it is known whether anybody still uses it.
    _wire: Arc<Wire>,
}

/// What settling a message takes on the bus a module was handed.
#[derive(Debug, Clone)]
pub struct HandedReceipt(Receipt);

#[derive(Debug, Clone)]
enum Receipt {
    Nats(<NatsModule as ModuleBus>::Receipt),
    Amqp(Arc<Held>),
}

/// A message of a broker's, which waits for ever for whoever has it: if it is let drop, it is put off, as on NATS, where
/// the server tires of waiting.
#[derive(Debug)]
struct Held {
    receipt: mesh_amqp::ModuleReceipt,
    settled: AtomicBool,
    after: Duration,
}

impl HandedBus {
    /// Connects once.
    pub(crate) async fn connect(
        config: &BusConfig,
        instance: &InstanceRef,
        seed: u64,
    ) -> Result<Self, BusError> {
        let wire = Wire::connect(config, instance, seed).await?;
        Ok(Self {
            wire: watch::Sender::new(Arc::new(wire)),
            renewing: Mutex::default(),
        })
    }

    /// Has another credential from now on. On NATS that is another connection: what is said and heard from now on goes over
    /// it, and what was begun over the one before is ended there. On RabbitMQ the connection goes on as it is, since a
    /// broker asks for a password only when one is made.
    pub(crate) async fn renew(
        &self,
        config: &BusConfig,
        instance: &InstanceRef,
        seed: u64,
    ) -> Result<(), BusError> {
        if let (Wire::Amqp(bus), BusConfig::Amqp { credential, .. }) = (&*self.wire(), config) {
            bus.take(credential);
            return Ok(());
        }
        let wire = Wire::connect(config, instance, seed).await?;
        let before = Arc::downgrade(&self.wire.send_replace(Arc::new(wire)));
        left(&before).await;
        Ok(())
    }

    /// Runs this for as long as the bus is used.
    pub(crate) fn keep(&self, renewing: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(renewing);
    }

    fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire.borrow())
    }
}

/// Waits until nobody uses a connection any more, within reason.
async fn left(wire: &Weak<Wire>) {
    let until = Instant::now() + LEFT_WITHIN;
    while wire.strong_count() > 0 && Instant::now() < until {
        sleep(LOOK_AGAIN).await;
    }
}

impl Wire {
    async fn connect(
        config: &BusConfig,
        instance: &InstanceRef,
        seed: u64,
    ) -> Result<Self, BusError> {
        match config {
            BusConfig::Nats {
                endpoint,
                credential,
                facts,
            } => {
                let first = mesh_nats::FirstAttempt::MustSucceed;
                let dialling = mesh_nats::Dialling { first, seed };
                let facts = facts.clone();
                NatsModule::connect(endpoint, credential, instance, facts, dialling)
                    .await
                    .map(Self::Nats)
            }
            BusConfig::Amqp {
                endpoint,
                credential,
            } => {
                let first = mesh_amqp::FirstAttempt::MustSucceed;
                let dialling = mesh_amqp::Dialling { first, seed };
                AmqpModule::connect(endpoint, credential, instance, dialling)
                    .await
                    .map(Self::Amqp)
            }
        }
    }

    async fn listen(&self, source: Source) -> Result<Ear, BusError> {
        let after = match &source {
            Source::Followed => EVENT_AGAIN,
            Source::Seat(_) => WORK_AGAIN,
        };
        Ok(match self {
            Self::Nats(bus) => Ear::Nats(Box::new(bus.listen(source).await?)),
            Self::Amqp(bus) => Ear::Amqp(bus.listen(source).await?, after),
        })
    }
}

impl ModuleBus for HandedBus {
    type Receipt = HandedReceipt;
    type Listener = HandedListener;

    async fn emit(&self, event: &EventName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        match &*self.wire() {
            Wire::Nats(bus) => bus.emit(event, id, body).await,
            Wire::Amqp(bus) => bus.emit(event, id, body).await,
        }
    }

    async fn send(&self, seat: &SeatName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        match &*self.wire() {
            Wire::Nats(bus) => bus.send(seat, id, body).await,
            Wire::Amqp(bus) => bus.send(seat, id, body).await,
        }
    }

    async fn listen(&self, source: Source) -> Result<HandedListener, BusError> {
        let (wires, wire) = (self.wire.subscribe(), self.wire());
        let ear = wire.listen(source.clone()).await?;
        Ok(HandedListener {
            ear_terms: ear.terms(),
            terms: watch::Sender::new(0),
            ear,
            source,
            wires,
            wire,
            leaving: None,
        })
    }

    /// On NATS over the connection there is now, whichever one the message came over: it is the module that settles, and
    /// not a connection.
    async fn settle(&self, receipt: &HandedReceipt, how: ModuleSettlement) -> Result<(), BusError> {
        match (&*self.wire(), &receipt.0) {
            (Wire::Nats(bus), Receipt::Nats(receipt)) => bus.settle(receipt, how).await,
            (Wire::Amqp(bus), Receipt::Amqp(held)) => {
                bus.settle(&held.receipt, how).await?;
                if how != ModuleSettlement::Working {
                    held.settled.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            _ => Err(BusError::Refused {
                what: "a settlement".to_owned(),
                why: "the message came over another bus".to_owned(),
            }),
        }
    }
}

impl Ear {
    fn terms(&self) -> watch::Receiver<u64> {
        match self {
            Self::Nats(ear) => ear.terms(),
            Self::Amqp(ear, _) => ear.terms(),
        }
    }
}

impl HandedListener {
    /// Listens over the connection there is, and leaves the one before once it does.
    async fn move_on(&mut self) -> Result<(), BusError> {
        let wire = Arc::clone(&self.wires.borrow_and_update());
        if Arc::ptr_eq(&wire, &self.wire) {
            return Ok(());
        }
        let ear = wire.listen(self.source.clone()).await?;
        self.ear_terms = ear.terms();
        let before = std::mem::replace(&mut self.ear, ear);
        let wire = std::mem::replace(&mut self.wire, wire);
        if let Ear::Nats(ear) = before {
            self.leaving = Some(Leaving {
                ear,
                asked: false,
                until: Instant::now() + LEFT_WITHIN,
                _wire: wire,
            });
        }
        Ok(())
    }
}

impl Listener for HandedListener {
    type Receipt = HandedReceipt;

    fn terms(&self) -> watch::Receiver<u64> {
        self.terms.subscribe()
    }

    async fn next(&mut self) -> Incoming<HandedReceipt> {
        loop {
            if let Err(error) = self.move_on().await {
                tracing::debug!(%error, "the module does not listen with its new credential yet");
                self.wires.mark_changed();
                sleep(LOOK_AGAIN).await;
                continue;
            }
            tokio::select! {
                biased;
                rest = rest(&mut self.leaving) => match rest {
                    Some(incoming) => return incoming,
                    None => self.leaving = None,
                },
                moved = self.wires.changed() => if moved.is_err() {
                    // Nobody is left to replace it.
                    return hear(&mut self.ear).await;
                },
                Ok(()) = self.ear_terms.changed() => self.terms.send_modify(|term| *term += 1),
                incoming = hear(&mut self.ear) => return incoming,
            }
        }
    }
}

async fn hear(ear: &mut Ear) -> Incoming<HandedReceipt> {
    match ear {
        Ear::Nats(ear) => with(ear.next().await, Receipt::Nats),
        Ear::Amqp(ear, after) => {
            let after = *after;
            with(ear.next().await, |receipt| {
                Receipt::Amqp(Arc::new(Held {
                    receipt,
                    settled: AtomicBool::new(false),
                    after,
                }))
            })
        }
    }
}

/// What still comes over a connection that is being left; nothing once that was all, and never while none is.
async fn rest(leaving: &mut Option<Leaving>) -> Option<Incoming<HandedReceipt>> {
    let Some(leaving) = leaving else {
        return std::future::pending().await;
    };
    if !leaving.asked {
        leaving.ear.leave().await;
        leaving.asked = true;
    }
    let rest = timeout_at(leaving.until, leaving.ear.rest()).await;
    rest.ok().flatten().map(|it| with(it, Receipt::Nats))
}

impl Drop for Held {
    fn drop(&mut self) {
        if !*self.settled.get_mut() {
            self.receipt.again(self.after);
        }
    }
}

fn with<R>(incoming: Incoming<R>, receipt: impl FnOnce(R) -> Receipt) -> Incoming<HandedReceipt> {
    Incoming {
        id: incoming.id,
        subject: incoming.subject,
        body: incoming.body,
        receipt: HandedReceipt(receipt(incoming.receipt)),
    }
}

/// The ack waits on NATS.
const EVENT_AGAIN: Duration = Duration::from_secs(30);
const WORK_AGAIN: Duration = Duration::from_mins(1);
/// How long a connection that was replaced may take for what was begun over it.
const LEFT_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
