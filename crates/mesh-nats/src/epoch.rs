//! This controller's epoch: while it is the last that began, nobody else has taken over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::HeaderMap;
use mesh_bus::BusError;
use mesh_derive::subject;

use crate::api::Api;
use crate::connect::Connection;
use crate::publish::store;

/// The epoch of one controller.
#[derive(Debug)]
pub(crate) struct Epoch {
    connection: Connection,
    api: Arc<Api>,
    /// What its message says, and no other controller's does: its own is known also when the answer that told its
    /// sequence was lost.
    says: String,
    /// The sequence of its message, none before it began.
    sequence: AtomicU64,
}

/// How an epoch stands that nobody ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// This controller has not taken over.
    NotBegun,
    /// It is the last that began.
    Held,
    /// There is none: the stream of declarations is gone, or was made anew.
    Lost,
}

impl Epoch {
    pub(crate) fn new(connection: Connection, api: Arc<Api>) -> Self {
        Self {
            says: connection.client().new_inbox(),
            connection,
            api,
            sequence: AtomicU64::new(0),
        }
    }

    /// Its sequence, once it began.
    pub(crate) fn sequence(&self) -> Option<u64> {
        Some(self.sequence.load(Ordering::Acquire)).filter(|sequence| *sequence > 0)
    }

    /// Begins it, after whichever was the last.
    pub(crate) async fn begin(&self) -> Result<(), BusError> {
        let last = self.last().await?;
        self.begin_after(last.map_or(0, |(sequence, _)| sequence))
            .await
    }

    /// Looks how it stands; an error that is final when another began after it.
    pub(crate) async fn look(&self) -> Result<Standing, BusError> {
        if self.sequence().is_none() {
            return Ok(Standing::NotBegun);
        }
        match self.last().await? {
            None => Ok(Standing::Lost),
            Some((sequence, body)) if body == self.says.as_bytes() => {
                self.sequence.store(sequence, Ordering::Release);
                Ok(Standing::Held)
            }
            Some((sequence, _)) => Err(BusError::Fenced(format!("sequence {sequence}"))),
        }
    }

    /// Begins it once more if it is lost.
    pub(crate) async fn keep(&self) -> Result<Standing, BusError> {
        let standing = self.look().await?;
        if standing == Standing::Lost {
            self.begin_after(0).await?;
        }
        Ok(standing)
    }

    async fn last(&self) -> Result<Option<(u64, Vec<u8>)>, BusError> {
        let stream = subject::nodes_stream();
        self.api.last(&stream, subject::epoch().as_str()).await
    }

    /// On the condition that the last is the one that was seen: what arrives late must not end an epoch begun since.
    async fn begin_after(&self, last: u64) -> Result<(), BusError> {
        let subject = subject::epoch();
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED, last.to_string());
        let body = self.says.clone().into_bytes();
        let stored = store(&self.connection, subject.as_str(), headers, body).await;
        let sequence = stored.map_err(|error| match error {
            BusError::Fenced(why) => {
                BusError::Away(format!("another epoch is just beginning: {why}"))
            }
            other => other,
        })?;
        self.sequence.store(sequence, Ordering::Release);
        tracing::info!(sequence, "this controller's epoch began");
        Ok(())
    }
}

/// What a message says that is to be stored only while this epoch is the last.
pub(crate) fn while_last(epoch: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(EXPECTED, epoch.to_string());
    headers.insert(EXPECTED_ON, subject::epoch().as_str());
    headers
}

const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const EXPECTED_ON: &str = "Nats-Expected-Last-Subject-Sequence-Subject";
