//! The side of a host that holds a token: it asks once, and hears the answer.

use async_nats::{HeaderMap, Subscriber};
use futures_util::StreamExt;
use futures_util::stream::{Select, select};
use mesh_bus::{BusError, JoinerBus};
use mesh_derive::subject;
use mesh_model::{Principal, Subject, TokenId};
use tokio::sync::Mutex;

use crate::connect::{Connection, Credential, Dialling, Endpoint};
use crate::publish::store;

/// A joiner, over JetStream.
#[derive(Debug)]
pub struct NatsJoiner {
    connection: Connection,
    ask: Subject,
    address: Subject,
    /// Where a request is answered whose own address was none of the joiner's.
    common: Subject,
    answers: Mutex<Select<Subscriber, Subscriber>>,
}

impl NatsJoiner {
    /// Connects with a token's own credential, and listens for the answer.
    pub async fn connect(
        endpoint: &Endpoint,
        credential: &Credential,
        token: &TokenId,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let principal = Principal::Joiner(token.clone());
        let connection = Connection::open(endpoint, credential, &principal, dialling).await?;
        let address = subject::enrolment_answer_to(token, dialling.seed);
        let common = subject::enrolment_answer(token);
        let own = connection.subscribe(address.as_str(), None).await?;
        let others = connection.subscribe(common.as_str(), None).await?;
        Ok(Self {
            connection,
            ask: subject::enrol(token),
            address,
            common,
            answers: Mutex::new(select(own, others)),
        })
    }
}

impl JoinerBus for NatsJoiner {
    fn answer_address(&self) -> Subject {
        self.address.clone()
    }

    async fn ask(&self, body: Vec<u8>) -> Result<(), BusError> {
        let subject = self.ask.as_str();
        store(&self.connection, subject, HeaderMap::new(), body)
            .await
            .map(drop)
    }

    async fn answer(&self) -> Result<Vec<u8>, BusError> {
        let mut answers = self.answers.lock().await;
        while let Some(message) = answers.next().await {
            // The controller publishes here and asks for no reply; whatever else arrives is a server's answer to
            // somebody who named this address as his.
            let plain = message.status.is_none() && message.reply.is_none();
            let to = message.subject.as_str();
            if plain && [self.address.as_str(), self.common.as_str()].contains(&to) {
                return Ok(message.payload.to_vec());
            }
        }
        Err(BusError::Away("the connection was closed".to_owned()))
    }
}
