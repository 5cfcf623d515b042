//! Carrying between the two buses of a mesh: reading what waits here for who is on the other, and putting down what comes
//! from there.

mod hand;
mod words;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::HeaderMap;
use mesh_bus::{BusError, Carried, Carrier, Incoming, Listener, ModuleSettlement, Source};
use mesh_derive::Plan;
use mesh_derive::subject::{self, Heard};
use mesh_model::{BusFacts, ConsumerRef, ModuleName, Principal, Subject};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::ack::{DONE, WORKING, again_after};
use crate::connect::Connection;
use crate::controller::NatsController;
use crate::module::{Accepts, KEPT_ID, MESSAGE_ID, NatsListener};
use crate::publish::store;
use crate::pull::Receipt;
use hand::{Hand, Load};
use words::Words;

pub use hand::NatsLoad;

/// What a controller reads for the other bus, and what it put down here and does not know to have arrived.
#[derive(Debug)]
pub(crate) struct Carrying {
    connection: Connection,
    hand: Arc<Hand>,
    readers: Mutex<Readers>,
    words: Mutex<Words>,
}

#[derive(Debug, Default)]
struct Readers {
    /// How each is told to end.
    stops: BTreeMap<ConsumerRef, Arc<Notify>>,
    /// Joined when something is waited for: a panic in one is not to go unheard.
    tasks: JoinSet<()>,
}

impl Carrying {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            hand: Arc::default(),
            readers: Mutex::default(),
            words: Mutex::default(),
        }
    }

    /// Reads no more of what this plan does not have carried, and gives back what waits of it: whoever reads it now has it
    /// at once.
    pub(crate) async fn leave(&self, plan: &Plan) {
        let left = {
            let mut readers = self.readers();
            let carried = |of: &ConsumerRef| plan.carried.contains(of);
            let left: Vec<_> = readers.stops.extract_if(.., |of, _| !carried(of)).collect();
            left
        };
        for (consumer, stop) in left {
            stop.notify_one();
            for load in self.hand.give_back(&consumer) {
                let told = self.tell(&load.receipt, again_after(std::time::Duration::ZERO));
                if let Err(error) = told.await {
                    tracing::debug!(%error, %consumer, "what is given back comes again after its ack wait");
                }
            }
        }
    }

    /// Reads what this plan has carried; what is read already is read on.
    pub(crate) fn read(&self, plan: &Plan, bus: &BusFacts) -> Result<(), BusError> {
        let mut readers = self.readers();
        for consumer in &plan.carried {
            let owner = plan.consumers.get(consumer).map(|spec| &spec.owner);
            let Some(Some(Principal::Module(module))) = owner else {
                continue;
            };
            if readers.stops.contains_key(consumer) {
                continue;
            }
            let seat = subject::seat_of(consumer.stream());
            let source = seat.map_or(Source::Followed, Source::Seat);
            let accepts = Accepts::of(source, module, bus.clone())?;
            let stop = Arc::new(Notify::new());
            let reader = Reader {
                connection: self.connection.clone(),
                consumer: consumer.clone(),
                module: module.clone(),
                hand: Arc::clone(&self.hand),
                stop: Arc::clone(&stop),
            };
            readers.stops.insert(consumer.clone(), stop);
            readers.tasks.spawn(reader.run(accepts));
        }
        Ok(())
    }

    async fn next(&self) -> Carried<NatsLoad> {
        loop {
            self.are_well();
            if let Some(load) = self.hand.next().await {
                return load.carried();
            }
        }
    }

    /// Nobody would know that a consumer is no longer read.
    fn are_well(&self) {
        let ended = self.readers().tasks.try_join_next();
        if let Some(Err(ended)) = ended
            && let Ok(panic) = ended.try_into_panic()
        {
            resume_unwind(panic);
        }
    }

    async fn unload(&self, load: &NatsLoad, how: ModuleSettlement) -> Result<(), BusError> {
        let load = load.load();
        let body = match how {
            ModuleSettlement::Done => {
                self.hand.done(load);
                DONE.to_vec()
            }
            ModuleSettlement::Working => WORKING.to_vec(),
            ModuleSettlement::Again(delay) => {
                self.hand.forget(load);
                again_after(delay)
            }
        };
        self.tell(&load.receipt, body).await
    }

    /// A stream forgets what comes under a word it had within two minutes, from a queue as well that has long been worked:
    /// so what is carried has a word of its own, and keeps its id beside it. Only what may have arrived goes under the same
    /// word again.
    async fn put(&self, to: &Subject, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        // The client's own way of making a word that nobody made before.
        let new = || self.connection.client().new_inbox();
        let word = self.words().of(to, id, new);
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, word);
        headers.insert(KEPT_ID, header_of(id));
        let stored = store(&self.connection, to.as_str(), headers, body).await;
        if !matches!(stored, Err(BusError::Away(_))) {
            self.words().is_used(to, id);
        }
        stored.map(drop)
    }

    async fn tell(&self, receipt: &Receipt, body: Vec<u8>) -> Result<(), BusError> {
        self.connection.tell(&receipt.0, body).await
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id as a header takes it: one from a broker may have lines.
fn header_of(id: &str) -> String {
    if id.contains(char::is_control) {
        id.escape_default().to_string()
    } else {
        id.to_owned()
    }
}

/// What reads one consumer for as long as it is carried.
struct Reader {
    connection: Connection,
    consumer: ConsumerRef,
    module: ModuleName,
    hand: Arc<Hand>,
    stop: Arc<Notify>,
}

impl Reader {
    async fn run(self, accepts: Accepts) {
        let _wakes = Wakes(Arc::clone(&self.hand));
        let mut listener = NatsListener::new(&self.connection, accepts);
        loop {
            let incoming = tokio::select! {
                biased;
                () = self.stop.notified() => return listener.end().await,
                incoming = listener.next() => incoming,
            };
            self.heard(incoming).await;
        }
    }

    async fn heard(&self, incoming: Incoming<Receipt>) {
        let to = match subject::heard(&incoming.subject) {
            Some(Heard::Event(event)) => subject::carry(&self.module, &event),
            _ => incoming.subject,
        };
        let receipt = incoming.receipt.clone();
        let load = Load {
            consumer: self.consumer.clone(),
            to,
            id: incoming.id,
            body: incoming.body,
            receipt: incoming.receipt,
        };
        if self.hand.take(load).is_settled() {
            // The other bus has it; what said so was lost.
            let told = self.connection.tell(&receipt.0, DONE.to_vec()).await;
            if let Err(error) = told {
                tracing::debug!(%error, consumer = %self.consumer, "it comes again, and is known then");
            }
        }
    }
}

/// A reader that ends, however that is, has whoever waits look at it.
struct Wakes(Arc<Hand>);

impl Drop for Wakes {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl Carrier for NatsController {
    type Load = NatsLoad;

    async fn load(&self) -> Carried<NatsLoad> {
        self.carrying.next().await
    }

    async fn unload(&self, load: &NatsLoad, how: ModuleSettlement) -> Result<(), BusError> {
        self.carrying.unload(load, how).await
    }

    async fn put(&self, to: &Subject, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        self.carrying.put(to, id, body).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_lines_is_one_line_of_a_header() {
        for (id, expected) in [
            ("shop/web-1/7", "shop/web-1/7"),
            ("grün", "grün"),
            ("a\r\nNats-Rollup: all", "a\\r\\nNats-Rollup: all"),
            ("a\nb", "a\\nb"),
        ] {
            let mut headers = HeaderMap::new();
            // The client panics at what is no header.
            headers.insert(KEPT_ID, header_of(id));
            let kept = headers.get(KEPT_ID).map(async_nats::HeaderValue::as_str);
            assert_eq!(kept, Some(expected));
        }
    }
}
