//! The one place where a task reads the clock.
#![expect(clippy::disallowed_methods, reason = "time enters here")]

use std::time::{Duration, Instant};

/// A point in time to measure from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// What has passed since the start.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits before something is looked at again.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
