//! Publishing: confirmed, to somewhere, as oneself.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation};
use mesh_bus::BusError;
use mesh_derive::topology::{Address, NAME_LIMIT};
use mesh_model::Subject;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::line::Line;
use crate::refusal::{bus_error, is_about, too_large};

/// A message to be published.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) to: Address,
    /// The same each time it is published.
    pub(crate) id: String,
    /// Whether it is an error that no queue takes it.
    pub(crate) must_arrive: bool,
    /// What else it says of itself.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Letter {
    /// To where this subject is, and somebody is to have it; known by what it says.
    pub(crate) fn to(subject: &Subject, body: &[u8]) -> Result<Self, BusError> {
        Ok(Self {
            to: place_of(subject)?,
            id: Self::id_of(subject, body),
            must_arrive: true,
            headers: Vec::new(),
        })
    }

    /// What a message is known by that nobody named.
    pub(crate) fn id_of(subject: &Subject, body: &[u8]) -> String {
        let digest = Sha256::new()
            .chain_update(subject.as_str())
            .chain_update([0])
            .chain_update(body)
            .finalize();
        HEXLOWER.encode(digest.get(..ID_BYTES).unwrap_or_default())
    }
}

/// Where on the broker a subject is.
pub(crate) fn place_of(subject: &Subject) -> Result<Address, BusError> {
    Address::of(subject).ok_or_else(|| BusError::Refused {
        what: subject.to_string(),
        why: "there is no such place on this bus".to_owned(),
    })
}

/// What became of a message the broker has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// It is in a queue, or nobody asked for it.
    Taken,
    /// It was to arrive, and no queue takes it.
    Unrouted,
}

/// Publishes as one principal, over a connection that nothing is consumed on: a broker short of memory stops reading it,
/// and what is acknowledged must not wait for that.
#[derive(Debug)]
pub(crate) struct Publisher {
    line: Arc<Line>,
    confirmed: Mutex<Option<Channel>>,
    unconfirmed: Mutex<Option<Channel>>,
}

impl Publisher {
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self {
            line,
            confirmed: Mutex::default(),
            unconfirmed: Mutex::default(),
        }
    }

    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// Publishes what must not be lost, and waits until the broker has it. While it is unknown whether the broker has it
    /// that is [`BusError::Away`]: it is published again, under the same id.
    pub(crate) async fn publish(
        &self,
        letter: &Letter,
        body: &[u8],
    ) -> Result<Published, BusError> {
        let published = timeout(CONFIRMED_WITHIN, self.attempt(letter, body)).await;
        if let Ok(published) = published {
            return published;
        }
        // What is confirmed later is confirmed to nobody.
        *self.confirmed.lock().await = None;
        let why = "it was not confirmed in time; the broker may be short of memory or of disk";
        Err(BusError::Away(format!("{}: {why}", letter.to)))
    }

    /// The same, where it is an error that nobody takes it.
    pub(crate) async fn deliver(&self, letter: &Letter, body: &[u8]) -> Result<(), BusError> {
        match self.publish(letter, body).await? {
            Published::Taken => Ok(()),
            Published::Unrouted => Err(unrouted(&letter.to)),
        }
    }

    async fn attempt(&self, letter: &Letter, body: &[u8]) -> Result<Published, BusError> {
        let channel = self.channel(&self.confirmed, true).await?;
        let mut properties = self
            .properties(Some(&letter.id))?
            .with_delivery_mode(PERSISTENT);
        if !letter.headers.is_empty() {
            let mut headers = FieldTable::default();
            for (name, text) in &letter.headers {
                let text = AMQPValue::LongString(text.as_str().into());
                headers.insert((*name).into(), text);
            }
            properties = properties.with_headers(headers);
        }
        let to = &letter.to;
        let options = BasicPublishOptions {
            mandatory: letter.must_arrive,
            immediate: false,
        };
        let failed = |error: &lapin::Error| refused(to, body.len(), error);
        let confirm = channel
            .basic_publish(
                to.exchange.as_str().into(),
                short(&to.key)?,
                options,
                body,
                properties,
            )
            .await
            .map_err(|error| failed(&error))?;
        match confirm.await.map_err(|error| failed(&error))? {
            Confirmation::Ack(None) => Ok(Published::Taken),
            // Confirmed, and with nobody.
            Confirmation::Ack(Some(_)) => Ok(Published::Unrouted),
            Confirmation::Nack(_) => Err(BusError::Full(to.to_string())),
            Confirmation::NotRequested => {
                Err(BusError::Away(format!("{to}: it was not to be confirmed")))
            }
        }
    }

    /// Says what may be lost.
    pub(crate) async fn tell(&self, to: &Address, body: &[u8]) -> Result<(), BusError> {
        let channel = self.channel(&self.unconfirmed, false).await?;
        let told = channel.basic_publish(
            to.exchange.as_str().into(),
            short(&to.key)?,
            BasicPublishOptions::default(),
            body,
            self.properties(None)?,
        );
        let told = timeout(TOLD_WITHIN, told).await;
        let told = told.map_err(|_| BusError::Away(format!("{to}: the broker does not read")))?;
        told.map(drop)
            .map_err(|error| refused(to, body.len(), &error))
    }

    /// The channel there is, or a new one.
    async fn channel(
        &self,
        kept: &Mutex<Option<Channel>>,
        confirmed: bool,
    ) -> Result<Channel, BusError> {
        let mut kept = kept.lock().await;
        if let Some(channel) = kept.as_ref().filter(|kept| kept.status().connected()) {
            return Ok(channel.clone());
        }
        *kept = None;
        let channel = self.line.channel().await?;
        if confirmed {
            let selected = channel
                .confirm_select(ConfirmSelectOptions::default())
                .await;
            selected.map_err(|error| bus_error("to have messages confirmed", &error))?;
        }
        *kept = Some(channel.clone());
        Ok(channel)
    }

    /// Says who it is: the broker holds that against the login.
    fn properties(&self, id: Option<&str>) -> Result<BasicProperties, BusError> {
        let user = self.line.user().unwrap_or_default();
        let properties = BasicProperties::default().with_user_id(short(&user)?);
        match id {
            Some(id) => Ok(properties.with_message_id(short(id)?)),
            None => Ok(properties),
        }
    }
}

/// What it is that no queue takes a message: the one it is for is about to be made.
pub(crate) fn unrouted(to: &Address) -> BusError {
    BusError::Away(format!("{to}: no queue takes it"))
}

/// What ended a channel, to one of the messages that were on their way over it.
fn refused(to: &Address, bytes: usize, error: &lapin::Error) -> BusError {
    if let Some((too_many, why)) = too_large(error)
        && too_many == bytes
    {
        let what = to.to_string();
        return BusError::TooLarge { what, why };
    }
    match bus_error(&to.to_string(), error) {
        BusError::Refused { why, .. } if !is_about(&why, to.exchange.as_str(), &to.key) => {
            BusError::Away(format!("{to}: its channel was ended: {why}"))
        }
        other => other,
    }
}

fn short(text: &str) -> Result<ShortString, BusError> {
    ShortString::try_new(text).map_err(|error| BusError::Refused {
        what: format!("{} bytes of a name", text.len()),
        why: format!("AMQP takes {NAME_LIMIT}: {error:?}"),
    })
}

/// Far above what a broker takes to have a message on disk.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// On disk before it is confirmed.
const PERSISTENT: u8 = 2;
/// Bytes of a hash by which a message is told from every other.
const ID_BYTES: usize = 16;
