//! Taking what waits for the controller: both queues by turns.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mesh_bus::{BusError, Delivery, Disturbance, Disturbed, Link, Queue};
use mesh_model::{BusFacts, ConsumerRef};
use tokio::time::{Instant, sleep_until, timeout};

use crate::connect::Connection;
use crate::pull::{Puller, Receipt};

/// The highest sequence taken of each queue.
#[derive(Debug, Default)]
pub(crate) struct LastTaken {
    pub(crate) control: AtomicU64,
    pub(crate) events: AtomicU64,
}

/// Both queues.
#[derive(Debug)]
pub(crate) struct Taking {
    control: Puller,
    events: Puller,
    /// When to look again who took over last.
    pub(crate) look_at: Instant,
}

impl Taking {
    /// Through these two consumers.
    pub(crate) fn new(control: ConsumerRef, events: ConsumerRef) -> Self {
        Self {
            control: Puller::new(Queue::Control, control),
            events: Puller::new(Queue::Events, events),
            look_at: Instant::now(),
        }
    }

    /// Takes what is here already, one of each by turns: a flood of one must not keep the other out.
    fn drain(&mut self, taken: &mut Vec<Delivery<Receipt>>, max: usize) {
        while taken.len() < max {
            let before = taken.len();
            taken.extend(self.control.ready());
            if taken.len() < max {
                taken.extend(self.events.ready());
            }
            if taken.len() == before {
                return;
            }
        }
    }

    /// Waits for messages, of events too if it `follows` any, and takes at most `max`; comes back empty-handed after
    /// [`TAKE_WAIT`]. A request that is turned down is a disturbance: the consumer is gone, or is another.
    pub(crate) async fn take(
        &mut self,
        connection: &Connection,
        bus: &BusFacts,
        follows: bool,
        disturbed: &Disturbed,
        max: usize,
    ) -> Result<Vec<Delivery<Receipt>>, BusError> {
        let until = Instant::now() + TAKE_WAIT;
        let mut link = connection.link();
        let up = timeout(TAKE_WAIT, link.wait_for(|link| *link == Link::Up))
            .await
            .is_ok();
        if !up {
            connection.require_up()?;
        }
        let mut taken = Vec::new();
        // What came while nobody took, heartbeats too: a request that looks silent may only not have been listened to.
        self.drain(&mut taken, max);
        while taken.is_empty() && Instant::now() < until {
            self.control.ask(connection, bus, max).await?;
            if follows {
                self.events.ask(connection, bus, max).await?;
            }
            // A request that was turned down, or has fallen silent, is looked at again meanwhile.
            let look = until.min(Instant::now() + LOOK_AGAIN);
            tokio::select! {
                delivery = self.control.next() => taken.extend(delivery),
                delivery = self.events.next() => taken.extend(delivery),
                () = sleep_until(look) => {}
            }
        }
        self.drain(&mut taken, max);
        let untold =
            self.control.turned_down_since() || (follows && self.events.turned_down_since());
        if untold {
            disturbed.tell(Disturbance::Definitions);
        }
        match &self.control.turned_down {
            Some(why) if taken.is_empty() => Err(BusError::Away(why.clone())),
            _ => Ok(taken),
        }
    }
}

/// After this long a `take` comes back empty-handed.
pub(crate) const TAKE_WAIT: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
