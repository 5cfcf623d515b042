//! Log lines that are withheld while there are too many of them, and counted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When a kind of event was last logged, and how many were not since: a server may refuse each of a thousand messages,
/// and a client may drop as many.
#[derive(Debug, Default)]
pub(crate) struct Warned(Mutex<(Option<Instant>, u64)>);

impl Warned {
    /// Whether to log this one: then, how many were not since the last.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, withheld) = &mut *warned;
        if last.is_some_and(|last| now.duration_since(last) < WARN_EACH) {
            *withheld += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(withheld))
    }
}

/// How long one line stands for all like it.
pub(crate) const WARN_EACH: Duration = Duration::from_secs(10);
