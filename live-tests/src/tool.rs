//! What an operator's tool sees of a server, and does to it behind the controller's back.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use async_nats::Client;
use mesh_model::{ConsumerRef, StreamName};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::patience::soon;

/// The JetStream API, bare.
#[derive(Debug, Clone)]
pub struct Tool(Client);

/// Between two looks of which the second has to show what the first did: long beside what settling a message takes.
const CALM: Duration = Duration::from_millis(250);

/// Everything a server holds: definitions, where each consumer stands, and how many messages on which subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
    /// What is another since, but for these.
    pub fn changes_since(&self, before: &Self, but_for: &[&str]) -> Vec<String> {
        let mut names: Vec<&String> = self.0.keys().chain(before.0.keys()).collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .filter(|name| !but_for.contains(&name.as_str()))
            .filter(|name| self.0.get(*name) != before.0.get(*name))
            .map(|name| {
                format!(
                    "{name}: {:?}, was {:?}",
                    self.0.get(name),
                    before.0.get(name)
                )
            })
            .collect()
    }
}

impl Tool {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    /// The connection.
    pub fn client(&self) -> &Client {
        &self.0
    }

    /// Calls the API; nothing where what was asked for is not there.
    pub async fn api(&self, verb: &str, body: &Value) -> anyhow::Result<Option<Value>> {
        let body = serde_json::to_vec(body)?;
        let answer = self.0.request(format!("$JS.API.{verb}"), body.into()).await;
        let answer = answer.with_context(|| format!("{verb} is not answered"))?;
        let answer: Value = serde_json::from_slice(&answer.payload)?;
        match answer.get("error") {
            None => Ok(Some(answer)),
            Some(error) if error.get("code") == Some(&json!(404)) => Ok(None),
            Some(error) => bail!("{verb}: {error}"),
        }
    }

    /// A stream, with how many messages it holds on each subject.
    pub async fn stream(&self, stream: &StreamName) -> anyhow::Result<Option<Value>> {
        let all = json!({ "subjects_filter": ">" });
        self.api(&format!("STREAM.INFO.{stream}"), &all).await
    }

    /// How many messages a stream holds.
    pub async fn stored(&self, stream: &StreamName) -> anyhow::Result<u64> {
        let found = self.stream(stream).await?;
        let found = found.with_context(|| format!("there is no stream {stream}"))?;
        number(&found, "/state/messages")
    }

    /// A consumer.
    pub async fn consumer(&self, consumer: &ConsumerRef) -> anyhow::Result<Option<Value>> {
        let (stream, name) = (consumer.stream(), consumer.name());
        self.api(&format!("CONSUMER.INFO.{stream}.{name}"), &json!({}))
            .await
    }

    /// How many messages a consumer has not settled: still to be sent, or out.
    pub async fn unsettled(&self, consumer: &ConsumerRef) -> anyhow::Result<u64> {
        let found = self.consumer(consumer).await?;
        let found = found.with_context(|| format!("there is no consumer {consumer}"))?;
        Ok(number(&found, "/num_pending")? + number(&found, "/num_ack_pending")?)
    }

    /// Deletes a consumer; whether it was there.
    pub async fn delete_consumer(&self, consumer: &ConsumerRef) -> anyhow::Result<bool> {
        let (stream, name) = (consumer.stream(), consumer.name());
        let verb = format!("CONSUMER.DELETE.{stream}.{name}");
        Ok(self.api(&verb, &json!({})).await?.is_some())
    }

    /// Deletes a stream; whether it was there.
    pub async fn delete_stream(&self, stream: &StreamName) -> anyhow::Result<bool> {
        let verb = format!("STREAM.DELETE.{stream}");
        Ok(self.api(&verb, &json!({})).await?.is_some())
    }

    /// Everything the server holds, after whatever it was asked before: the API is asked to write something and to undo
    /// it, which waits its turn.
    pub async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let scratch = json!({ "name": "SCRATCH", "subjects": ["scratch"], "storage": "memory" });
        self.api("STREAM.CREATE.SCRATCH", &scratch).await?;
        self.api("STREAM.DELETE.SCRATCH", &json!({})).await?;
        let mut seen = BTreeMap::new();
        for stream in self.page("STREAM.LIST", "/streams").await? {
            let name = text(&stream, "/config/name")?;
            seen.insert(
                format!("stream {name}"),
                json!([stream.get("config"), stream.get("created")]),
            );
            let stream = self.stream(&StreamName::new(&name)?).await?;
            let subjects = stream
                .as_ref()
                .and_then(|stream| stream.pointer("/state/subjects"))
                .and_then(Value::as_object);
            for (subject, held) in subjects.into_iter().flatten() {
                seen.insert(format!("{name} holds {subject}"), held.clone());
            }
            for consumer in self
                .page(&format!("CONSUMER.LIST.{name}"), "/consumers")
                .await?
            {
                let consumer_name = text(&consumer, "/name")?;
                let keep = [
                    "config",
                    "created",
                    "delivered",
                    "ack_floor",
                    "num_ack_pending",
                    "num_pending",
                ];
                let kept: Vec<_> = keep.iter().map(|key| consumer.get(key)).collect();
                seen.insert(format!("consumer {name}/{consumer_name}"), json!(kept));
            }
        }
        Ok(Snapshot(seen))
    }

    /// The same once nothing is on its way any more: what an agent or the controller still settles is nobody else's doing.
    pub async fn calm(&self) -> anyhow::Result<Snapshot> {
        let mut before = self.snapshot().await?;
        soon("nothing changes any more", async {
            loop {
                sleep(CALM).await;
                let now = self.snapshot().await?;
                if now.changes_since(&before, &[]).is_empty() {
                    return Ok(now);
                }
                before = now;
            }
        })
        .await?
    }

    async fn page(&self, verb: &str, at: &str) -> anyhow::Result<Vec<Value>> {
        let page = self.api(verb, &json!({})).await?;
        let page = page.with_context(|| format!("{verb}: nothing"))?;
        Ok(page
            .pointer(at)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default())
    }
}

fn number(value: &Value, at: &str) -> anyhow::Result<u64> {
    let number = value.pointer(at).and_then(Value::as_u64);
    number.with_context(|| format!("no number at {at}: {value}"))
}

fn text(value: &Value, at: &str) -> anyhow::Result<String> {
    let text = value.pointer(at).and_then(Value::as_str);
    let text = text.with_context(|| format!("no text at {at}: {value}"))?;
    Ok(text.to_owned())
}
