//! A module's side of the bus: what it emits and sends, and ears it may be granted later.

use std::time::Duration;

use async_nats::{HeaderMap, Message, Subscriber};
use futures_util::StreamExt;
use mesh_bus::{BusError, Incoming, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_derive::is_ack_of;
use mesh_derive::subject::{self, Heard};
use mesh_model::{
    BusFacts, ConsumerRef, EventName, EventRef, InstanceRef, ModuleName, Principal, SeatName,
    Subject,
};
use tokio::sync::broadcast;

use crate::ack::{DONE, WORKING, again_after, stream_sequence};
use crate::connect::{Connection, Credential, Dialling, Endpoint};
use crate::denial::Denial;
use crate::node::invalid_name;
use crate::publish::store;
use crate::pull::Receipt;
use crate::retry::Retry;

/// An instance of a module, over JetStream.
#[derive(Debug)]
pub struct NatsModule {
    connection: Connection,
    module: ModuleName,
    bus: BusFacts,
}

/// An ear on one source. A subscription the server refuses or withdraws is tried again until it is granted.
#[derive(Debug)]
pub struct NatsListener {
    connection: Connection,
    accepts: Accepts,
    messages: Option<Subscriber>,
    denials: broadcast::Receiver<Denial>,
    refused: Refused,
}

/// What an ear accepts.
#[derive(Debug)]
struct Accepts {
    deliver: Subject,
    source: Source,
    consumer: ConsumerRef,
    bus: BusFacts,
}

/// When to try a refused subscription again.
#[derive(Debug)]
struct Refused {
    retry: Retry,
    delay: Duration,
}

impl NatsModule {
    /// Connects. `bus` is what the node was told when it enrolled.
    pub async fn connect(
        endpoint: &Endpoint,
        credential: &Credential,
        instance: &InstanceRef,
        bus: BusFacts,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let principal = Principal::Instance(instance.clone());
        let connection = Connection::open(endpoint, credential, &principal, dialling).await?;
        Ok(Self {
            connection,
            module: instance.module.clone(),
            bus,
        })
    }

    async fn store(&self, subject: Subject, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        if id.is_empty() || id.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(BusError::Refused {
                what: format!("the message id {id:?}"),
                why: "an id is one word".to_owned(),
            });
        }
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, qualified(&subject, id));
        store(&self.connection, subject.as_str(), headers, body)
            .await
            .map(drop)
    }
}

impl ModuleBus for NatsModule {
    type Receipt = Receipt;
    type Listener = NatsListener;

    async fn emit(&self, event: &EventName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let event = EventRef {
            module: self.module.clone(),
            event: event.clone(),
        };
        self.store(subject::event(&event), id, body).await
    }

    async fn send(&self, seat: &SeatName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        self.store(subject::work(seat, &self.module), id, body)
            .await
    }

    async fn listen(&self, source: Source) -> Result<NatsListener, BusError> {
        let (deliver, stream, name) = match &source {
            Source::Followed => (
                subject::deliver_module(&self.module),
                subject::events_stream(),
                self.module.as_str(),
            ),
            Source::Seat(seat) => (
                subject::deliver_seat(seat),
                subject::seat_stream(seat),
                seat.as_str(),
            ),
        };
        let consumer = ConsumerRef::new(stream, name).map_err(invalid_name)?;
        let mut listener = NatsListener {
            connection: self.connection.clone(),
            accepts: Accepts {
                deliver,
                source,
                consumer,
                bus: self.bus.clone(),
            },
            messages: None,
            denials: self.connection.denials(),
            refused: Refused {
                retry: Retry::default(),
                delay: RETRY_FIRST,
            },
        };
        listener.subscribe().await?;
        Ok(listener)
    }

    async fn settle(&self, receipt: &Receipt, how: ModuleSettlement) -> Result<(), BusError> {
        let body = match how {
            ModuleSettlement::Done => DONE.to_vec(),
            ModuleSettlement::Working => WORKING.to_vec(),
            ModuleSettlement::Again(delay) => again_after(delay),
        };
        self.connection.tell(&receipt.0, body).await
    }
}

impl NatsListener {
    /// Subscribes in the group, which is called after the consumer.
    async fn subscribe(&mut self) -> Result<(), BusError> {
        self.messages = None;
        let deliver = self.accepts.deliver.as_str();
        let group = self.accepts.consumer.name();
        let subscribe = self.connection.subscribe(deliver, Some(group));
        self.messages = Some(self.refused.retry.attempt(subscribe).await?);
        Ok(())
    }
}

impl Listener for NatsListener {
    type Receipt = Receipt;

    async fn next(&mut self) -> Incoming<Receipt> {
        loop {
            let heard = async {
                match &mut self.messages {
                    Some(messages) => messages.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                denial = self.denials.recv() => match denial {
                    Ok(denial) if denial.is_of_subscription(self.accepts.deliver.as_str()) => {
                        self.refused.again(&denial.text);
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => self.refused.again("unknown"),
                    Ok(_) | Err(broadcast::error::RecvError::Closed) => {}
                },
                () = self.refused.retry.due() => {
                    if let Err(error) = self.subscribe().await {
                        self.refused.again(&error.to_string());
                    }
                }
                message = heard => {
                    let Some(message) = message else {
                        self.messages = None;
                        self.refused.again("the subscription ended");
                        continue;
                    };
                    self.refused.delay = RETRY_FIRST;
                    if let Some(incoming) = self.accepts.read(&message) {
                        return incoming;
                    }
                    tracing::debug!(subject = %message.subject, "dropped a message this module did not ask for");
                }
            }
        }
    }
}

impl Refused {
    fn again(&mut self, why: &str) {
        self.retry.after(self.delay);
        if self.delay == RETRY_FIRST {
            tracing::warn!(
                why,
                "the module may not listen; it is tried again until it may"
            );
        }
        self.delay = (self.delay * 2).min(RETRY_MOST);
    }
}

impl Accepts {
    /// A message of this source, through this consumer; anything else is nobody's.
    fn read(&self, message: &Message) -> Option<Incoming<Receipt>> {
        let reply = message.reply.as_deref()?;
        let ours = message.status.is_none() && is_ack_of(reply, &self.consumer, &self.bus);
        let subject = Subject::new(message.subject.as_str())
            .ok()
            .filter(|_| ours)?;
        let asked = match (&self.source, subject::heard(&subject)) {
            (Source::Followed, Some(Heard::Event(_))) => true,
            (Source::Seat(seat), Some(Heard::Work(of, _))) => *seat == of,
            _ => false,
        };
        let named = message
            .headers
            .as_ref()
            .and_then(|headers| headers.get(MESSAGE_ID))
            .map(|id| as_sent(&subject, id.as_str()).to_owned());
        let id = match named {
            Some(id) => id,
            None => format!("{}-{}", self.consumer.stream(), stream_sequence(reply)?),
        };
        asked.then(|| Incoming {
            id,
            subject,
            body: message.payload.to_vec(),
            receipt: Receipt(reply.to_owned()),
        })
    }
}

/// An id as the server is told it: a stream knows a message by its id alone, whoever sent it and on whatever subject.
fn qualified(subject: &Subject, id: &str) -> String {
    format!("{subject}:{id}")
}

/// The id as its sender gave it; what was published by other means is left as it is.
fn as_sent<'a>(subject: &Subject, id: &'a str) -> &'a str {
    let rest = id.strip_prefix(subject.as_str());
    rest.and_then(|rest| rest.strip_prefix(':')).unwrap_or(id)
}

const MESSAGE_ID: &str = "Nats-Msg-Id";
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_is_its_senders_own() {
        let [one, two] = ["mesh.mod.one.said", "mesh.mod.two.said"]
            .map(|subject| Subject::new(subject).unwrap());
        assert_ne!(qualified(&one, "1"), qualified(&two, "1"));
        for id in ["1", "mesh.mod.one.said:1", ":", "mesh.mod.one.said"] {
            assert_eq!(as_sent(&one, &qualified(&one, id)), id);
        }
        assert_eq!(as_sent(&one, "from-elsewhere"), "from-elsewhere");
    }
}
