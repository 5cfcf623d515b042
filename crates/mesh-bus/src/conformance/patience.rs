//! What must be so, now or before a deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Broken;

pub(super) fn name<T>(text: &str) -> Result<T, Broken>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| Broken(format!("{error}")))
}

pub(super) fn broken<T>(what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(what.into()))
}

/// This world cannot arrange what the claim is about: that is no proof of it.
pub(super) fn not_looked_at() -> Result<(), Broken> {
    broken("not looked at: this world cannot arrange what the claim is about")
}

/// What must be so, now.
pub(super) fn ensure(so: bool, what: impl Into<String>) -> Result<(), Broken> {
    if so { Ok(()) } else { broken(what) }
}

/// Looks until it is so.
pub(super) async fn eventually(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<bool, Broken>,
) -> Result<(), Broken> {
    let until = Instant::now() + DEADLINE;
    while !look().await? {
        if Instant::now() >= until {
            return broken(format!("not within {} s: {what}", DEADLINE.as_secs()));
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Waits for what should come.
pub(super) async fn come<T>(what: &str, coming: impl Future<Output = T>) -> Result<T, Broken> {
    let come = within(DEADLINE, coming).await;
    come.ok_or_else(|| Broken(format!("not within {} s: {what}", DEADLINE.as_secs())))
}

pub(super) async fn within<T>(deadline: Duration, coming: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(deadline, coming).await.ok()
}

/// Far beyond what any bus may take, and beyond every ack wait that a claim waits for.
pub(super) const DEADLINE: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
