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
use crate::audit::{self, Caller};
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
        let mut sweeps = 0_u64;
        loop {
            let disturbed = tokio::select! {
                advisory = advisories.next() => match advisory {
                    Some(advisory) => self.touched(&advisory).await,
                    None => return Ok(()),
                },
                _ = sweep.tick() => {
                    sweeps = sweeps.wrapping_add(1);
                    self.sweep(sweeps.is_multiple_of(WIDE_EACH)).await
                }
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
        if advisory.subject.as_str() == CALLS {
            let is_own = |caller: &Caller| self.is_own(caller);
            let changed = audit::changed_by_another(&advisory.payload, is_own)?;
            let ours = self.memory.lock().await.is_own(&changed);
            return ours.then_some(Disturbance::Definitions);
        }
        let Advisory { client } = serde_json::from_slice(&advisory.payload).unwrap_or_default();
        if client.is_some_and(|by| self.is_own(&by)) {
            return None;
        }
        let told = advisory.subject.strip_prefix(ADVISORY)?;
        self.memory.lock().await.touched(told)
    }

    /// Whether it was this connection that did what an advisory tells of.
    fn is_own(&self, by: &Caller) -> bool {
        let Some(own) = self.connection.client().try_server_info() else {
            return false;
        };
        by.id == own.client_id && (by.server.is_empty() || by.server == own.server_name)
    }

    /// An assertion under way sees for itself, and a sweep that gets no answer is made up for at the next one.
    async fn sweep(&self, wide: bool) -> Option<Disturbance> {
        if *self.connection.link().borrow() == Link::Down {
            return None;
        }
        let mut memory = self.memory.try_lock().ok()?;
        let within = if wide { WIDE_WITHIN } else { SWEPT_WITHIN };
        let sweep = timeout(within, memory.disturbed(&self.api, wide)).await;
        sweep.ok()?.ok()?
    }
}

#[derive(Default, Deserialize)]
struct Advisory {
    client: Option<Caller>,
}

const ADVISORY: &str = "$JS.EVENT.ADVISORY.";
/// Each call of the API, with its answer: a server tells nobody otherwise of a consumer that was changed.
const CALLS: &str = "$JS.EVENT.ADVISORY.API";
const ADVISORIES: [&str; 4] = [
    "$JS.EVENT.ADVISORY.STREAM.DELETED.>",
    "$JS.EVENT.ADVISORY.STREAM.UPDATED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.>",
    CALLS,
];
const SWEEP_EACH: Duration = Duration::from_secs(3);
const SWEPT_WITHIN: Duration = Duration::from_secs(2);
/// Every so many sweeps a wide one: what stalls does so for minutes.
const WIDE_EACH: u64 = 10;
const WIDE_WITHIN: Duration = Duration::from_secs(10);
