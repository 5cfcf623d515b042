//! The part of the JetStream API that defining takes, and a count of its use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::client::Request;
use futures_util::{StreamExt, TryStreamExt, stream};
use mesh_bus::BusError;
use mesh_derive::ApiCall;
use mesh_model::{ConsumerRef, StreamName};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::connect::Connection;
use crate::definition::Fields;
use crate::publish::{ApiError, ask};

/// How often the API was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApiCalls {
    /// Calls that change a definition.
    pub writes: u64,
    /// Calls that only read.
    pub reads: u64,
}

/// The API, over one connection.
#[derive(Debug)]
pub(crate) struct Api {
    connection: Connection,
    writes: AtomicU64,
    reads: AtomicU64,
}

/// A stream as it is found.
#[derive(Debug, Deserialize)]
pub(crate) struct FoundStream {
    /// What it is.
    pub(crate) config: Fields,
    /// When it was made, in the server's words: one made anew says another.
    #[serde(default)]
    pub(crate) created: String,
    /// What it holds.
    pub(crate) state: StreamState,
    /// What time it was at the server.
    #[serde(default)]
    pub(crate) ts: String,
}

/// What a stream holds.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamState {
    /// How many messages.
    #[serde(default)]
    pub(crate) messages: u64,
    /// When the first of them was stored.
    #[serde(default)]
    pub(crate) first_ts: String,
    /// The sequence of the last message there ever was.
    #[serde(default)]
    pub(crate) last_seq: u64,
    /// How many consumers.
    #[serde(default)]
    pub(crate) consumer_count: u64,
}

/// A consumer as it is found.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FoundConsumer {
    /// What it is called.
    pub(crate) name: String,
    /// What it is.
    pub(crate) config: Fields,
    /// The last message that it delivered.
    #[serde(default)]
    pub(crate) delivered: Position,
    /// The last message up to which everything is settled.
    #[serde(default)]
    pub(crate) ack_floor: Position,
    /// How many messages are out and not settled.
    #[serde(default)]
    pub(crate) num_ack_pending: u64,
}

/// Where a consumer stands in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(crate) struct Position {
    /// The message's sequence in the stream.
    #[serde(default)]
    pub(crate) stream_seq: u64,
}

impl FoundStream {
    /// What it is called.
    pub(crate) fn name(&self) -> Option<&str> {
        self.config.get("name").and_then(Value::as_str)
    }
}

#[derive(Deserialize)]
struct Reply<T> {
    error: Option<ApiError>,
    #[serde(flatten)]
    rest: Option<T>,
}

#[derive(Deserialize)]
struct StreamPage {
    #[serde(default)]
    total: usize,
    streams: Option<Vec<FoundStream>>,
}

#[derive(Deserialize)]
struct ConsumerPage {
    error: Option<ApiError>,
    #[serde(default)]
    total: usize,
    #[serde(default)]
    limit: usize,
    consumers: Option<Vec<FoundConsumer>>,
}

#[derive(Deserialize)]
struct Anything {}

#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    ack_floor: Position,
}

#[derive(Deserialize)]
struct Stored {
    message: StoredMessage,
}

#[derive(Deserialize)]
struct StoredMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

impl Api {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            writes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    pub(crate) fn calls(&self) -> ApiCalls {
        ApiCalls {
            writes: self.writes.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
        }
    }

    /// Every stream there is.
    pub(crate) async fn streams(&self) -> Result<Vec<FoundStream>, BusError> {
        let mut found = Vec::new();
        loop {
            let body = json!({ "offset": found.len() });
            let verb = verb(ApiCall::StreamList, "", "");
            let page: StreamPage = self.read(&verb, &body).await?;
            let streams = page.streams.unwrap_or_default();
            let end = streams.is_empty();
            found.extend(streams);
            if end || found.len() >= page.total {
                return Ok(found);
            }
        }
    }

    /// Every consumer of a stream. Paging is by offset: one made or deleted meanwhile may be missed, or met twice.
    pub(crate) async fn consumers(
        &self,
        stream: &StreamName,
    ) -> Result<Vec<FoundConsumer>, BusError> {
        let first = self.consumer_page(stream, 0).await?;
        let size = first.limit.max(1);
        let offsets = (size..first.total).step_by(size);
        let rest: Vec<ConsumerPage> = stream::iter(offsets)
            .map(|offset| self.consumer_page(stream, offset))
            .buffered(PAGES_IN_FLIGHT)
            .try_collect()
            .await?;
        let pages = std::iter::once(first).chain(rest);
        Ok(pages
            .flat_map(|page| page.consumers.unwrap_or_default())
            .collect())
    }

    async fn consumer_page(
        &self,
        stream: &StreamName,
        offset: usize,
    ) -> Result<ConsumerPage, BusError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let verb = verb(ApiCall::ConsumerList, stream.as_str(), "");
        let answer = self.call(&verb, &json!({ "offset": offset })).await?;
        let page: ConsumerPage = parse(&verb, &answer)?;
        match page.error {
            Some(error) => Err(error.into_bus_error(&verb)),
            None => Ok(page),
        }
    }

    /// Makes a stream.
    pub(crate) async fn create_stream(
        &self,
        stream: &StreamName,
        config: Fields,
    ) -> Result<(), BusError> {
        let verb = verb(ApiCall::StreamCreate, stream.as_str(), "");
        let _: Anything = self.write(&verb, &Value::Object(config)).await?;
        Ok(())
    }

    /// Changes a stream.
    pub(crate) async fn update_stream(
        &self,
        stream: &StreamName,
        config: Fields,
    ) -> Result<(), BusError> {
        let verb = verb(ApiCall::StreamUpdate, stream.as_str(), "");
        let _: Anything = self.write(&verb, &Value::Object(config)).await?;
        Ok(())
    }

    /// Deletes a stream, and what it holds.
    pub(crate) async fn delete_stream(&self, stream: &StreamName) -> Result<(), BusError> {
        let verb = verb(ApiCall::StreamDelete, stream.as_str(), "");
        let _: Anything = self.write(&verb, &json!({})).await?;
        Ok(())
    }

    /// Makes a consumer, and returns after which message it begins; one that is there and differs is an error.
    pub(crate) async fn create_consumer(
        &self,
        consumer: &ConsumerRef,
        config: Fields,
    ) -> Result<Position, BusError> {
        self.define_consumer(consumer, config, "create").await
    }

    /// Changes a consumer; one that is not there is an error.
    pub(crate) async fn update_consumer(
        &self,
        consumer: &ConsumerRef,
        config: Fields,
    ) -> Result<(), BusError> {
        let updated = self.define_consumer(consumer, config, "update").await;
        updated.map(drop)
    }

    async fn define_consumer(
        &self,
        consumer: &ConsumerRef,
        config: Fields,
        action: &str,
    ) -> Result<Position, BusError> {
        let (stream, name) = (consumer.stream(), consumer.name());
        let verb = verb(ApiCall::ConsumerCreate, stream.as_str(), name);
        let body = json!({ "stream_name": stream.as_str(), "config": config, "action": action });
        let made: Made = self.write(&verb, &body).await?;
        Ok(made.ack_floor)
    }

    /// Deletes a consumer; one that is not there is no error.
    pub(crate) async fn delete_consumer(&self, consumer: &ConsumerRef) -> Result<(), BusError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let stream = consumer.stream().as_str();
        let verb = verb(ApiCall::ConsumerDelete, stream, consumer.name());
        let answer = self.call(&verb, &json!({})).await?;
        match parse::<Reply<Anything>>(&verb, &answer)?.error {
            Some(error) if error.code != 404 => Err(error.into_bus_error(&verb)),
            _ => Ok(()),
        }
    }

    /// Has a consumer deliver again that was paused.
    pub(crate) async fn resume_consumer(&self, consumer: &ConsumerRef) -> Result<(), BusError> {
        let (stream, name) = (consumer.stream().as_str(), consumer.name());
        let verb = verb(ApiCall::ConsumerPause, stream, name);
        let _resumed: Anything = self.write(&verb, &json!({})).await?;
        Ok(())
    }

    /// The last message a stream has on a subject: its sequence and body.
    pub(crate) async fn last(
        &self,
        stream: &StreamName,
        subject: &str,
    ) -> Result<Option<(u64, Vec<u8>)>, BusError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let verb = verb(ApiCall::MessageGet, stream.as_str(), "");
        let answer = self
            .call(&verb, &json!({ "last_by_subj": subject }))
            .await?;
        let reply: Reply<Stored> = parse(&verb, &answer)?;
        match (reply.error, reply.rest) {
            (Some(error), _) if error.code == 404 => Ok(None),
            (Some(error), _) => Err(error.into_bus_error(&verb)),
            (None, None) => Err(BusError::Away(format!(
                "{verb}: the answer holds no message"
            ))),
            (None, Some(stored)) => {
                let body = data_encoding::BASE64
                    .decode(stored.message.data.as_bytes())
                    .map_err(|error| BusError::Away(format!("{verb}: {error}")))?;
                Ok(Some((stored.message.seq, body)))
            }
        }
    }

    async fn read<T: DeserializeOwned>(&self, verb: &str, body: &Value) -> Result<T, BusError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        unpack(verb, &self.call(verb, body).await?)
    }

    async fn write<T: DeserializeOwned>(&self, verb: &str, body: &Value) -> Result<T, BusError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        unpack(verb, &self.call(verb, body).await?)
    }

    async fn call(&self, verb: &str, body: &Value) -> Result<bytes::Bytes, BusError> {
        let body = serde_json::to_vec(body).map_err(|error| BusError::Refused {
            what: verb.to_owned(),
            why: error.to_string(),
        })?;
        let request = Request::new().payload(body.into());
        ask(
            &self.connection,
            &format!("{PREFIX}{verb}"),
            request,
            ANSWER_WITHIN,
        )
        .await
    }
}

/// The call without what all begin with: so it stands in messages.
fn verb(call: ApiCall, stream: &str, consumer: &str) -> String {
    let subject = call.subject(stream, consumer);
    subject.strip_prefix(PREFIX).unwrap_or(&subject).to_owned()
}

fn unpack<T: DeserializeOwned>(verb: &str, answer: &[u8]) -> Result<T, BusError> {
    let reply: Reply<T> = parse(verb, answer)?;
    match (reply.error, reply.rest) {
        (Some(error), _) => Err(error.into_bus_error(verb)),
        (None, Some(rest)) => Ok(rest),
        (None, None) => Err(BusError::Away(format!("{verb}: the answer is incomplete"))),
    }
}

fn parse<T: DeserializeOwned>(verb: &str, answer: &[u8]) -> Result<T, BusError> {
    serde_json::from_slice(answer)
        .map_err(|error| BusError::Away(format!("{verb}: the answer is no answer: {error}")))
}

/// Making a consumer writes and syncs files: on a slow disk, with others before it, that takes its time.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
const PREFIX: &str = "$JS.API.";
const PAGES_IN_FLIGHT: usize = 4;
