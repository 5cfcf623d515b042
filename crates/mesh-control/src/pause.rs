//! Pauses by a clock that may be set back: none of them ever lasts longer than it was meant to.

use mesh_model::Timestamp;

/// Whether something put off until `at` is due. `pause` is how far ahead it was put.
pub(crate) fn due(at: Timestamp, now: Timestamp, pause: u64) -> bool {
    now >= at || at.since(now) > pause
}

/// Whether `pause` milliseconds have passed since something.
pub(crate) fn passed(since: Timestamp, now: Timestamp, pause: u64) -> bool {
    now < since || now.since(since) >= pause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_lengthens_no_pause() {
        let at = Timestamp::from_millis;
        for (now, is_due) in [
            (5_000, true),
            (4_999, false),
            (3_000, false),
            (2_999, true),
            (0, true),
        ] {
            assert_eq!(due(at(5_000), at(now), 2_000), is_due, "at {now}");
        }
        for (now, has) in [(5_000, false), (6_999, false), (7_000, true), (4_999, true)] {
            assert_eq!(passed(at(5_000), at(now), 2_000), has, "at {now}");
        }
    }
}
