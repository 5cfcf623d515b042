//! Something to be tried again later, that is not forgotten when an attempt is dropped half way.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// When to try again, if at all.
#[derive(Debug, Default)]
pub(crate) struct Retry(Option<Instant>);

impl Retry {
    /// Tries again after this long.
    pub(crate) fn after(&mut self, delay: Duration) {
        self.0 = Some(Instant::now() + delay);
    }

    /// Waits until it is due; for ever when there is nothing to try. May be dropped.
    pub(crate) fn due(&self) -> impl Future<Output = ()> + use<> {
        let at = self.0;
        async move {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Makes an attempt. Until it has succeeded it is still to be made; dropped or not, it stays due.
    pub(crate) async fn attempt<T, E>(
        &mut self,
        attempt: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let done = attempt.await?;
        self.0 = None;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn an_attempt_that_was_dropped_is_still_due() {
        let mut retry = Retry::default();
        assert_eq!(retry.due().now_or_never(), None);
        retry.after(Duration::ZERO);
        let dropped = retry.attempt(std::future::pending::<Result<(), ()>>());
        assert_eq!(dropped.now_or_never(), None);
        retry.due().await;
        assert_eq!(retry.attempt(async { Err::<(), _>("no") }).await, Err("no"));
        retry.due().await;
        assert_eq!(retry.attempt(async { Ok::<_, ()>(1) }).await, Ok(1));
        assert_eq!(retry.due().now_or_never(), None);
    }
}
