//! A start and the health after it, in real time: asks when it is due, and says what that means.

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use mesh_control::convergence::{Input, Pulse, Rollout, Verdict, every};
use mesh_model::{Health, Workload};
use tokio::time::{Duration, Instant, sleep_until};

use crate::health::{Exec, ask};

/// What is known of whether one module does its work.
#[derive(Debug)]
pub(crate) struct Vitals {
    health: Option<Health>,
    stage: Stage,
    /// What its times are counted from.
    origin: Instant,
    probe: Option<Instant>,
    until: Option<Instant>,
    asking: Asking,
}

/// What is being waited for; nothing while nobody does. Never locked: the lock says that nobody else has it, so that the
/// whole may be shared.
#[derive(Default)]
struct Asking(Mutex<Option<Waiting>>);

type Waiting = Pin<Box<dyn Future<Output = Input> + Send>>;

impl Asking {
    fn get(&mut self) -> &mut Option<Waiting> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Stage {
    Trial(Rollout),
    Good(Pulse),
}

/// What came of what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It does its work; said once.
    Good,
    /// It was started and does not do its work, and why.
    Bad(String),
    /// It did its work and no longer does; how it has ended when it is ended for that.
    Unhealthy(String),
}

impl Vitals {
    /// Of a workload that is about to be started.
    pub(crate) fn trial(workload: &Workload, settle: Duration) -> Self {
        let mut vitals = Self::good(workload);
        vitals.stage = Stage::Trial(Rollout::new(workload, settle));
        vitals.probe = None;
        vitals
    }

    /// Of one that runs and was good.
    pub(crate) fn good(workload: &Workload) -> Self {
        let mut vitals = Self {
            health: workload.health.clone(),
            stage: Stage::Good(Pulse::new()),
            origin: Instant::now(),
            probe: None,
            until: None,
            asking: Asking::default(),
        };
        vitals.next_pulse();
        vitals
    }

    pub(crate) const fn is_trial(&self) -> bool {
        matches!(self.stage, Stage::Trial(_))
    }

    /// Waits until something is due and does it; the answer is for [`handle`](Self::handle). The wait may be dropped at
    /// any time: a question on its way goes on when it is waited for again.
    pub(crate) async fn due<E>(&mut self, exec: impl FnOnce() -> E) -> Input
    where
        E: Exec + Send + Sync + 'static,
    {
        let (health, probe, until) = (self.health.clone(), self.probe, self.until);
        let asking = self
            .asking
            .get()
            .get_or_insert_with(|| Box::pin(next(health, probe, until, exec())));
        let input = asking.await;
        *self.asking.get() = None;
        input
    }

    /// Takes what happened.
    pub(crate) fn handle(&mut self, input: Input) -> Option<Sign> {
        if !matches!(input, Input::Probed(_) | Input::Look) {
            // Of another process than the one that is asked.
            *self.asking.get() = None;
        }
        match &mut self.stage {
            Stage::Trial(rollout) => match rollout.handle(input, self.origin.elapsed()) {
                Verdict::Wait { probe, until } => {
                    self.probe = probe.map(|at| self.origin + at);
                    self.until = until.map(|at| self.origin + at);
                    None
                }
                Verdict::Good => {
                    self.stage = Stage::Good(Pulse::new());
                    self.next_pulse();
                    Some(Sign::Good)
                }
                Verdict::Bad(why) => {
                    (self.probe, self.until) = (None, None);
                    Some(Sign::Bad(why))
                }
            },
            Stage::Good(pulse) => {
                let Input::Probed(answer) = input else {
                    return None;
                };
                let ends = pulse.probed(answer);
                self.next_pulse();
                ends.map(Sign::Unhealthy)
            }
        }
    }

    fn next_pulse(&mut self) {
        let next = |health: &Health| Instant::now() + every(health);
        self.probe = self.health.as_ref().map(next);
        self.until = None;
    }
}

async fn next(
    health: Option<Health>,
    probe: Option<Instant>,
    until: Option<Instant>,
    exec: impl Exec + Send + Sync,
) -> Input {
    match (health, probe, until) {
        (Some(health), Some(at), until) => {
            sleep_until(at).await;
            let left = until.map_or(Duration::MAX, |until| until.duration_since(at));
            Input::Probed(ask(&health.probe, every(&health).min(left), &exec).await)
        }
        (_, _, Some(until)) => {
            sleep_until(until).await;
            Input::Look
        }
        _ => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use mesh_model::{Probe, PublicKey, Restart, Run, Sealed};
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Takes its time, and counts how often it was begun.
    struct Slow(Duration, Arc<AtomicU32>);

    impl Exec for Slow {
        async fn exec(&self, _: &[String]) -> Result<(), String> {
            self.1.fetch_add(1, Ordering::Relaxed);
            sleep(self.0).await;
            Ok(())
        }
    }

    fn workload(every: u64, within: u64) -> Workload {
        Workload {
            module: "m".parse().unwrap(),
            release: "1".to_owned(),
            run: Run::command(["m".to_owned()]).unwrap(),
            after: [].into(),
            env: [].into(),
            restart: Restart::Always,
            health: Some(Health {
                probe: Probe::Exec(vec!["check".to_owned()]),
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

    const SETTLE: Duration = Rollout::SETTLE;

    #[tokio::test(start_paused = true)]
    async fn a_question_goes_on_however_often_its_wait_is_dropped() {
        let begun = Arc::new(AtomicU32::new(0));
        let mut vitals = Vitals::good(&workload(5_000, 30_000));
        let slow = || Slow(Duration::from_secs(3), Arc::clone(&begun));
        let mut dropped = 0;
        let answer = loop {
            match timeout(Duration::from_secs(1), vitals.due(slow)).await {
                Ok(answer) => break answer,
                Err(_) => dropped += 1,
            }
        };
        assert_eq!(answer, Input::Probed(Ok(())));
        assert!(dropped >= 6, "{dropped}");
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        assert_eq!(vitals.handle(answer), None);
        // Another process is asked anew.
        assert!(
            timeout(Duration::from_secs(6), vitals.due(slow))
                .await
                .is_err()
        );
        assert_eq!(vitals.handle(Input::Started), None);
        assert!(
            timeout(Duration::from_secs(1), vitals.due(slow))
                .await
                .is_err()
        );
        assert_eq!(begun.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_waited_for_beyond_the_time_to_be_healthy_in() {
        let begun = Arc::new(AtomicU32::new(0));
        let mut vitals = Vitals::trial(&workload(60_000, 2_000), SETTLE);
        let slow = || Slow(Duration::from_hours(1), Arc::clone(&begun));
        assert_eq!(vitals.handle(Input::Started), None);
        let since = Instant::now();
        let sign = loop {
            let input = vitals.due(slow).await;
            if let Some(sign) = vitals.handle(input) {
                break sign;
            }
        };
        let why = "not healthy within 2 s: check did not answer in time".to_owned();
        assert_eq!(
            (sign, since.elapsed()),
            (Sign::Bad(why), Duration::from_secs(2))
        );
    }
}
