//! A user's connection, and whether the broker lets it do a thing. Each attempt has a channel: a refusal ends one.

use std::time::Duration;

use anyhow::{Context, bail};
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ErrorKind, ExchangeKind};
use live_tests::within;
use mesh_derive::topology::user_name;
use mesh_model::Principal;
use mesh_testkit::rabbitmq::Management;

use crate::site::{Site, VHOST, password};

/// A connection of one user's.
pub(crate) struct Login {
    connection: Connection,
    user: String,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The broker did it.
    Done,
    /// It refused, with this code: 403 for what a user may not, 406 for what nobody may.
    Refused(u16),
}

/// The management, logged into with the password of one of the mesh's users.
pub(crate) fn management(site: &Site, principal: &Principal) -> Management {
    let at = site.management().at();
    Management::new(at, &user_name(principal), &password(principal))
}

impl Login {
    /// Logs in with a user's own password.
    pub(crate) async fn of(site: &Site, principal: &Principal) -> anyhow::Result<Self> {
        Self::by(site, principal, &password(principal)).await
    }

    /// Logs in with a password that is right.
    pub(crate) async fn by(
        site: &Site,
        principal: &Principal,
        password: &str,
    ) -> anyhow::Result<Self> {
        let connection = Self::with(site, principal, password).await?;
        let user = user_name(principal);
        connection
            .map(|connection| Self { connection, user })
            .context("refused to log in")
    }

    /// Logs in with some password; nothing if the broker refuses it.
    pub(crate) async fn with(
        site: &Site,
        principal: &Principal,
        password: &str,
    ) -> anyhow::Result<Option<Connection>> {
        let password = password
            .replace(' ', "%20")
            .replace('/', "%2F")
            .replace('@', "%40");
        let at = site.broker.amqp();
        let url = format!("amqp://{}:{password}@{at}/{VHOST}", user_name(principal));
        let connecting = Connection::connect(&url, ConnectionProperties::default());
        match within(PATIENCE, "to be connected", connecting).await? {
            Ok(connection) => Ok(Some(connection)),
            Err(error) => match code(&error) {
                Some(403) => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    /// Publishes a message of its own.
    pub(crate) async fn publish(&self, exchange: &str, key: &str) -> anyhow::Result<Outcome> {
        let own = BasicProperties::default().with_user_id(self.user.as_str().into());
        self.publish_with(exchange, key, own).await
    }

    /// The same, with a header that has it routed by another key as well.
    pub(crate) async fn copied(
        &self,
        exchange: &str,
        key: &str,
        to: &str,
    ) -> anyhow::Result<Outcome> {
        let mut headers = FieldTable::default();
        let to = AMQPValue::LongString(to.into());
        headers.insert("CC".into(), AMQPValue::FieldArray(vec![to].into()));
        self.publish_with(
            exchange,
            key,
            BasicProperties::default().with_headers(headers),
        )
        .await
    }

    /// The same, with whatever properties.
    pub(crate) async fn publish_with(
        &self,
        exchange: &str,
        key: &str,
        properties: BasicProperties,
    ) -> anyhow::Result<Outcome> {
        self.attempt(async |channel| {
            channel
                .confirm_select(ConfirmSelectOptions::default())
                .await?;
            let options = BasicPublishOptions::default();
            let publishing = channel.basic_publish(
                exchange.into(),
                key.into(),
                options,
                b"x",
                properties.clone(),
            );
            publishing.await?.await.map(drop)
        })
        .await
    }

    /// Takes a message of a queue and puts it back, if there is one.
    pub(crate) async fn read(&self, queue: &str) -> anyhow::Result<Outcome> {
        self.attempt(async |channel| {
            channel
                .basic_get(queue.into(), BasicGetOptions::default())
                .await
                .map(drop)
        })
        .await
    }

    /// Takes the next message of a queue for good: the key it came by and what it says.
    pub(crate) async fn take(&self, queue: &str) -> anyhow::Result<Option<String>> {
        let channel = self.connection.create_channel().await?;
        let options = BasicGetOptions { no_ack: true };
        let message = channel.basic_get(queue.into(), options).await?;
        channel.close(200, "done".into()).await?;
        Ok(message.map(|it| it.delivery.routing_key.to_string()))
    }

    /// Empties a queue.
    pub(crate) async fn purge(&self, queue: &str) -> anyhow::Result<Outcome> {
        self.attempt(async |channel| {
            channel
                .queue_purge(queue.into(), QueuePurgeOptions::default())
                .await
                .map(drop)
        })
        .await
    }

    /// What takes the right to configure: each, and what came of it.
    pub(crate) async fn configure(
        &self,
        queue: &str,
    ) -> anyhow::Result<Vec<(&'static str, Outcome)>> {
        let table = FieldTable::default;
        let mut outcomes = Vec::new();
        let declared = self.attempt(async |channel| {
            let options = QueueDeclareOptions::default();
            channel
                .queue_declare("mine".into(), options, table())
                .await
                .map(drop)
        });
        outcomes.push(("declare a queue", declared.await?));
        let anonymous = self.attempt(async |channel| {
            let options = QueueDeclareOptions::default();
            channel
                .queue_declare("".into(), options, table())
                .await
                .map(drop)
        });
        outcomes.push(("declare a queue the broker names", anonymous.await?));
        let exchange = self.attempt(async |channel| {
            let options = ExchangeDeclareOptions::default();
            channel
                .exchange_declare("mine".into(), ExchangeKind::Topic, options, table())
                .await
        });
        outcomes.push(("declare an exchange", exchange.await?));
        let bound = self.attempt(async |channel| {
            let options = QueueBindOptions::default();
            channel
                .queue_bind(queue.into(), "mesh.ev".into(), "#".into(), options, table())
                .await
        });
        outcomes.push(("bind a queue", bound.await?));
        let deleted = self.attempt(async |channel| {
            channel
                .queue_delete(queue.into(), QueueDeleteOptions::default())
                .await
                .map(drop)
        });
        outcomes.push(("delete a queue", deleted.await?));
        Ok(outcomes)
    }

    async fn attempt(
        &self,
        what: impl AsyncFnOnce(&Channel) -> lapin::Result<()>,
    ) -> anyhow::Result<Outcome> {
        let channel = self.connection.create_channel().await?;
        let outcome = within(PATIENCE, "an answer", what(&channel)).await?;
        match outcome {
            Ok(()) => {
                channel.close(200, "done".into()).await?;
                Ok(Outcome::Done)
            }
            Err(error) => match code(&error) {
                Some(code) => Ok(Outcome::Refused(code)),
                None => bail!("{}: {error}", self.user),
            },
        }
    }
}

/// The code a broker refused with.
fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
