//! A bare client with somebody's credential: what one would write who does not keep to the mesh's own libraries.

use std::time::Duration;

use anyhow::{Context, ensure};
use async_nats::{Client, ConnectOptions, Event, HeaderMap, ServerError, Subscriber};
use mesh_derive::subject::inbox_prefix;
use mesh_model::Principal;
use tokio::sync::{Mutex, mpsc};

use crate::patience::soon;

/// A client, and what the server refused it.
#[derive(Debug)]
pub struct Rogue {
    client: Client,
    refusals: Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Rogue {
    pub(crate) async fn connect(url: &str, seed: &str, as_: &Principal) -> anyhow::Result<Self> {
        Self::connect_by(ConnectOptions::with_nkey(seed.to_owned()), url, as_).await
    }

    pub(crate) async fn connect_by(
        options: ConnectOptions,
        url: &str,
        as_: &Principal,
    ) -> anyhow::Result<Self> {
        let (refused, refusals) = mpsc::unbounded_channel();
        let client = options
            .custom_inbox_prefix(inbox_prefix(as_))
            .request_timeout(Some(Duration::from_secs(10)))
            .event_callback(move |event| {
                let refused = refused.clone();
                async move {
                    if let Event::ServerError(ServerError::Other(text)) = event {
                        // The test may be over.
                        let _unheard = refused.send(text);
                    }
                }
            })
            .connect(url)
            .await?;
        Ok(Self {
            client,
            refusals: Mutex::new(refusals),
        })
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Publishes, and waits until the server has read it.
    pub async fn publish(&self, on: &str, reply: Option<&str>, body: &[u8]) -> anyhow::Result<()> {
        let (on, body) = (on.to_owned(), body.to_vec().into());
        match reply {
            Some(reply) => {
                let reply = reply.to_owned();
                self.client.publish_with_reply(on, reply, body).await?;
            }
            None => self.client.publish(on, body).await?,
        }
        soon("the server reads it", self.client.flush()).await??;
        Ok(())
    }

    /// Publishes, and waits until the server has said that it may not.
    pub async fn is_refused_publishing(&self, on: &str, body: &[u8]) -> anyhow::Result<()> {
        let inbox = self.client.new_inbox();
        self.publish(on, Some(&inbox), body).await?;
        let said = self.refusal().await?;
        let expected = format!("permissions violation for publish to \"{on}\"");
        ensure!(
            said.to_lowercase().contains(&expected.to_lowercase()),
            "the server says: {said}"
        );
        Ok(())
    }

    /// Subscribes, and waits until the server has said that it may not. The ear is returned, to show that it is deaf.
    pub async fn is_refused_subscribing(&self, to: &str) -> anyhow::Result<Subscriber> {
        let ear = self.client.subscribe(to.to_owned()).await?;
        soon("the server reads it", self.client.flush()).await??;
        let said = self.refusal().await?;
        let expected = format!("permissions violation for subscription to \"{to}\"");
        ensure!(
            said.to_lowercase().contains(&expected.to_lowercase()),
            "the server says: {said}"
        );
        Ok(ear)
    }

    /// Subscribes in a group, and waits until the server has said that it may not.
    pub async fn is_refused_in_group(&self, to: &str, group: &str) -> anyhow::Result<()> {
        let group = group.to_owned();
        let _deaf = self.client.queue_subscribe(to.to_owned(), group).await?;
        soon("the server reads it", self.client.flush()).await??;
        let said = self.refusal().await?;
        let expected = format!("permissions violation for subscription to \"{to}\"");
        ensure!(
            said.to_lowercase().contains(&expected),
            "the server says: {said}"
        );
        Ok(())
    }

    /// What the server refuses next.
    pub async fn refusal(&self) -> anyhow::Result<String> {
        let mut refusals = self.refusals.lock().await;
        let said = soon("the server refuses", refusals.recv()).await?;
        said.context("the connection is over")
    }

    /// Everything the server has refused since it was asked last.
    pub async fn refusals(&self) -> Vec<String> {
        let mut refusals = self.refusals.lock().await;
        std::iter::from_fn(|| refusals.try_recv().ok()).collect()
    }

    /// Publishes into a stream as anybody would who waits for the answer, and fails without one.
    pub async fn stores(&self, on: &str, body: &[u8]) -> anyhow::Result<()> {
        let (on, body) = (on.to_owned(), body.to_vec().into());
        let answer = self
            .client
            .request_with_headers(on.clone(), HeaderMap::new(), body)
            .await
            .with_context(|| format!("{on} is not answered"))?;
        let answer: serde_json::Value = serde_json::from_slice(&answer.payload)?;
        ensure!(answer.get("seq").is_some(), "{on}: {answer}");
        Ok(())
    }
}
