//! Message ids: unique, and in the order they were made.

use std::sync::{Mutex, PoisonError};

use mesh_model::InstanceRef;

/// Makes the ids of one run of an instance: `<module>/<node>/<ULID>`.
#[derive(Debug)]
pub(crate) struct Ids {
    prefix: String,
    /// 56 bits that tell this run from every other.
    run: u64,
    /// The stamp of the last id: 48 bits of milliseconds, 24 of a count within each.
    last: Mutex<u128>,
}

impl Ids {
    /// `chance` is a number no other run has.
    pub(crate) fn new(instance: &InstanceRef, chance: u64) -> Self {
        Self {
            prefix: format!("{}/{}", instance.module, instance.node),
            run: chance >> (64 - RUN_BITS),
            last: Mutex::new(0),
        }
    }

    /// An id later than every one before, also when the clock was set back.
    pub(crate) fn next(&self, now_millis: u64) -> String {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (*last + 1).max(u128::from(now_millis) << COUNT_BITS);
        let ulid = (*last << RUN_BITS) | u128::from(self.run);
        format!("{}/{}", self.prefix, base32(ulid))
    }

    /// What tells this run from every other, as a word.
    pub(crate) fn run(&self) -> String {
        format!("{:014x}", self.run)
    }
}

/// As ULIDs are written: 26 digits of Crockford's base 32, which sort as the numbers do.
fn base32(number: u128) -> String {
    (0..ULID_DIGITS)
        .rev()
        .map(|place| {
            let digit = usize::try_from((number >> (5 * place)) & 31).unwrap_or(0);
            char::from(DIGITS.get(digit).copied().unwrap_or(b'0'))
        })
        .collect()
}

const RUN_BITS: u32 = 56;
const COUNT_BITS: u32 = 24;
const ULID_DIGITS: u32 = 26;
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ids(chance: u64) -> Ids {
        let instance = InstanceRef {
            module: "shop".parse().unwrap(),
            node: "web-1".parse().unwrap(),
        };
        Ids::new(&instance, chance)
    }

    #[test]
    fn ids_sort_in_the_order_they_were_made_also_when_the_clock_is_set_back() {
        let ids = ids(u64::MAX);
        let clock = [
            5,
            5,
            5,
            9,
            7,
            9,
            10,
            0,
            1_796_000_000_000,
            1_796_000_000_000,
        ];
        let made: Vec<String> = clock.into_iter().map(|now| ids.next(now)).collect();
        assert!(made.is_sorted_by(|a, b| a < b), "{made:#?}");
    }

    #[test]
    fn two_runs_make_no_id_twice() {
        let runs = [ids(0x1234_5678_9ABC_DEF0), ids(0x1234_5678_9ABC_DFF0)];
        let made: BTreeSet<String> = runs
            .iter()
            .flat_map(|ids| (0..1000).map(|_| ids.next(7)))
            .collect();
        assert_eq!(made.len(), 2000);
    }

    #[test]
    fn an_id_is_a_ulid_behind_the_instance() {
        let id = ids(0).next(1_469_918_176_385);
        // The specification's own example of a time.
        assert_eq!(id, "shop/web-1/01ARYZ6S410000000000000000");
        assert_eq!(base32(u128::MAX), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    }
}
