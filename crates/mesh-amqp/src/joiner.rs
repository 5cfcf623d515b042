//! The side of a host that holds a token: it asks once, and hears the answer.

use std::sync::Arc;

use lapin::message::Delivery;
use lapin::options::BasicNackOptions;
use lapin::types::AMQPValue;
use mesh_bus::{BusError, JoinerBus};
use mesh_derive::subject;
use mesh_derive::topology::Queue;
use mesh_model::{Principal, Subject, TokenId};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::controller::ANSWERS_TO;
use crate::credential::Credential;
use crate::ear::{self, Heard, Told};
use crate::endpoint::Endpoint;
use crate::line::Dialling;
use crate::node::{acknowledge, lines};
use crate::publish::{Letter, Publisher};

/// A joiner, over AMQP.
#[derive(Debug)]
pub struct AmqpJoiner {
    publisher: Publisher,
    ask: Subject,
    address: Subject,
    /// Where a request is answered whose own address was none of the joiner's.
    common: Subject,
    answers: Mutex<mpsc::UnboundedReceiver<Heard>>,
    _task: JoinSet<()>,
}

impl AmqpJoiner {
    /// Connects with a token's own credential, and listens for the answer.
    pub async fn connect(
        endpoint: &Endpoint,
        credential: &Credential,
        token: &TokenId,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let who = Principal::Joiner(token.clone());
        let (consuming, publishing) = lines(endpoint, credential, &who, dialling).await?;
        let (hears, answers) = mpsc::unbounded_channel();
        let queue = ear::Queue {
            name: Queue::Answer(token.clone()).name(),
            prefetch: 1,
            settled: false,
            priority: None,
        };
        let mut task = JoinSet::new();
        let hear = move |heard| {
            // Whoever no longer wants to know is about to end this.
            let _unheard = hears.send(heard);
            None
        };
        task.spawn(ear::listen(
            consuming,
            queue,
            Arc::new(Told::default()),
            hear,
        ));
        Ok(Self {
            publisher: Publisher::new(publishing),
            ask: subject::enrol(token),
            address: subject::enrolment_answer_to(token, dialling.seed),
            common: subject::enrolment_answer(token),
            answers: Mutex::new(answers),
            _task: task,
        })
    }

    /// Whether an answer is to this host; another may hold the same token, and hears on the same queue.
    fn is_ours(&self, message: &Delivery) -> bool {
        let headers = message.properties.headers().as_ref();
        let to = headers.and_then(|headers| headers.inner().get(ANSWERS_TO));
        let Some(AMQPValue::LongString(to)) = to else {
            return false;
        };
        let to = to.as_bytes();
        to == self.address.as_str().as_bytes() || to == self.common.as_str().as_bytes()
    }
}

impl JoinerBus for AmqpJoiner {
    fn answer_address(&self) -> Subject {
        self.address.clone()
    }

    async fn ask(&self, body: Vec<u8>) -> Result<(), BusError> {
        let letter = Letter::to(&self.ask, &body)?;
        self.publisher.deliver(&letter, &body).await
    }

    async fn answer(&self) -> Result<Vec<u8>, BusError> {
        let mut answers = self.answers.lock().await;
        while let Some(heard) = answers.recv().await {
            match heard {
                Heard::Delivered(message) if self.is_ours(&message) => {
                    // One that is not acknowledged is delivered again, and says the same.
                    let _again = acknowledge(&message.acker).await;
                    return Ok(message.data);
                }
                // Once more round: whose it is may listen as well. But not for ever: who is gone asks no more.
                Heard::Delivered(message) if !message.redelivered => {
                    let back = BasicNackOptions {
                        requeue: true,
                        multiple: false,
                    };
                    let _gone = message.acker.nack(back).await;
                }
                Heard::Delivered(message) => {
                    let _gone = acknowledge(&message.acker).await;
                }
                Heard::Refused(error) => {
                    tracing::debug!(%error, "the answer cannot be heard now");
                }
                Heard::Listening | Heard::Ended(_) => {}
            }
        }
        Err(BusError::Away("the connection was closed".to_owned()))
    }
}
