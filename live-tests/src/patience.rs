//! Waiting for what should happen, with a deadline.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep, timeout};

/// Waits no longer than anything here may take on a busy machine.
pub async fn soon<T>(what: &str, coming: impl Future<Output = T>) -> anyhow::Result<T> {
    within(Duration::from_secs(20), what, coming).await
}

/// Waits for what should come.
pub async fn within<T>(
    deadline: Duration,
    what: &str,
    coming: impl Future<Output = T>,
) -> anyhow::Result<T> {
    timeout(deadline, coming)
        .await
        .with_context(|| format!("not within {deadline:?}: {what}"))
}

/// Looks until it is so, and says after how long it was.
pub async fn eventually(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    while !look().await? {
        ensure!(
            began.elapsed() < deadline,
            "not within {deadline:?}: {what}"
        );
        sleep(LOOK_AGAIN).await;
    }
    Ok(began.elapsed())
}

/// Nothing comes for a while, long beside the milliseconds a server takes.
pub async fn quiet<T>(coming: impl Future<Output = T>) -> bool {
    timeout(QUIET, coming).await.is_err()
}

const LOOK_AGAIN: Duration = Duration::from_millis(20);
const QUIET: Duration = Duration::from_millis(700);
