//! Noticing that somebody else changed what was asserted: the server's advisories, and a sweep for what they missed.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use futures_util::StreamExt;
use futures_util::stream::select_all;
use mesh_bus::{BusError, Disturbance, Disturbed, Link};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::api::Api;
use crate::connect::Connection;
use crate::memory::Memory;

/// What the watch looks at, and whom it tells.
pub(crate) struct Watch {
    pub(crate) connection: Connection,
    pub(crate) api: Arc<Api>,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) disturbed: Arc<Disturbed>,
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
                    Some(advisory) => self.touched(&advisory).await,
                    None => return Ok(()),
                },
                _ = sweep.tick() => self.sweep().await,
                changed = connects.changed() => match changed {
                    // Nobody told this connection what was done while it was away.
                    Ok(()) => Some(Disturbance::Declarations),
                    Err(_) => return Ok(()),
                },
            };
            if let Some(what) = disturbed {
                self.disturbed.tell(what);
            }
        }
    }

    /// What of the mesh's own somebody else touched, by this advisory. It waits for an assertion under way: what that
    /// makes is then known for the mesh's own.
    async fn touched(&self, advisory: &Message) -> Option<Disturbance> {
        if self.is_own(advisory) {
            return None;
        }
        let told = advisory.subject.strip_prefix(ADVISORY)?;
        self.memory.lock().await.touched(told)
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
    async fn sweep(&self) -> Option<Disturbance> {
        if *self.connection.link().borrow() == Link::Down {
            return None;
        }
        let mut memory = self.memory.try_lock().ok()?;
        let sweep = timeout(SWEPT_WITHIN, memory.disturbed(&self.api)).await;
        sweep.ok()?.ok()?
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

const ADVISORY: &str = "$JS.EVENT.ADVISORY.";
/// There is none for a consumer that was changed.
const ADVISORIES: [&str; 3] = [
    "$JS.EVENT.ADVISORY.STREAM.DELETED.>",
    "$JS.EVENT.ADVISORY.STREAM.UPDATED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.>",
];
const SWEEP_EACH: Duration = Duration::from_secs(3);
const SWEPT_WITHIN: Duration = Duration::from_secs(2);
