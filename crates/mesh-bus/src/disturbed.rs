//! A disturbance, kept until the controller hears of it.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::seam::Disturbance;

/// What was disturbed since the controller last heard: the worst of it.
#[derive(Debug, Default)]
pub struct Disturbed {
    since: Mutex<Option<Disturbance>>,
    told: Notify,
}

impl Disturbed {
    /// Tells of a disturbance.
    pub fn tell(&self, what: Disturbance) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = (*since).max(Some(what));
        self.told.notify_one();
    }

    /// Waits for one. May be dropped.
    pub async fn heard(&self) -> Disturbance {
        loop {
            self.told.notified().await;
            let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(what) = since.take() {
                return what;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_worst_is_heard_once() {
        let disturbed = Disturbed::default();
        assert_eq!(disturbed.heard().now_or_never(), None);
        disturbed.tell(Disturbance::Declarations);
        disturbed.tell(Disturbance::Definitions);
        let heard = disturbed.heard().now_or_never();
        assert_eq!(heard, Some(Disturbance::Declarations));
        assert_eq!(disturbed.heard().now_or_never(), None);
        disturbed.tell(Disturbance::Definitions);
        let heard = disturbed.heard().now_or_never();
        assert_eq!(heard, Some(Disturbance::Definitions));
    }
}
