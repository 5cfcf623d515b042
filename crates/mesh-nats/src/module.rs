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
use tokio::sync::{broadcast, watch};

use crate::ack::{DONE, WORKING, again_after, is_work, stream_sequence};
use crate::connect::{Connection, Credential, Dialling, Endpoint};
use crate::denial::Denial;
use crate::node::invalid_name;
use crate::publish::{confirm, store};
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
    terms: watch::Sender<u64>,
}

/// What an ear accepts.
#[derive(Debug)]
pub(crate) struct Accepts {
    deliver: Subject,
    source: Source,
    /// Who reads.
    module: ModuleName,
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
        let accepts = Accepts::of(source, &self.module, self.bus.clone())?;
        let mut listener = NatsListener::new(&self.connection, accepts);
        listener.subscribe().await?;
        Ok(listener)
    }

    /// That work is done is waited for: a seat may have been taken away meanwhile, and whoever has it gets that work too.
    async fn settle(&self, receipt: &Receipt, how: ModuleSettlement) -> Result<(), BusError> {
        let body = match how {
            ModuleSettlement::Done if is_work(&receipt.0) => {
                return confirm(&self.connection, &receipt.0, DONE).await;
            }
            ModuleSettlement::Done => DONE.to_vec(),
            ModuleSettlement::Working => WORKING.to_vec(),
            ModuleSettlement::Again(delay) => again_after(delay),
        };
        self.connection.tell(&receipt.0, body).await
    }
}

impl NatsListener {
    /// One that subscribes as soon as it is waited on.
    pub(crate) fn new(connection: &Connection, accepts: Accepts) -> Self {
        let mut retry = Retry::default();
        retry.after(Duration::ZERO);
        Self {
            connection: connection.clone(),
            accepts,
            messages: None,
            denials: connection.denials(),
            refused: Refused {
                retry,
                delay: RETRY_FIRST,
            },
            terms: watch::Sender::new(0),
        }
    }

    /// Withdraws the subscription: what is not delivered yet is delivered to another.
    pub(crate) async fn end(self) {
        if let Some(mut messages) = self.messages
            && let Err(error) = messages.unsubscribe().await
        {
            tracing::debug!(%error, "the subscription ends with its connection");
        }
    }

    /// Withdraws the subscription, and keeps what is on its way: [`rest`](Self::rest) is that.
    pub async fn leave(&mut self) {
        if let Some(messages) = &mut self.messages
            && let Err(error) = messages.drain().await
        {
            tracing::debug!(%error, "the subscription ends with its connection");
        }
    }

    /// The next of what was on its way when the subscription was withdrawn; nothing once that was all.
    pub async fn rest(&mut self) -> Option<Incoming<Receipt>> {
        loop {
            let message = self.messages.as_mut()?.next().await?;
            if let Some(incoming) = self.accepts.read(&message) {
                return Some(incoming);
            }
        }
    }

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

    fn terms(&self) -> watch::Receiver<u64> {
        self.terms.subscribe()
    }

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
                        // What was delivered before that may be settled no more, nor what of it is not read yet.
                        self.messages = None;
                        self.terms.send_modify(|term| *term += 1);
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
    /// What this module reads there.
    pub(crate) fn of(source: Source, module: &ModuleName, bus: BusFacts) -> Result<Self, BusError> {
        let (deliver, stream, name) = match &source {
            Source::Followed => (
                subject::deliver_module(module),
                subject::events_stream(),
                module.as_str(),
            ),
            Source::Seat(seat) => (
                subject::deliver_seat(seat),
                subject::seat_stream(seat),
                seat.as_str(),
            ),
        };
        Ok(Self {
            deliver,
            consumer: ConsumerRef::new(stream, name).map_err(invalid_name)?,
            source,
            module: module.clone(),
            bus,
        })
    }

    /// A message of this source, through this consumer; anything else is nobody's. An event that was carried from the
    /// other bus is what it was there.
    fn read(&self, message: &Message) -> Option<Incoming<Receipt>> {
        let reply = message.reply.as_deref()?;
        let ours = message.status.is_none() && is_ack_of(reply, &self.consumer, &self.bus);
        let subject = Subject::new(message.subject.as_str())
            .ok()
            .filter(|_| ours)?;
        let (said, carried) = match (&self.source, subject::carried(&subject)) {
            (Source::Followed, Some((to, event))) if to == self.module => {
                (subject::event(&event), true)
            }
            _ => (subject.clone(), false),
        };
        let (asked, may_be_carried) = match (&self.source, subject::heard(&said)) {
            (Source::Followed, Some(Heard::Event(_))) => (true, carried),
            (Source::Seat(seat), Some(Heard::Work(of, _))) => (*seat == of, true),
            _ => (false, false),
        };
        let headers = message.headers.as_ref();
        let header = |name| headers.and_then(|headers| headers.get(name));
        // Below `mesh.carry` the controller alone publishes. Whoever sends work may say so as well: what he says of it is
        // its id, which he chooses anyway.
        let kept = header(KEPT_ID).filter(|_| may_be_carried);
        let given = || header(MESSAGE_ID).map(|id| as_sent(&subject, id.as_str()).to_owned());
        let id = match kept.map(|id| id.as_str().to_owned()).or_else(given) {
            Some(id) => id,
            None => format!("{}-{}", self.consumer.stream(), stream_sequence(reply)?),
        };
        asked.then(|| Incoming {
            id,
            subject: said,
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

/// By which a stream knows a message for one it had before.
pub(crate) const MESSAGE_ID: &str = "Nats-Msg-Id";
/// The id its module gave a message that was carried from the other bus of a mesh of two: the one the stream knows it by
/// is another each time it is carried.
pub(crate) const KEPT_ID: &str = "Mesh-Message-Id";
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn bus() -> BusFacts {
        BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        }
    }

    fn message(subject: &str, reply: &str, headers: &[(&'static str, &str)]) -> Message {
        let mut said = HeaderMap::new();
        for (name, text) in headers {
            said.insert(*name, *text);
        }
        Message {
            subject: subject.into(),
            reply: Some(reply.into()),
            payload: bytes::Bytes::from_static(b"said"),
            headers: Some(said),
            status: None,
            description: None,
            length: 4,
        }
    }

    #[test]
    fn what_was_carried_is_heard_as_what_it_was_under_the_id_its_module_gave_it() {
        let events = "$JS.ACK.EVENTS.mailer.1.7.3.0.0";
        let work = "$JS.ACK.SEAT-desk.desk.1.7.3.0.0";
        let accepts = |source| Accepts::of(source, &"mailer".parse().unwrap(), bus()).unwrap();
        let follows = || Source::Followed;
        let desk = || Source::Seat("desk".parse().unwrap());
        let kept = [(KEPT_ID, "e1"), (MESSAGE_ID, "c-1")];
        let own = [(KEPT_ID, "e1"), (MESSAGE_ID, "mesh.mod.shop.sold:e2")];
        let unnamed = [(MESSAGE_ID, "c-1")];
        for (source, subject, reply, headers, heard) in [
            (
                follows(),
                "mesh.carry.mailer.shop.sold",
                events,
                &kept[..],
                Some(("e1", "mesh.mod.shop.sold")),
            ),
            (
                follows(),
                "mesh.carry.mailer.shop.sold",
                events,
                &unnamed,
                Some(("c-1", "mesh.mod.shop.sold")),
            ),
            // To another; and no event.
            (follows(), "mesh.carry.other.shop.sold", events, &kept, None),
            (follows(), "mesh.carry.mailer.shop", events, &kept, None),
            // Not through the module's own consumer.
            (follows(), "mesh.carry.mailer.shop.sold", work, &kept, None),
            (desk(), "mesh.carry.mailer.shop.sold", work, &kept, None),
            // An event's own id is no other module's to give.
            (
                follows(),
                "mesh.mod.shop.sold",
                events,
                &own,
                Some(("e2", "mesh.mod.shop.sold")),
            ),
            (
                desk(),
                "mesh.seat.desk.shop",
                work,
                &kept,
                Some(("e1", "mesh.seat.desk.shop")),
            ),
        ] {
            let said = message(subject, reply, headers);
            let read = accepts(source).read(&said);
            let read = read.map(|it| (it.id, it.subject.to_string()));
            let heard = heard.map(|(id, subject)| (id.to_owned(), subject.to_owned()));
            assert_eq!(read, heard, "{subject} {headers:?}");
        }
    }

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
