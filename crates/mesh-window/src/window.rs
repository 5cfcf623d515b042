//! Which messages are held, since when, and what becomes of one that is refused again.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a message is held, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the first refusal until it is let go.
    pub bound: Duration,
    /// The shortest pause before a message is tried again, give or take the jitter.
    pub first: Duration,
    /// The longest pause.
    pub cap: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bound: Duration::from_mins(10),
            first: Duration::from_millis(250),
            cap: Duration::from_secs(5),
        }
    }
}

/// What becomes of a message the store refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a refused message is either held or let go, and the caller is who does it"]
pub enum Verdict {
    /// It stays with the broker and is tried again.
    Hold {
        /// After this long: at least a millisecond, at most the cap, never past the bound.
        retry_in: Duration,
    },
    /// The bound has passed: it is settled, counted and parked. Its window is closed.
    LetGo {
        /// How long it was held.
        held_for: Duration,
    },
}

/// The messages held now. Each costs its key and eight bytes: no count of attempts is kept, because the pause before
/// the next attempt follows from how long the message has been held.
#[derive(Debug, Clone)]
pub struct Window<K: Ord> {
    limits: Limits,
    held: BTreeMap<K, u64>,
    peak: usize,
}

impl<K: Ord + Clone> Window<K> {
    /// Nothing held yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            held: BTreeMap::new(),
            peak: 0,
        }
    }

    /// The store refused this message at `now` (milliseconds). The first refusal opens its window.
    ///
    /// A clock that goes back makes a message younger, never older: it is held longer rather than let go early.
    pub fn refused(&mut self, key: &K, now: u64, seed: u64) -> Verdict {
        let opened = self.held.get(key).copied();
        let age = Duration::from_millis(now.saturating_sub(opened.unwrap_or(now)));
        let left = self.limits.bound.saturating_sub(age);
        if left.is_zero() {
            self.held.remove(key);
            return Verdict::LetGo { held_for: age };
        }
        if opened.is_none() {
            self.held.insert(key.clone(), now);
            self.peak = self.peak.max(self.held.len());
        }
        Verdict::Hold {
            retry_in: self.limits.pause(age, seed).min(left).max(SHORTEST),
        }
    }

    /// The store took this message: its window closes. Answers when it had opened, in milliseconds, if it was held.
    pub fn taken(&mut self, key: &K) -> Option<u64> {
        self.held.remove(key)
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// How many were held at once, at most.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// The message held longest, and when its window opened, in milliseconds. Looks at each that is held.
    pub fn oldest(&self) -> Option<(&K, u64)> {
        self.held
            .iter()
            .map(|(key, opened)| (key, *opened))
            .min_by_key(|(_, opened)| *opened)
    }

    /// Milliseconds until the message held longest reaches the bound; zero when it has.
    pub fn remaining(&self, now: u64) -> Option<u64> {
        let (_, opened) = self.oldest()?;
        let age = Duration::from_millis(now.saturating_sub(opened));
        let left = self.limits.bound.saturating_sub(age).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }
}

impl Limits {
    /// A pause as long as the message has been held so far, which doubles its age each time, give or take a fifth. The
    /// middle stays a sixth below the cap, so that messages at the cap do not all come back in the same instant.
    fn pause(&self, age: Duration, seed: u64) -> Duration {
        let middle = age.max(self.first).min(self.cap / 6 * 5);
        let spread = u32::try_from(mix(seed) % 4_001).unwrap_or(0);
        middle / 10_000 * (8_000 + spread)
    }
}

/// Spreads seeds that differ by little (the finalizer of splitmix64), so that a caller may simply count.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The shortest pause there is: a broker's delay is counted in milliseconds, and a pause of none would spin.
const SHORTEST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(bound: u64, first: u64, cap: u64) -> Limits {
        Limits {
            bound: Duration::from_millis(bound),
            first: Duration::from_millis(first),
            cap: Duration::from_millis(cap),
        }
    }

    /// Every message tried exactly when it was told to be, until it is let go: the pauses, and when it was let go.
    fn ride(limits: Limits, opened: u64, seed: u64) -> (Vec<Duration>, u64) {
        let mut window = Window::new(limits);
        let (mut now, mut pauses) = (opened, Vec::new());
        while let Verdict::Hold { retry_in } = window.refused(&(), now, seed ^ now) {
            pauses.push(retry_in);
            assert!(pauses.len() <= 20_000, "it is never let go");
            now += u64::try_from(retry_in.as_nanos().div_ceil(1_000_000)).unwrap();
        }
        (pauses, now)
    }

    #[test]
    fn by_default_a_message_is_held_ten_minutes_and_tried_at_least_every_five_seconds() {
        let (pauses, end) = ride(Limits::default(), 1_000, 7);
        assert_eq!(end, 601_000);
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(5)));
        assert!((120..200).contains(&pauses.len()), "{}", pauses.len());
        assert!(pauses[0] >= Duration::from_millis(200));
        assert!(pauses[0] <= Duration::from_millis(300));
    }

    #[test]
    fn a_bound_of_nothing_holds_nothing() {
        let mut window = Window::new(limits(0, 250, 5_000));
        let held_for = Duration::ZERO;
        assert_eq!(window.refused(&'a', 5, 1), Verdict::LetGo { held_for });
        assert_eq!((window.held(), window.peak()), (0, 0));
    }

    #[test]
    fn the_oldest_is_who_was_refused_first_whatever_its_key() {
        let mut window = Window::new(Limits::default());
        assert_eq!((window.oldest(), window.remaining(0)), (None, None));
        for (key, now) in [('z', 10), ('a', 20), ('m', 30), ('z', 40)] {
            assert!(matches!(window.refused(&key, now, 0), Verdict::Hold { .. }));
        }
        assert_eq!(window.oldest(), Some((&'z', 10)));
        assert_eq!(window.remaining(10_010), Some(590_000));
        assert_eq!(window.remaining(u64::MAX), Some(0));
        assert_eq!(window.taken(&'z'), Some(10));
        assert_eq!(window.oldest(), Some((&'a', 20)));
        assert_eq!((window.held(), window.peak()), (2, 3));
    }

    #[test]
    fn messages_at_the_cap_do_not_come_back_in_the_same_instant() {
        let mut window = Window::new(Limits::default());
        let mut pauses = std::collections::BTreeSet::new();
        for key in 0..1_000_u64 {
            let _opened = window.refused(&key, 0, key);
            let Verdict::Hold { retry_in } = window.refused(&key, 60_000, key) else {
                panic!("let go after a minute");
            };
            pauses.insert(retry_in);
        }
        assert!(pauses.len() > 500, "{} different pauses", pauses.len());
    }

    #[test]
    fn the_widest_limits_do_not_overflow() {
        let widest = Limits {
            bound: Duration::MAX,
            first: Duration::MAX,
            cap: Duration::MAX,
        };
        let mut window = Window::new(widest);
        for now in [0, 1, u64::MAX] {
            assert!(matches!(
                window.refused(&(), now, now),
                Verdict::Hold { .. }
            ));
            assert!(window.remaining(now).is_some());
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Refused(u8),
        Taken(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
        let step = prop_oneof![3 => (0..4_u8).prop_map(Step::Refused), 1 => (0..4_u8).prop_map(Step::Taken)];
        prop::collection::vec((step, 0..400_u64), 1..80)
    }

    proptest! {
        #[test]
        fn a_message_is_held_below_the_bound_and_let_go_at_it(steps in steps(), bound in 0..2_000_u64) {
            let mut window = Window::new(limits(bound, 50, 300));
            let mut opened: BTreeMap<u8, u64> = BTreeMap::new();
            let mut now = 0;
            for (step, pass) in steps {
                now += pass;
                match step {
                    Step::Taken(key) => prop_assert_eq!(window.taken(&key), opened.remove(&key)),
                    Step::Refused(key) => {
                        let age = now - *opened.entry(key).or_insert(now);
                        match window.refused(&key, now, pass) {
                            Verdict::Hold { retry_in } => {
                                prop_assert!(age < bound);
                                prop_assert!(retry_in >= SHORTEST);
                                prop_assert!(retry_in <= Duration::from_millis(300.min(bound - age)));
                            }
                            Verdict::LetGo { held_for } => {
                                prop_assert!(age >= bound);
                                prop_assert_eq!(held_for, Duration::from_millis(age));
                                opened.remove(&key);
                            }
                        }
                    }
                }
                prop_assert_eq!(window.held(), opened.len());
                prop_assert!(window.peak() >= window.held());
                prop_assert_eq!(window.oldest().map(|(_, at)| at), opened.values().min().copied());
            }
        }

        #[test]
        fn a_message_tried_when_told_is_let_go_exactly_at_the_bound(
            bound in 1..20_000_u64, first in 1..2_000_u64, cap in 10..3_000_u64,
            opened in 0..u64::from(u32::MAX), seed: u64,
        ) {
            let (pauses, end) = ride(limits(bound, first, cap), opened, seed);
            prop_assert_eq!(end, opened + bound);
            prop_assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(cap)));
        }

        #[test]
        fn what_happens_to_one_message_does_not_bear_on_another(steps in steps()) {
            let mut all = Window::new(limits(1_000, 50, 300));
            let mut alone = Window::new(limits(1_000, 50, 300));
            let mut now = 0;
            for (step, pass) in steps {
                now += pass;
                match step {
                    Step::Refused(key) => {
                        let verdict = all.refused(&key, now, pass);
                        if key == 0 {
                            prop_assert_eq!(alone.refused(&key, now, pass), verdict);
                        }
                    }
                    Step::Taken(key) => {
                        let at = all.taken(&key);
                        if key == 0 {
                            prop_assert_eq!(alone.taken(&key), at);
                        }
                    }
                }
            }
        }

        #[test]
        fn a_clock_that_goes_back_lets_nothing_go_early(times in prop::collection::vec(any::<u64>(), 1..40), seed: u64) {
            let mut window = Window::new(limits(1_000, 50, 300));
            let mut opened = None;
            for now in times {
                let at = *opened.get_or_insert(now);
                match window.refused(&(), now, seed) {
                    Verdict::Hold { .. } => prop_assert!(now.saturating_sub(at) < 1_000),
                    Verdict::LetGo { .. } => {
                        prop_assert!(now.saturating_sub(at) >= 1_000);
                        opened = None;
                    }
                }
            }
        }

        #[test]
        fn equal_seeds_give_equal_pauses(age in 0..900_u64, seed: u64) {
            let pause = |seed| {
                let mut window = Window::new(limits(1_000, 50, 300));
                let _opened = window.refused(&(), 0, 0);
                window.refused(&(), age, seed)
            };
            prop_assert_eq!(pause(seed), pause(seed));
        }

        #[test]
        fn the_pause_grows_with_the_age_whatever_the_jitter(age in 50..125_u64, a: u64, b: u64) {
            let limits = limits(10_000, 50, 300);
            let (young, old) = (Duration::from_millis(age), Duration::from_millis(age * 2));
            prop_assert!(limits.pause(young, a) < limits.pause(old, b));
        }
    }
}
