//! The bus a module was handed, NATS or RabbitMQ, by the same calls.
//!
//! Both are in every module: one that knew a single bus would keep its node from ever changing to the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mesh_amqp::{AmqpListener, AmqpModule};
use mesh_bus::{BusError, Incoming, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_model::{EventName, InstanceRef, SeatName};
use mesh_nats::{NatsListener, NatsModule};

use crate::config::BusConfig;

/// The bus a module was handed.
#[derive(Debug)]
pub enum HandedBus {
    /// NATS.
    Nats(NatsModule),
    /// RabbitMQ.
    Amqp(AmqpModule),
}

/// What a module listens with on the bus it was handed.
#[derive(Debug)]
pub struct HandedListener(Ear);

#[derive(Debug)]
enum Ear {
    Nats(Box<NatsListener>),
    Amqp(AmqpListener, Duration),
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
}

impl ModuleBus for HandedBus {
    type Receipt = HandedReceipt;
    type Listener = HandedListener;

    async fn emit(&self, event: &EventName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        match self {
            Self::Nats(bus) => bus.emit(event, id, body).await,
            Self::Amqp(bus) => bus.emit(event, id, body).await,
        }
    }

    async fn send(&self, seat: &SeatName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        match self {
            Self::Nats(bus) => bus.send(seat, id, body).await,
            Self::Amqp(bus) => bus.send(seat, id, body).await,
        }
    }

    async fn listen(&self, source: Source) -> Result<HandedListener, BusError> {
        let after = match &source {
            Source::Followed => EVENT_AGAIN,
            Source::Seat(_) => WORK_AGAIN,
        };
        Ok(HandedListener(match self {
            Self::Nats(bus) => Ear::Nats(Box::new(bus.listen(source).await?)),
            Self::Amqp(bus) => Ear::Amqp(bus.listen(source).await?, after),
        }))
    }

    async fn settle(&self, receipt: &HandedReceipt, how: ModuleSettlement) -> Result<(), BusError> {
        match (self, &receipt.0) {
            (Self::Nats(bus), Receipt::Nats(receipt)) => bus.settle(receipt, how).await,
            (Self::Amqp(bus), Receipt::Amqp(held)) => {
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

impl Listener for HandedListener {
    type Receipt = HandedReceipt;

    async fn next(&mut self) -> Incoming<HandedReceipt> {
        match &mut self.0 {
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
