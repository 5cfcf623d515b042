//! The side of a host that holds a token: it asks once, and hears the answer.

use async_nats::{HeaderMap, Subscriber};
use futures_util::StreamExt;
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
    answers: Mutex<Subscriber>,
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
        let answers = connection.subscribe(address.as_str(), None).await?;
        Ok(Self {
            connection,
            ask: subject::enrol(token),
            address,
            answers: Mutex::new(answers),
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
            if plain && message.subject.as_str() == self.address.as_str() {
                return Ok(message.payload.to_vec());
            }
        }
        Err(BusError::Away("the connection was closed".to_owned()))
    }
}
