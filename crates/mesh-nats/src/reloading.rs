//! A server that reads its users again refuses whoever is in the middle of connecting.

use std::time::Duration;

use mesh_bus::BusError;
use tokio::time::sleep;

/// Connects, and believes a refusal only when it is repeated: whom a reload turned away, the server knows before and after.
pub(crate) async fn unless_reloading<T, F: Future<Output = Result<T, BusError>>>(
    mut connect: impl FnMut() -> F,
) -> Result<T, BusError> {
    for _ in 1..REFUSALS {
        match connect().await {
            Err(BusError::Refused { .. }) => sleep(RELOADED_WITHIN).await,
            other => return other,
        }
    }
    connect().await
}

/// How many refusals in a row are one.
const REFUSALS: u32 = 4;
/// How long a server may take to read its users again.
const RELOADED_WITHIN: Duration = Duration::from_millis(700);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn refusal() -> BusError {
        BusError::Refused {
            what: "the connection".to_owned(),
            why: "authorization violation".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_believed_when_it_is_repeated() {
        for (refused, connected) in [(0, true), (1, true), (3, true), (4, false)] {
            let attempts = Cell::new(0);
            let result = unless_reloading(async || {
                attempts.set(attempts.get() + 1);
                let turned_away = attempts.get() <= refused;
                turned_away.then(refusal).map_or(Ok(()), Err)
            })
            .await;
            assert_eq!(result.is_ok(), connected, "{refused}");
        }
    }
}
