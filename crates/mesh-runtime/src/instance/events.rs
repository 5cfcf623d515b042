//! What happens to an instance, and what it does then.

use mesh_control::convergence::Input;
use mesh_model::{ModuleName, Restart};
use tokio::time::{Duration, Instant, sleep_until};
use tracing::{info, warn};

use super::beside::Beside;
use super::{Doing, Instance, LOOK, Pending};
use crate::ending::Ending;
use crate::gate::Gate;
use crate::process::Process;
use crate::record::Phase;
use crate::vitals::{Sign, Vitals};

/// What happened.
enum Event {
    /// There is a newer order.
    Ordered,
    /// It may become what it is to be.
    Turn,
    /// It is to be started again.
    Again,
    /// Its process ended.
    Ended,
    /// Its health was asked for, or its time is up.
    Due(Input),
    /// Log and record are to be looked at.
    Look,
}

impl Instance {
    /// Lives until nobody can order any more. Not to be cancelled while a start is on its way but by the end of the
    /// runtime: nothing but the record would know of the process.
    pub(crate) async fn live(mut self) {
        self.take().await;
        while let Some(event) = self.next().await {
            match event {
                Event::Ordered => self.take().await,
                Event::Turn => self.turn().await,
                Event::Again => self.start_again().await,
                Event::Ended => self.ended().await,
                Event::Due(input) => {
                    let sign = self.vitals.as_mut().and_then(|vitals| vitals.handle(input));
                    self.on(sign).await;
                }
                Event::Look => self.look().await,
            }
        }
    }

    /// What happens next; nothing when the runtime ends, or has let go of what is not here.
    async fn next(&mut self) -> Option<Event> {
        let Some(desired) = &self.current.desired else {
            return self.next_unwanted().await;
        };
        let runs = self.record.as_ref().map(|record| &record.workload);
        let runs = runs.unwrap_or(&desired.workload);
        let beside = || Beside::new(&self.around.host, runs, &desired.extra_env);
        let vitals = self.vitals.as_mut();
        tokio::select! {
            biased;
            changed = self.wanted.changed() => changed.ok().map(|()| Event::Ordered),
            event = of_process(&self.doing, self.look) => Some(event),
            () = turn(self.pending, &self.around.gate, &self.module) => Some(Event::Turn),
            input = due(vitals, beside) => Some(Event::Due(input)),
        }
    }

    /// It is not wanted: here is at most what could not be ended.
    async fn next_unwanted(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            changed = self.wanted.changed() => changed.ok().map(|()| Event::Ordered),
            () = ended(&self.doing) => Some(Event::Ended),
        }
    }

    /// A process of its ended.
    async fn ended(&mut self) {
        let grace = self.around.host.config.pace.grace;
        let Doing::Watch(mut process, since) = std::mem::replace(&mut self.doing, Doing::Nothing)
        else {
            return;
        };
        // Nothing of its group is left to meet the next.
        if let Err(left) = process.stop(&self.module, grace).await {
            warn!(module = %self.module, reason = %left, "something of its group goes on");
        }
        let ending = process.reap();
        if self.current.desired.is_none() {
            return self.forget();
        }
        let how = ending.to_string();
        let again = self.came_to_an_end(&how, ending, since.elapsed());
        warn!(module = %self.module, pid = process.number(), %ending, again, "ended");
        let input = Input::Ended {
            how,
            success: ending == Ending::Exited(0),
        };
        let sign = self.vitals.as_mut().and_then(|vitals| vitals.handle(input));
        if self
            .vitals
            .as_ref()
            .is_some_and(|vitals| !vitals.is_trial())
        {
            // Good or not, the next start is judged anew.
            self.vitals = None;
        }
        self.on(sign).await;
        self.show();
    }

    /// Takes down that it ended after it `lived`, and whether it is to be started again.
    fn came_to_an_end(&mut self, how: &str, ending: Ending, lived: Duration) -> bool {
        let exit = self.exit(how.to_owned());
        self.row.trouble = Some(how.to_owned());
        self.row.cannot_start = false;
        let restart = self.record.as_mut().map_or(Restart::Never, |record| {
            record.last_exit = Some(exit);
            record.workload.restart
        });
        let again = ending.starts_again(restart);
        if again {
            self.doing = Doing::Wait(Instant::now() + self.wait(lived));
        } else {
            self.doing = Doing::Rest;
            if let Some(record) = &mut self.record {
                record.phase = Phase::Ended {
                    reason: how.to_owned(),
                };
            }
            self.write("a later agent will not know how it ended");
        }
        again
    }

    /// How long to wait now that it ended after it `lived`.
    pub(super) fn wait(&mut self, lived: Duration) -> Duration {
        let config = &self.around.host.config;
        self.row.ends = config.pace.ends(self.row.ends, lived);
        config.pace.wait(self.row.ends, config.seed, &self.module)
    }

    /// What its health says.
    async fn on(&mut self, sign: Option<Sign>) {
        match sign {
            None => {}
            Some(Sign::Good) => self.good(),
            // Going back may find that this is bad, too; that is as far as it goes.
            Some(Sign::Bad(why)) => Box::pin(self.bad(why)).await,
            Some(Sign::Unhealthy(how)) => self.end_as(how).await,
        }
    }

    /// Takes note of what came of a start, or of an attempt at one.
    pub(super) async fn heard(&mut self, input: Input) {
        let sign = self.vitals.as_mut().and_then(|vitals| vitals.handle(input));
        self.on(sign).await;
    }

    fn good(&mut self) {
        let Some(record) = &mut self.record else {
            return;
        };
        let news = !record.good || record.previous.is_some();
        record.good = true;
        record.previous = None;
        if news {
            info!(module = %self.module, release = record.workload.release, "good");
            self.write("a later agent will judge it anew");
        }
        self.row.gave_up = false;
        if !matches!(self.doing, Doing::Rest) {
            self.row.trouble = None;
        }
        self.show();
        self.settle(None);
    }

    /// Ends a process that does not do its work. It is started again as one that ended by itself.
    pub(super) async fn end_as(&mut self, how: String) {
        let Doing::Watch(process, since) = std::mem::replace(&mut self.doing, Doing::Nothing)
        else {
            return;
        };
        let lived = since.elapsed();
        let Some(mut process) = self.stop(process, since).await else {
            return;
        };
        process.reap();
        warn!(module = %self.module, pid = process.number(), how, "ended, since it does not do its work");
        // Whatever status it ended with, it did not succeed.
        self.came_to_an_end(&how, Ending::Unknown, lived);
        self.vitals = None;
        self.show();
    }

    /// Ends a process. One that cannot be ended is watched on.
    async fn stop(&mut self, process: Box<Process>, since: Instant) -> Option<Box<Process>> {
        let grace = self.around.host.config.pace.grace;
        let stopped = process.stop(&self.module, grace).await;
        let Err(left) = stopped else {
            return Some(process);
        };
        warn!(module = %self.module, reason = %left, "it cannot be ended");
        self.row.trouble = Some(left.to_string());
        self.doing = Doing::Watch(process, since);
        self.vitals = self
            .record
            .as_ref()
            .map(|record| Vitals::good(&record.workload));
        self.show();
        None
    }

    /// Keeps the log from growing without bound, and puts a record back that somebody removed.
    async fn look(&mut self) {
        self.look = Instant::now() + LOOK;
        let (host, module) = (self.around.host.clone(), self.module.clone());
        let looked = move || {
            if let Err(refused) = host.bound_log(&module) {
                warn!(%module, %refused, "its log grows");
            }
            host.is_recorded(&module)
        };
        // It fails only when the runtime ends.
        let recorded = tokio::task::spawn_blocking(looked).await.unwrap_or(true);
        if recorded {
            return;
        }
        warn!(module = %self.module, "its record was removed by somebody else; it is written again");
        if let Some(record) = &mut self.record {
            record.repairs = record.repairs.saturating_add(1);
        }
        self.write("a later agent will start it anew");
        self.show();
    }
}

/// What becomes of a process, or of the wait for one.
async fn of_process(doing: &Doing, look: Instant) -> Event {
    match doing {
        Doing::Watch(process, _) => tokio::select! {
            biased;
            () = process.ended() => Event::Ended,
            () = sleep_until(look) => Event::Look,
        },
        Doing::Wait(until) => {
            sleep_until(*until).await;
            Event::Again
        }
        Doing::Nothing | Doing::Rest => std::future::pending().await,
    }
}

async fn ended(doing: &Doing) {
    match doing {
        Doing::Watch(process, _) => process.ended().await,
        _ => std::future::pending().await,
    }
}

async fn turn(pending: Pending, gate: &Gate, module: &ModuleName) {
    match pending {
        Pending::No => std::future::pending().await,
        Pending::Turn => gate.pass(module).await,
        Pending::Later(at) => sleep_until(at).await,
    }
}

async fn due(vitals: Option<&mut Vitals>, beside: impl FnOnce() -> Beside) -> Input {
    match vitals {
        Some(vitals) => vitals.due(beside).await,
        None => std::future::pending().await,
    }
}
