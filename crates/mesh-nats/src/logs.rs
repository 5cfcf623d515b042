//! What nodes say of logs, as the controller hears it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt;
use mesh_bus::{BusError, Finding};
use mesh_derive::subject;
use mesh_model::Subject;
use tokio::sync::{Mutex, Notify, broadcast};
use tokio::time::sleep;

use crate::connect::Connection;
use crate::denial::Denial;

/// A subscription that a server of somebody else's may refuse until its accounts are brought up to date. It is made anew
/// when somebody wants a log, and not before: each refusal is a line in the server's log.
#[derive(Debug)]
pub(crate) struct Logs {
    heard: Mutex<Heard>,
    refused: AtomicBool,
    again: Notify,
}

#[derive(Debug)]
struct Heard {
    said: Subscriber,
    denials: broadcast::Receiver<Denial>,
}

impl Logs {
    pub(crate) async fn new(connection: &Connection) -> Result<Self, BusError> {
        let denials = connection.denials();
        let said = connection.subscribe(subject::logs().as_str(), None).await?;
        Ok(Self {
            heard: Mutex::new(Heard { said, denials }),
            refused: AtomicBool::new(false),
            again: Notify::new(),
        })
    }

    /// Somebody is about to be asked.
    pub(crate) fn are_wanted(&self) {
        if self.refused.load(Ordering::Relaxed) {
            self.again.notify_one();
        }
    }

    /// That logs are not heard, where the server said so.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let refused = self.refused.load(Ordering::Relaxed);
        refused.then(|| Finding {
            warning: true,
            text: format!(
                "the server does not let the controller hear {}: `meshctl logs` shows nothing. Its accounts are those of an \
                 earlier release; render them anew with `meshctl render nats-conf`, and have the server read them again",
                subject::logs()
            ),
        })
    }

    /// Waits for what is said next. May be dropped.
    pub(crate) async fn next(&self, connection: &Connection) -> (Subject, Vec<u8>) {
        let on = subject::logs();
        let mut heard = self.heard.lock().await;
        loop {
            let Heard { said, denials } = &mut *heard;
            tokio::select! {
                biased;
                denial = denials.recv() => match denial {
                    Ok(denial) if denial.is_of_subscription(on.as_str()) => {
                        self.refused.store(true, Ordering::Relaxed);
                        tracing::warn!(why = denial.text, "the server does not let the controller hear logs; its accounts are those of an earlier release");
                    }
                    Ok(_) => {}
                    // Which they were nobody knows.
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        self.refused.store(true, Ordering::Relaxed);
                    }
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                },
                () = self.again.notified() => self.subscribe(connection, said).await,
                message = said.next() => {
                    let Some(message) = message else {
                        sleep(AGAIN).await;
                        self.subscribe(connection, said).await;
                        continue;
                    };
                    if let Ok(subject) = Subject::new(message.subject.as_str()) {
                        return (subject, message.payload.to_vec());
                    }
                }
            }
        }
    }

    /// Subscribes anew. Dropped half way, it is still to be done when the next is asked.
    async fn subscribe(&self, connection: &Connection, said: &mut Subscriber) {
        self.refused.store(true, Ordering::Relaxed);
        match connection.subscribe(subject::logs().as_str(), None).await {
            Ok(anew) => {
                self.refused.store(false, Ordering::Relaxed);
                *said = anew;
            }
            Err(error) => tracing::debug!(%error, "logs cannot be heard now"),
        }
    }
}

/// Until a subscription that ended is made anew.
const AGAIN: Duration = Duration::from_secs(1);
