//! One user's attempts, each such that nothing comes of it even where the broker wrongly allows it.
//!
//! - What is published is published in a transaction that is then rolled back: a broker holds it against every permission,
//!   and no queue ever has it.
//! - A queue is read with an argument no consumer may have: a broker looks at the permission first, and then refuses the
//!   argument. Nothing is delivered, so nothing is given back either: of a queue that keeps the newest alone, what is given
//!   back could be lost, or take the place of a newer one.
//! - A queue or an exchange is declared as what it is not. One that is there stays as it is; one that is not is the
//!   connection's own, and ends with it.
//! - What is bound is bound by a key that nobody may publish under, and unbound at once.
//! - Anything else is tried only after its gate was refused.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions,
    ExchangeBindOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, ExchangeUnbindOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, ErrorKind, ExchangeKind};
use mesh_bus::BusError;
use mesh_derive::topology::proof::{At, Attempt, Bond};
use mesh_derive::topology::{Address, Exchange, login};
use mesh_model::one_line;
use tokio::time::timeout;

use super::found::Found;
use crate::line::Line;
use crate::refusal::said;
use crate::sender::proven;

/// One user's connection.
#[derive(Debug)]
pub(crate) struct Prober {
    line: Line,
    /// What the names of the mesh's users begin with.
    users: String,
    /// That of the last attempt, if it was not refused.
    channel: Option<Channel>,
    refused: BTreeSet<Attempt>,
    /// Why no more is tried.
    ended: Option<String>,
}

impl Prober {
    pub(crate) fn new(line: Line, users: &str) -> Self {
        Self {
            line,
            users: users.to_owned(),
            channel: None,
            refused: BTreeSet::new(),
            ended: None,
        }
    }

    /// Tries it, unless what must have been refused before was not.
    pub(crate) async fn attempt(&mut self, attempt: &Attempt) -> Found {
        if let Some(why) = &self.ended {
            return Found::Untried(why.clone());
        }
        if let Some(gate) = attempt.gate()
            && !self.refused.contains(&gate)
        {
            return Found::Untried(format!("{gate} was not refused"));
        }
        let mut found = self.attempt_once(attempt).await;
        for _ in 1..HEARD_AGAIN {
            if found.is_some() {
                break;
            }
            found = self.attempt_once(attempt).await;
        }
        let unheard = || Found::Otherwise("its channel ended, and it is not heard why".to_owned());
        let found = found.unwrap_or_else(unheard);
        if found == Found::Refused {
            self.refused.insert(attempt.clone());
        }
        found
    }

    /// Nothing where the channel ended before it could be heard why.
    async fn attempt_once(&mut self, attempt: &Attempt) -> Option<Found> {
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(error) => return Some(self.unreached(&error)),
        };
        let found = match timeout(ANSWERED_WITHIN, self.act(&channel, attempt)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::InvalidChannelState(..)) => {
                return None;
            }
            Ok(Err(error)) => judged(attempt, &error),
            Err(_) => Found::Otherwise("nothing, in time".to_owned()),
        };
        if matches!(found, Found::Allowed | Found::Held) {
            self.channel = Some(channel);
        }
        Some(found)
    }

    /// Ends the connection.
    pub(crate) async fn leave(&self) {
        self.line.hang_up().await;
    }

    /// Nothing more is tried: what was to be tried first says why.
    fn unreached(&mut self, error: &BusError) -> Found {
        let why = one_line(&error.to_string());
        self.ended = Some(why.clone());
        match error {
            BusError::Refused { .. } => Found::Refused,
            _ => Found::Otherwise(why),
        }
    }

    async fn channel(&mut self) -> Result<Channel, BusError> {
        if let Some(channel) = self.channel.take()
            && channel.status().connected()
        {
            return Ok(channel);
        }
        let channel = self.line.channel().await?;
        let selected = timeout(ANSWERED_WITHIN, channel.tx_select()).await;
        let selected = selected.map_err(|_| BusError::Away("no transaction in time".to_owned()))?;
        selected.map_err(|error| BusError::Away(format!("a transaction: {error}")))?;
        Ok(channel)
    }

    async fn act(&self, channel: &Channel, attempt: &Attempt) -> lapin::Result<Found> {
        match attempt {
            Attempt::Connect => Ok(Found::Allowed),
            Attempt::Publish(_) | Attempt::Impersonate { .. } | Attempt::Copy { .. } => {
                self.publish(channel, attempt).await
            }
            Attempt::Consume(_) | Attempt::Get(_) | Attempt::Purge(_) => {
                read(channel, attempt).await
            }
            Attempt::Bind(_) | Attempt::Unbind(_) | Attempt::BindExchange(_) => {
                bind(channel, attempt).await
            }
            Attempt::DeclareQueue(_)
            | Attempt::DeleteQueue(_)
            | Attempt::DeclareExchange(_)
            | Attempt::DeleteExchange(_) => configure(channel, attempt).await,
        }
    }

    async fn publish(&self, channel: &Channel, attempt: &Attempt) -> lapin::Result<Found> {
        match attempt {
            Attempt::Publish(at) => {
                publish(channel, at, self.own()).await?;
            }
            Attempt::Impersonate { at, other } => {
                let other = login(&self.users, other);
                let properties = BasicProperties::default().with_user_id(short(&other)?);
                publish(channel, at, properties).await?;
            }
            Attempt::Copy { at, to } => {
                let mut headers = FieldTable::default();
                let to = AMQPValue::LongString(to.as_str().into());
                headers.insert("CC".into(), AMQPValue::FieldArray(vec![to].into()));
                publish(channel, at, self.own().with_headers(headers)).await?;
                if !self.is_believed(at) {
                    return Ok(Found::Held);
                }
            }
            _ => {}
        }
        Ok(Found::Allowed)
    }

    fn own(&self) -> BasicProperties {
        let user = self.line.user().and_then(|user| short(&user).ok());
        user.map_or_else(BasicProperties::default, |user| {
            BasicProperties::default().with_user_id(user)
        })
    }

    /// Whether a reader who got this message, from whichever queue, would believe it. It comes with the key it was published
    /// under and not the second.
    fn is_believed(&self, at: &At) -> bool {
        let address = Exchange::named(&at.exchange).map(|exchange| Address {
            exchange,
            key: at.key.clone(),
        });
        let subject = address.and_then(|at| at.subject());
        let user = self.line.user();
        subject.is_some_and(|it| proven(&it, user.as_deref(), &self.users))
    }
}

async fn read(channel: &Channel, attempt: &Attempt) -> lapin::Result<Found> {
    match attempt {
        Attempt::Consume(queue) => {
            let mut arguments = FieldTable::default();
            arguments.insert(NO_CONSUMERS.into(), AMQPValue::LongString("none".into()));
            let options = BasicConsumeOptions::default();
            let consumer = channel
                .basic_consume(short(queue)?, "".into(), options, arguments)
                .await?;
            let tag = consumer.tag();
            channel
                .basic_cancel(tag, BasicCancelOptions::default())
                .await?;
            return Ok(Found::Otherwise("it takes any consumer".to_owned()));
        }
        Attempt::Get(queue) => {
            let options = BasicGetOptions { no_ack: false };
            channel.basic_get(short(queue)?, options).await?;
            channel.close(200, "given back".into()).await?;
        }
        Attempt::Purge(queue) => {
            let options = QueuePurgeOptions::default();
            channel.queue_purge(short(queue)?, options).await?;
        }
        _ => {}
    }
    Ok(Found::Allowed)
}

async fn configure(channel: &Channel, attempt: &Attempt) -> lapin::Result<Found> {
    let none = FieldTable::default;
    match attempt {
        Attempt::DeclareQueue(queue) => {
            let options = QueueDeclareOptions {
                exclusive: true,
                auto_delete: true,
                ..QueueDeclareOptions::default()
            };
            let made = channel
                .queue_declare(short(queue)?, options, none())
                .await?;
            let own = made.name().clone();
            channel
                .queue_delete(own, QueueDeleteOptions::default())
                .await?;
        }
        Attempt::DeleteQueue(queue) => {
            let options = QueueDeleteOptions {
                if_unused: true,
                if_empty: true,
                ..QueueDeleteOptions::default()
            };
            channel.queue_delete(short(queue)?, options).await?;
        }
        Attempt::DeclareExchange(exchange) => {
            let options = ExchangeDeclareOptions {
                auto_delete: true,
                ..ExchangeDeclareOptions::default()
            };
            let kind = ExchangeKind::Fanout;
            channel
                .exchange_declare(short(exchange)?, kind, options, none())
                .await?;
            channel
                .exchange_delete(short(exchange)?, ExchangeDeleteOptions::default())
                .await?;
        }
        Attempt::DeleteExchange(exchange) => {
            let options = ExchangeDeleteOptions {
                if_unused: true,
                ..ExchangeDeleteOptions::default()
            };
            channel.exchange_delete(short(exchange)?, options).await?;
        }
        _ => {}
    }
    Ok(Found::Allowed)
}

async fn bind(channel: &Channel, attempt: &Attempt) -> lapin::Result<Found> {
    let none = FieldTable::default;
    match attempt {
        Attempt::Bind(bond) => {
            let (to, from, key) = ends(bond)?;
            let options = QueueBindOptions::default();
            channel
                .queue_bind(to.clone(), from.clone(), key.clone(), options, none())
                .await?;
            channel.queue_unbind(to, from, key, none()).await?;
        }
        Attempt::Unbind(bond) => {
            let (to, from, key) = ends(bond)?;
            channel.queue_unbind(to, from, key, none()).await?;
        }
        Attempt::BindExchange(bond) => {
            let (to, from, key) = ends(bond)?;
            let options = ExchangeBindOptions::default();
            channel
                .exchange_bind(to.clone(), from.clone(), key.clone(), options, none())
                .await?;
            let options = ExchangeUnbindOptions::default();
            channel
                .exchange_unbind(to, from, key, options, none())
                .await?;
        }
        _ => {}
    }
    Ok(Found::Allowed)
}

/// Publishes, and takes it back.
async fn publish(channel: &Channel, at: &At, properties: BasicProperties) -> lapin::Result<()> {
    let options = BasicPublishOptions::default();
    let (exchange, key) = (short(&at.exchange)?, short(&at.key)?);
    channel
        .basic_publish(exchange, key, options, b"", properties)
        .await?;
    // A channel that the broker ended between the two does not say why. Nor may both be under way at once: the client says
    // the second first as it likes.
    channel.tx_rollback().await
}

/// What it is that the broker ended an attempt.
fn judged(attempt: &Attempt, error: &lapin::Error) -> Found {
    let Some((code, words)) = said(error) else {
        return Found::Otherwise(one_line(&error.to_string()));
    };
    match (code, attempt) {
        (ACCESS_REFUSED, _) => Found::Refused,
        (NOT_FOUND, _) => Found::Missing,
        (PRECONDITION_FAILED, Attempt::Impersonate { .. }) if words.contains("user_id") => {
            Found::Refused
        }
        (PRECONDITION_FAILED, Attempt::Consume(_)) if words.contains(NO_CONSUMERS) => {
            Found::Allowed
        }
        (
            PRECONDITION_FAILED | RESOURCE_LOCKED,
            Attempt::DeclareQueue(_)
            | Attempt::DeclareExchange(_)
            | Attempt::DeleteQueue(_)
            | Attempt::DeleteExchange(_),
        ) => Found::Allowed,
        _ => Found::Otherwise(one_line(&format!("{code} {words}"))),
    }
}

fn ends(bond: &Bond) -> lapin::Result<(ShortString, ShortString, ShortString)> {
    Ok((short(&bond.to)?, short(&bond.from)?, short(&bond.key)?))
}

fn short(text: &str) -> lapin::Result<ShortString> {
    ShortString::try_new(text)
        .map_err(|_| std::io::Error::other("AMQP takes names of 255 bytes").into())
}

/// Which a broker reads as a number, and refuses as anything else.
const NO_CONSUMERS: &str = "x-priority";
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
/// How often an attempt is made of which nothing is heard.
const HEARD_AGAIN: u32 = 20;
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
