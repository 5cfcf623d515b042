//! The part of the JetStream API that defining takes, and a count of its use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::client::Request;
use futures_util::{StreamExt, TryStreamExt, stream};
use mesh_bus::BusError;
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
    /// What it holds.
    pub(crate) state: StreamState,
}

/// What a stream holds.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamState {
    /// How many messages.
    #[serde(default)]
    pub(crate) messages: u64,
    /// How many consumers.
    #[serde(default)]
    pub(crate) consumer_count: u64,
}

/// A consumer as it is found.
#[derive(Debug, Deserialize)]
pub(crate) struct FoundConsumer {
    /// What it is called.
    pub(crate) name: String,
    /// What it is.
    pub(crate) config: Fields,
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
            let page: StreamPage = self.read("STREAM.LIST", &body).await?;
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
        let verb = format!("CONSUMER.LIST.{stream}");
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
        let verb = format!("STREAM.CREATE.{stream}");
        let _: Anything = self.write(&verb, &Value::Object(config)).await?;
        Ok(())
    }

    /// Changes a stream.
    pub(crate) async fn update_stream(
        &self,
        stream: &StreamName,
        config: Fields,
    ) -> Result<(), BusError> {
        let verb = format!("STREAM.UPDATE.{stream}");
        let _: Anything = self.write(&verb, &Value::Object(config)).await?;
        Ok(())
    }

    /// Deletes a stream, and what it holds.
    pub(crate) async fn delete_stream(&self, stream: &StreamName) -> Result<(), BusError> {
        let _: Anything = self
            .write(&format!("STREAM.DELETE.{stream}"), &json!({}))
            .await?;
        Ok(())
    }

    /// Makes a consumer; one that is there and differs is an error.
    pub(crate) async fn create_consumer(
        &self,
        consumer: &ConsumerRef,
        config: Fields,
    ) -> Result<(), BusError> {
        self.define_consumer(consumer, config, "create").await
    }

    /// Changes a consumer; one that is not there is an error.
    pub(crate) async fn update_consumer(
        &self,
        consumer: &ConsumerRef,
        config: Fields,
    ) -> Result<(), BusError> {
        self.define_consumer(consumer, config, "update").await
    }

    async fn define_consumer(
        &self,
        consumer: &ConsumerRef,
        config: Fields,
        action: &str,
    ) -> Result<(), BusError> {
        let (stream, name) = (consumer.stream(), consumer.name());
        let verb = format!("CONSUMER.CREATE.{stream}.{name}");
        let body = json!({ "stream_name": stream.as_str(), "config": config, "action": action });
        let _: Anything = self.write(&verb, &body).await?;
        Ok(())
    }

    /// Deletes a consumer; one that is not there is no error.
    pub(crate) async fn delete_consumer(&self, consumer: &ConsumerRef) -> Result<(), BusError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let (stream, name) = (consumer.stream(), consumer.name());
        let verb = format!("CONSUMER.DELETE.{stream}.{name}");
        let answer = self.call(&verb, &json!({})).await?;
        match parse::<Reply<Anything>>(&verb, &answer)?.error {
            Some(error) if error.code != 404 => Err(error.into_bus_error(&verb)),
            _ => Ok(()),
        }
    }

    /// The last message a stream has on a subject: its sequence and body.
    pub(crate) async fn last(
        &self,
        stream: &StreamName,
        subject: &str,
    ) -> Result<Option<(u64, Vec<u8>)>, BusError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let verb = format!("STREAM.MSG.GET.{stream}");
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
            &format!("$JS.API.{verb}"),
            request,
            ANSWER_WITHIN,
        )
        .await
    }
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
const PAGES_IN_FLIGHT: usize = 4;
