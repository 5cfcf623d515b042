//! Noticing that somebody else changed what was asserted, and whether the broker can be reached: a look at all of it from
//! time to time, since a broker tells nobody of either.

use std::sync::Arc;
use std::time::Duration;

use mesh_bus::{Disturbance, Disturbed, Link};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::asserting::{Found, Memory};
use crate::line::Line;
use crate::management::Management;

/// What the watch looks at, and whom it tells.
#[derive(Debug)]
pub(crate) struct Watch {
    management: Arc<Management>,
    vhost: String,
    line: Arc<Line>,
    memory: Arc<Mutex<Memory>>,
    disturbed: Arc<Disturbed>,
    link: watch::Sender<Link>,
}

impl Watch {
    pub(crate) fn new(
        management: Arc<Management>,
        vhost: String,
        line: Arc<Line>,
        memory: Arc<Mutex<Memory>>,
        disturbed: Arc<Disturbed>,
        up: Link,
    ) -> (Self, watch::Receiver<Link>) {
        let (link, hears) = watch::channel(up);
        let watch = Self {
            management,
            vhost,
            line,
            memory,
            disturbed,
            link,
        };
        (watch, hears)
    }

    /// Watches until dropped.
    pub(crate) async fn run(self) {
        let mut line = self.line.link();
        let mut was_down = false;
        let mut pause = SWEEP_EACH;
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                // Lost or found: either way more is known after a look.
                Ok(()) = line.changed() => {}
            }
            let up = *line.borrow_and_update() == Link::Up;
            let began = Instant::now();
            let reached = self.sweep().await;
            // A broker that takes long to list what it has is asked less often.
            pause = SWEEP_EACH.max(began.elapsed() * SHARE);
            let link = if up || reached { Link::Up } else { Link::Down };
            if link == Link::Down {
                was_down = true;
            } else if was_down {
                was_down = false;
                // Nobody told this controller what was done while the broker was away.
                self.disturbed.tell(Disturbance::Declarations);
            }
            self.link
                .send_if_modified(|now| std::mem::replace(now, link) != link);
        }
    }

    /// Whether the broker was reached. An assertion under way sees for itself.
    async fn sweep(&self) -> bool {
        let Ok(memory) = self.memory.try_lock() else {
            return true;
        };
        let found = timeout(SWEPT_WITHIN, Found::read(&self.management, &self.vhost)).await;
        match found {
            Ok(Ok(found)) => {
                if let Some(what) = memory.disturbed(&found.document) {
                    self.disturbed.tell(what);
                }
                true
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a look at the broker failed");
                !error.is_passing()
            }
            Err(_) => false,
        }
    }
}

const SWEEP_EACH: Duration = Duration::from_secs(3);
const SWEPT_WITHIN: Duration = Duration::from_secs(30);
/// At most one part in so many of the time is spent looking.
const SHARE: u32 = 20;
