//! Taking from a pull consumer: one request outstanding, watched by its heartbeats.

use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use futures_util::{FutureExt, StreamExt};
use mesh_bus::{BusError, Delivery, MessageKey, Queue};
use mesh_derive::{ApiCall, is_ack_of};
use mesh_model::{BusFacts, ConsumerRef, Subject};
use tokio::time::Instant;

use crate::ack::stream_sequence;
use crate::connect::Connection;

/// What settling a message takes: where its acknowledgement is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt(pub(crate) String);

/// One pull consumer, as it is taken from.
#[derive(Debug)]
pub(crate) struct Puller {
    queue: Queue,
    consumer: ConsumerRef,
    bus: BusFacts,
    request: Option<Request>,
    not_before: Instant,
    /// Why the last request was turned down, while none has been answered since.
    pub(crate) turned_down: Option<String>,
    /// Whether that was told of already.
    told: bool,
}

/// A request the server has, and where it answers.
#[derive(Debug)]
struct Request {
    answers: Subscriber,
    inbox: String,
    outstanding: usize,
    heard: Instant,
    connect: u64,
}

impl Puller {
    pub(crate) fn new(queue: Queue, consumer: ConsumerRef) -> Self {
        Self {
            queue,
            consumer,
            bus: BusFacts::default(),
            request: None,
            not_before: Instant::now(),
            turned_down: None,
            told: false,
        }
    }

    /// Whether it was turned down after it had been answered: once, however often it is turned down again.
    pub(crate) fn turned_down_since(&mut self) -> bool {
        let down = self.turned_down.is_some();
        let since = down && !self.told;
        self.told = down;
        since
    }

    /// Sees to it that the server has a request, when it is time for one. One that died with its connection, or whose
    /// heartbeats stopped, is made anew, where a late answer to the old one cannot be taken for one to the new.
    pub(crate) async fn ask(
        &mut self,
        connection: &Connection,
        bus: &BusFacts,
        max: usize,
    ) -> Result<(), BusError> {
        self.bus.clone_from(bus);
        let now = Instant::now();
        let connect = *connection.connects().borrow();
        let dead = |request: &Request| {
            request.connect != connect
                || (request.outstanding > 0 && now.duration_since(request.heard) > SILENCE)
        };
        if self.request.as_ref().is_some_and(dead) {
            self.request = None;
        }
        let outstanding = self
            .request
            .as_ref()
            .map_or(0, |request| request.outstanding);
        if now < self.not_before || outstanding > 0 {
            return Ok(());
        }
        let request = match &mut self.request {
            Some(request) => request,
            none => {
                let inbox = connection.client().new_inbox();
                let answers = connection.subscribe(&inbox, None).await?;
                none.insert(Request {
                    answers,
                    inbox,
                    outstanding: 0,
                    heard: now,
                    connect,
                })
            }
        };
        let stream = self.consumer.stream().as_str();
        let subject = ApiCall::ConsumerNext.subject(stream, self.consumer.name());
        let body = format!(
            "{{\"batch\":{max},\"expires\":{},\"idle_heartbeat\":{}}}",
            EXPIRES.as_nanos(),
            HEARTBEAT.as_nanos()
        );
        connection
            .client()
            .publish_with_reply(subject, request.inbox.clone(), body.into())
            .await
            .map_err(|error| BusError::Away(error.to_string()))?;
        request.outstanding = max;
        request.heard = now;
        Ok(())
    }

    /// Waits for the next message; for ever while there is no request. May be dropped.
    pub(crate) async fn next(&mut self) -> Option<Delivery<Receipt>> {
        let Some(request) = &mut self.request else {
            return std::future::pending().await;
        };
        let Some(message) = request.answers.next().await else {
            self.turn_down("the subscription ended");
            return None;
        };
        self.heard(message)
    }

    /// The next message, if it is here already.
    pub(crate) fn ready(&mut self) -> Option<Delivery<Receipt>> {
        loop {
            let message = self.request.as_mut()?.answers.next().now_or_never()??;
            if let Some(delivery) = self.heard(message) {
                return Some(delivery);
            }
        }
    }

    fn heard(&mut self, message: Message) -> Option<Delivery<Receipt>> {
        let request = self.request.as_mut()?;
        request.heard = Instant::now();
        let Some(status) = message.status.filter(|status| *status != StatusCode::OK) else {
            return self.delivered(message);
        };
        match status {
            StatusCode::IDLE_HEARTBEAT => {}
            StatusCode::TIMEOUT | StatusCode::NOT_FOUND => {
                request.outstanding = 0;
                self.turned_down = None;
            }
            other => {
                let why = message.description.unwrap_or_else(|| other.to_string());
                self.turn_down(&why);
            }
        }
        None
    }

    fn delivered(&mut self, message: Message) -> Option<Delivery<Receipt>> {
        let reply = message.reply?.to_string();
        if !is_ack_of(&reply, &self.consumer, &self.bus) {
            return None;
        }
        if let Some(request) = &mut self.request {
            request.outstanding = request.outstanding.saturating_sub(1);
        }
        self.turned_down = None;
        Some(Delivery {
            key: MessageKey {
                bus: mesh_model::BusKind::Nats,
                queue: self.queue,
                sequence: stream_sequence(&reply)?,
            },
            subject: Subject::new(message.subject.as_str()).ok()?,
            body: message.payload.to_vec(),
            receipt: Receipt(reply),
        })
    }

    fn turn_down(&mut self, why: &str) {
        self.request = None;
        self.not_before = Instant::now() + TURNED_DOWN;
        self.turned_down = Some(format!("consumer {}: {why}", self.consumer));
    }
}

const EXPIRES: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Two heartbeats and a while.
const SILENCE: Duration = Duration::from_secs(12);
/// A consumer that is not there is asked again after this long.
const TURNED_DOWN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use mesh_derive::subject;

    use super::*;

    #[test]
    fn a_consumer_that_is_gone_is_told_of_once() {
        let consumer = ConsumerRef::new(subject::control_stream(), "controller").unwrap();
        let mut puller = Puller::new(Queue::Control, consumer);
        assert!(!puller.turned_down_since());
        puller.turn_down("gone");
        assert!(puller.turned_down_since());
        puller.turn_down("gone");
        assert!(!puller.turned_down_since());
        puller.turned_down = None;
        assert!(!puller.turned_down_since());
        puller.turn_down("gone");
        assert!(puller.turned_down_since());
    }
}
