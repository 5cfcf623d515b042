//! What went wrong in other people's production while a store was away, and cannot here.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

#[cfg(test)]
mod cases {
    use std::time::Duration;

    use mesh_window::{Limits, Verdict, Window};

    /// Refused again whenever it comes back, for this long: how often it came back.
    fn refusals(window: &mut Window<u64>, from: u64, millis: u64) -> u64 {
        let (mut now, mut times) = (from, 0);
        while now < from + millis {
            times += 1;
            match window.refused(&1, now, now) {
                Verdict::Hold { retry_in } => {
                    now += u64::try_from(retry_in.as_millis()).unwrap().max(1);
                }
                Verdict::LetGo { .. } => break,
            }
        }
        times
    }

    fn bound() -> u64 {
        u64::try_from(Limits::default().bound.as_millis()).unwrap()
    }

    /// A message is put back at once whenever its handler fails: thousands of deliveries a second.
    /// <https://github.com/rabbitmq/rabbitmq-server/issues/1020>
    #[test]
    fn case_b_32f4429_what_is_refused_comes_back_after_a_pause_that_grows() {
        let mut window = Window::new(Limits::default());
        let first_second = refusals(&mut window, 0, 1_000);
        assert!(first_second <= 5, "{first_second} in the first second");
        let minute = refusals(&mut window, 60_000, 60_000);
        assert!(minute <= 20, "{minute} in the second minute");
        for age in [0, 1, 250, 5_000, 300_000] {
            for seed in 0..100 {
                let mut window = Window::new(Limits::default());
                let _opened = window.refused(&1, 0, seed);
                let Verdict::Hold { retry_in } = window.refused(&1, age, seed) else {
                    panic!("let go after {age} ms");
                };
                let shortest = Duration::from_millis(200);
                assert!(retry_in >= shortest, "{age}: {retry_in:?}");
            }
        }
    }

    /// A held message that is sent again counts as an attempt each time, and is given up though nobody worked on it.
    /// <https://github.com/alexfrmn/murmur/issues/141>
    #[test]
    fn case_b_fd62595_coming_again_often_lets_nothing_go_sooner() {
        let mut window = Window::new(Limits::default());
        for now in 0..10_000 {
            let verdict = window.refused(&1, now, now);
            assert!(matches!(verdict, Verdict::Hold { .. }), "at {now} ms");
        }
        let left = window.remaining(10_000);
        assert_eq!((window.held(), left), (1, Some(bound() - 10_000)));
    }

    /// Messages reach their limit of deliveries in an outage, and stay in the queue for ever.
    /// <https://til.computer/2025/01/07/a-way-to-resolve-redelivered.html>
    #[test]
    fn case_b_2e3be51_an_outage_uses_up_no_attempts() {
        let mut window = Window::new(Limits::default());
        let tried = refusals(&mut window, 0, bound() - 1);
        assert!(tried > 100, "{tried}");
        assert_eq!(window.held(), 1, "given up within the bound");
        // The store is back, and nothing of the outage is left.
        assert_eq!(window.taken(&1), Some(0));
        assert_eq!((window.held(), window.oldest()), (0, None));
    }

    /// A message driven again from the dead-letter queue keeps its count, and fails at once.
    /// <https://github.com/rebus-org/Rebus.RabbitMq/issues/114>
    #[test]
    fn case_b_fa151bd_what_was_let_go_and_comes_again_has_the_whole_window() {
        let mut window = Window::new(Limits::default());
        let _opened = window.refused(&1, 0, 7);
        let gone = window.refused(&1, bound(), 7);
        assert!(matches!(gone, Verdict::LetGo { .. }));
        let again = bound() + 1_000;
        let held = window.refused(&1, again, 7);
        assert!(matches!(held, Verdict::Hold { .. }));
        assert_eq!(window.remaining(again), Some(bound()));
    }

    /// After a restart all that is periodic happens in the same second, for ever.
    /// <https://github.com/apache/hertzbeat/pull/4328>
    #[test]
    fn case_d_52a14aa_what_was_refused_in_one_instant_comes_back_spread_out() {
        let mut window = Window::new(Limits::default());
        let mut back: Vec<u64> = Vec::new();
        for key in 0..500_u64 {
            let _opened = window.refused(&key, 0, key);
            let Verdict::Hold { retry_in } = window.refused(&key, 60_000, key) else {
                panic!("let go after a minute");
            };
            back.push(u64::try_from(retry_in.as_millis()).unwrap());
        }
        back.sort_unstable();
        let at_once = back.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
        assert!(at_once < Some(10), "{at_once:?} in one millisecond");
        assert!(
            back.last()
                .zip(back.first())
                .is_some_and(|(a, b)| a - b > 1_000)
        );
    }
}
