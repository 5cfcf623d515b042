//! What is said of a start, case by case, and what holds of every one.

use mesh_model::{Probe, PublicKey, Run, Sealed};
use proptest::prelude::*;

use super::*;

const SETTLE: Duration = Duration::from_secs(3);

fn workload(restart: Restart, health: Option<(u64, u64)>) -> Workload {
    Workload {
        module: "m".parse().unwrap(),
        release: "1".to_owned(),
        run: Run::command(["m".to_owned()]).unwrap(),
        after: [].into(),
        env: [].into(),
        restart,
        health: health.map(|(every, within)| Health {
            probe: Probe::Tcp("127.0.0.1:1".to_owned()),
            every,
            within,
        }),
        secrets: [].into(),
        pull_secret: None,
        key: PublicKey::from_raw([0; 32]),
        credential: Sealed(vec![]),
        accepts: [].into(),
    }
}

fn ended(success: bool) -> Input {
    Input::Ended {
        how: "it ended".to_owned(),
        success,
    }
}

fn unhealthy() -> Input {
    Input::Probed(Err("refused".to_owned()))
}

fn wait(probe: Option<u64>, until: Option<u64>) -> Verdict {
    Verdict::Wait {
        probe: probe.map(Duration::from_millis),
        until: until.map(Duration::from_millis),
    }
}

fn bad(why: &str) -> Verdict {
    Verdict::Bad(why.to_owned())
}

/// Plays what happened at which millisecond, and holds each answer against what is expected.
fn check(restart: Restart, health: Option<(u64, u64)>, story: &[(u64, Input, Verdict)]) {
    let mut rollout = Rollout::new(&workload(restart, health), SETTLE);
    for (at, input, expected) in story {
        let verdict = rollout.handle(input.clone(), Duration::from_millis(*at));
        assert_eq!(verdict, *expected, "{input:?} at {at}");
    }
}

#[test]
fn without_a_question_of_health_it_is_good_once_it_ran_for_a_while() {
    use Input::{Look, Started};
    check(
        Restart::Always,
        None,
        &[
            (0, Look, wait(None, None)),
            (50, Started, wait(None, Some(3_050))),
            (3_049, Look, wait(None, Some(3_050))),
            (3_050, Look, Verdict::Good),
            (3_060, ended(false), Verdict::Good),
        ],
    );
}

#[test]
fn the_third_end_before_it_is_good_is_one_too_many() {
    use Input::{NotStarted, Started};
    check(
        Restart::OnFailure,
        None,
        &[
            (0, Started, wait(None, Some(3_000))),
            (10, ended(false), wait(None, None)),
            (1_000, Started, wait(None, Some(4_000))),
            (3_999, ended(false), wait(None, None)),
            (5_000, Started, wait(None, Some(8_000))),
            (5_010, ended(false), bad("it ended")),
            (9_000, Started, bad("it ended")),
            (20_000, Input::Look, bad("it ended")),
        ],
    );
    let absent = || NotStarted("no such program".to_owned());
    check(
        Restart::Never,
        Some((1_000, 60_000)),
        &[
            (0, absent(), wait(None, Some(60_000))),
            (1, absent(), wait(None, Some(60_000))),
            (2, absent(), bad("no such program")),
        ],
    );
}

#[test]
fn an_end_is_judged_by_what_is_to_follow_it() {
    use Restart::{Always, Never, OnFailure};
    for health in [None, Some((1_000, 9_000))] {
        for (restart, success, expected) in [
            (Always, true, None),
            (Always, false, None),
            (OnFailure, true, Some(Verdict::Good)),
            (OnFailure, false, None),
            (Never, true, Some(Verdict::Good)),
            (Never, false, Some(bad("it ended"))),
        ] {
            let waits = wait(None, health.map(|(_, within)| within));
            let mut rollout = Rollout::new(&workload(restart, health), SETTLE);
            assert!(matches!(
                rollout.handle(Input::Started, Duration::ZERO),
                Verdict::Wait { .. }
            ));
            let verdict = rollout.handle(ended(success), Duration::from_millis(5));
            assert_eq!(verdict, expected.unwrap_or(waits), "{restart:?} {success}");
        }
    }
}

#[test]
fn it_is_asked_often_at_first_and_has_to_be_healthy_in_time() {
    use Input::{Look, Probed, Started};
    check(
        Restart::Always,
        Some((500, 2_000)),
        &[
            // Nothing runs out before it is started: its image may be large.
            (90_000, Look, wait(None, None)),
            (100_000, Started, wait(Some(100_100), Some(102_000))),
            (100_100, unhealthy(), wait(Some(100_200), Some(102_000))),
            (100_200, unhealthy(), wait(Some(100_400), Some(102_000))),
            (100_400, unhealthy(), wait(Some(100_800), Some(102_000))),
            (101_000, unhealthy(), wait(Some(101_500), Some(102_000))),
            // The next asking would come too late.
            (101_600, unhealthy(), wait(None, Some(102_000))),
            (102_000, Look, bad("not healthy within 2 s: refused")),
            (
                102_001,
                Probed(Ok(())),
                bad("not healthy within 2 s: refused"),
            ),
        ],
    );
    check(
        Restart::Always,
        Some((5_000, 1_500)),
        &[
            (0, Started, wait(Some(100), Some(1_500))),
            (100, Probed(Ok(())), Verdict::Good),
            (200, unhealthy(), Verdict::Good),
        ],
    );
}

#[test]
fn an_answer_of_a_process_that_has_ended_says_nothing_of_the_next() {
    use Input::{Look, Probed, Started};
    check(
        Restart::Always,
        Some((1_000, 1_500)),
        &[
            (0, Started, wait(Some(100), Some(1_500))),
            (50, ended(false), wait(None, Some(1_500))),
            (60, Probed(Ok(())), wait(None, Some(1_500))),
            (100, Started, wait(Some(200), Some(1_500))),
            (1_500, Look, bad("not healthy within 1500 ms: it ended")),
        ],
    );
}

fn inputs() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Started),
        Just(Input::NotStarted("absent".to_owned())),
        Just(Input::Probed(Ok(()))),
        Just(unhealthy()),
        any::<bool>().prop_map(ended),
        Just(Input::Look),
    ]
}

fn kinds() -> impl Strategy<Value = Workload> {
    let restart = prop_oneof![
        Just(Restart::Always),
        Just(Restart::OnFailure),
        Just(Restart::Never)
    ];
    let health = proptest::option::of((0_u64..20_000, 0_u64..60_000));
    (restart, health).prop_map(|(restart, health)| workload(restart, health))
}

proptest! {
    #[test]
    fn a_verdict_is_final(
        workload in kinds(),
        story in proptest::collection::vec((inputs(), 0_u64..10_000), 1..40),
    ) {
        let mut rollout = Rollout::new(&workload, SETTLE);
        let mut now = Duration::ZERO;
        let mut said: Option<Verdict> = None;
        for (input, later) in story {
            now += Duration::from_millis(later);
            let verdict = rollout.handle(input, now);
            if let Some(said) = &said {
                prop_assert_eq!(&verdict, said);
            } else if !matches!(verdict, Verdict::Wait { .. }) {
                said = Some(verdict);
            }
        }
    }

    #[test]
    fn what_it_asks_for_lies_ahead_and_comes_to_a_verdict(
        workload in kinds(),
        fates in proptest::collection::vec((any::<bool>(), 0_u64..4_000), 3),
    ) {
        // Whoever carries it out starts it at once, asks when told, and looks when told; no answer is a good one. Each
        // process ends after a while, or goes on.
        let mut rollout = Rollout::new(&workload, SETTLE);
        let mut now = Duration::ZERO;
        let mut fates = fates.into_iter();
        let mut ends = None;
        let mut input = Input::Started;
        for _ in 0..1_000 {
            if input == Input::Started {
                ends = fates.next().and_then(|(ends, at)| {
                    ends.then(|| now + Duration::from_millis(at))
                });
            }
            let started = input == Input::Started;
            let Verdict::Wait { probe, until } = rollout.handle(input, now) else {
                let most = workload.health.as_ref().map_or(60_000, |health| health.within.max(1));
                prop_assert!(now <= Duration::from_millis(most), "{now:?}");
                return Ok(());
            };
            prop_assert!(probe.is_none_or(|at| at > now), "{probe:?} at {now:?}");
            prop_assert!(until.is_none_or(|at| at > now || started), "{until:?} at {now:?}");
            let next = [probe, until, ends].into_iter().flatten().min();
            let Some(next) = next else {
                // It has ended, and is started again.
                prop_assert!(ends.is_none());
                input = Input::Started;
                continue;
            };
            now = now.max(next);
            input = if ends == Some(next) {
                ends = None;
                ended(false)
            } else if probe == Some(next) {
                unhealthy()
            } else {
                Input::Look
            };
            // Started again at once, where it is to be.
            if let Input::Ended { .. } = input && workload.health.is_some() {
                if !matches!(rollout.handle(input, now), Verdict::Wait { .. }) {
                    return Ok(());
                }
                input = Input::Started;
            }
        }
        prop_assert!(false, "no verdict");
    }
}
