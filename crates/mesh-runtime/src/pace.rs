//! How long to wait: before a start, for an end, until a process counts as healthy.

use std::time::Duration;

use mesh_control::convergence::Rollout;
use mesh_model::ModuleName;

/// The runtime's waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Wait after the first end in a row; doubles with each.
    pub first: Duration,
    /// The longest wait between two starts.
    pub longest: Duration,
    /// A process that ran this long begins a new row.
    pub healthy: Duration,
    /// A process that nobody asks for its health is good once it ran this long.
    pub settle: Duration,
    /// Between SIGTERM and SIGKILL, and how long SIGKILL is given to work.
    pub grace: Duration,
}

impl Default for Pace {
    /// One second doubling to a minute, reset by a healthy minute; three seconds to be good, ten to end in.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_mins(1),
            healthy: Duration::from_mins(1),
            settle: Rollout::SETTLE,
            grace: Duration::from_secs(10),
        }
    }
}

impl Pace {
    /// The ends in a row, with one more after the process `lived` that long.
    pub(crate) fn ends(&self, before: u32, lived: Duration) -> u32 {
        if lived >= self.healthy {
            1
        } else {
            before.saturating_add(1)
        }
    }

    /// The wait before the next start after `ends` ends in a row: at most doubled `ends - 1` times, and of that between
    /// half and all, by `seed` and module, so that a rack that lost power does not come back in step.
    pub(crate) fn wait(&self, ends: u32, seed: u64, module: &ModuleName) -> Duration {
        let doubled = 2_u32
            .checked_pow(ends.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor))
            .map_or(self.longest, |wait| wait.min(self.longest));
        let half = doubled / 2;
        let share = u32::from(chance(seed, module, ends));
        half + half * share / u32::from(u16::MAX)
    }
}

/// Sixteen bits that look random and are the same for the same arguments: FNV-1a over all of them, then mixed
/// (splitmix64's finalizer), since FNV leaves the upper bits of short inputs alike.
fn chance(seed: u64, module: &ModuleName, ends: u32) -> u16 {
    let hash = seed
        .to_le_bytes()
        .into_iter()
        .chain(module.as_str().bytes())
        .chain(ends.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let [high, low, ..] = mixed.to_be_bytes();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_wait_lies_between_half_and_all_of_the_doubled_one(ends in 1_u32.., seed: u64) {
            let pace = Pace::default();
            let module = ModuleName::new("mailer").unwrap();
            let whole = Duration::from_secs(if ends > 6 { 60 } else { 1 << (ends - 1) });
            let wait = pace.wait(ends, seed, &module);
            prop_assert!(whole / 2 <= wait && wait <= whole, "{wait:?} of {whole:?}");
        }
    }

    #[test]
    fn a_healthy_life_begins_a_new_row() {
        let pace = Pace::default();
        for (before, lived, ends) in [(0, 0, 1), (4, 59, 5), (4, 60, 1), (u32::MAX, 0, u32::MAX)] {
            assert_eq!(pace.ends(before, Duration::from_secs(lived)), ends);
        }
    }

    #[test]
    fn modules_that_end_together_do_not_start_together() {
        let pace = Pace::default();
        let waits: std::collections::BTreeSet<_> = (0..50)
            .map(|n| pace.wait(7, 1, &ModuleName::new(format!("m-{n}")).unwrap()))
            .collect();
        assert!(waits.len() > 45, "{waits:?}");
    }
}
