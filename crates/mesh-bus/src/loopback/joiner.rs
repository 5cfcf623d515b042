//! The loopback's side of a host that holds a token.

use std::sync::Arc;

use mesh_derive::subject;
use mesh_model::{Principal, Subject, TokenId};
use tokio::sync::{Mutex, broadcast};

use super::queue::Stored;
use super::state::Shared;
use crate::seam::{BusError, JoinerBus};

/// A joiner, over the loopback.
#[derive(Debug)]
pub struct LoopbackJoiner {
    shared: Arc<Shared>,
    token: TokenId,
    principal: Principal,
    said: Mutex<broadcast::Receiver<(Subject, Vec<u8>)>>,
}

impl LoopbackJoiner {
    pub(super) fn new(shared: Arc<Shared>, token: TokenId) -> Self {
        Self {
            said: Mutex::new(shared.said.subscribe()),
            principal: Principal::Joiner(token.clone()),
            shared,
            token,
        }
    }
}

impl JoinerBus for LoopbackJoiner {
    fn answer_address(&self) -> Subject {
        subject::enrolment_answer(&self.token)
    }

    async fn ask(&self, body: Vec<u8>) -> Result<(), BusError> {
        let message = Stored {
            subject: subject::enrol(&self.token),
            body,
            id: None,
            why: None,
        };
        self.shared.publish(&self.principal, message).map(drop)
    }

    async fn answer(&self) -> Result<Vec<u8>, BusError> {
        let address = self.answer_address();
        if !self
            .shared
            .state()
            .may_hear(&self.principal, &address, None)
        {
            return Err(BusError::Refused {
                what: address.to_string(),
                why: "no grant allows it".to_owned(),
            });
        }
        let mut said = self.said.lock().await;
        loop {
            match said.recv().await {
                Ok((subject, body)) if subject == address => return Ok(body),
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => {
                    return Err(BusError::Away("the loopback is gone".to_owned()));
                }
            }
        }
    }
}
