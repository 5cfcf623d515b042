//! Noticing that somebody else changed what was asserted: the server's advisories, and a sweep for what they missed.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use futures_util::StreamExt;
use futures_util::stream::select_all;
use mesh_bus::{BusError, Link};
use serde::Deserialize;
use tokio::sync::{Mutex, Notify};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::api::Api;
use crate::asserting::Memory;
use crate::connect::Connection;

/// What the watch looks at, and whom it tells.
pub(crate) struct Watch {
    pub(crate) connection: Connection,
    pub(crate) api: Arc<Api>,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) disturbed: Arc<Notify>,
}

impl Watch {
    /// Watches until dropped.
    pub(crate) async fn run(self) -> Result<(), BusError> {
        let mut advisories = Vec::new();
        for subject in ADVISORIES {
            advisories.push(self.connection.subscribe(subject, None).await?);
        }
        let mut advisories = select_all(advisories);
        let mut connects = self.connection.connects();
        connects.mark_unchanged();
        let mut sweep = interval(SWEEP_EACH);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let disturbed = tokio::select! {
                advisory = advisories.next() => match advisory {
                    Some(advisory) => !self.is_own(&advisory),
                    None => return Ok(()),
                },
                _ = sweep.tick() => self.sweep().await,
                changed = connects.changed() => match changed {
                    Ok(()) => true,
                    Err(_) => return Ok(()),
                },
            };
            if disturbed {
                self.disturbed.notify_one();
            }
        }
    }

    /// Whether it was this connection that did what the advisory tells of.
    fn is_own(&self, advisory: &Message) -> bool {
        let Ok(Advisory { client: Some(by) }) = serde_json::from_slice(&advisory.payload) else {
            return false;
        };
        let Some(own) = self.connection.client().try_server_info() else {
            return false;
        };
        by.id == own.client_id && (by.server.is_empty() || by.server == own.server_name)
    }

    /// An assertion under way sees for itself, and a sweep that gets no answer is made up for at the next one.
    async fn sweep(&self) -> bool {
        if *self.connection.link().borrow() == Link::Down {
            return false;
        }
        let Ok(mut memory) = self.memory.try_lock() else {
            return false;
        };
        let sweep = timeout(SWEPT_WITHIN, memory.is_disturbed(&self.api)).await;
        matches!(sweep, Ok(Ok(true)))
    }
}

#[derive(Deserialize)]
struct Advisory {
    client: Option<Doer>,
}

#[derive(Deserialize)]
struct Doer {
    #[serde(default)]
    id: u64,
    #[serde(default)]
    server: String,
}

/// There is none for a consumer that was changed.
const ADVISORIES: [&str; 3] = [
    "$JS.EVENT.ADVISORY.STREAM.DELETED.>",
    "$JS.EVENT.ADVISORY.STREAM.UPDATED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.>",
];
const SWEEP_EACH: Duration = Duration::from_secs(3);
const SWEPT_WITHIN: Duration = Duration::from_secs(2);
