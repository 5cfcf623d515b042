//! How long until it is tried again.

use std::time::Duration;

/// Doubles from a tenth of a second to eight, and draws from the upper half of that.
pub(super) fn reconnect_delay(attempt: usize, seed: u64) -> Duration {
    let exponent = u32::try_from(attempt.saturating_sub(1))
        .unwrap_or(u32::MAX)
        .min(7);
    let whole = (100_u64 << exponent).min(CEILING_MILLIS);
    let half = whole / 2;
    Duration::from_millis(half + scramble(seed ^ attempt as u64) % (half + 1))
}

/// The finaliser of `SplitMix64`: neighbouring seeds give unrelated numbers.
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const CEILING_MILLIS: u64 = 8_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_ceiling_and_differ_between_hosts() {
        for attempt in 1..40 {
            let delay = reconnect_delay(attempt, 7);
            assert!(delay >= Duration::from_millis(50), "{attempt}: {delay:?}");
            assert!(delay <= Duration::from_secs(8), "{attempt}: {delay:?}");
        }
        assert!(reconnect_delay(30, 1) >= Duration::from_secs(4));
        let hosts: std::collections::BTreeSet<_> =
            (0..100).map(|seed| reconnect_delay(5, seed)).collect();
        assert!(hosts.len() > 80, "{}", hosts.len());
    }
}
