//! One module as a process, from the first order that names it until it is neither wanted nor here: started, judged, gone
//! back from, watched, started again, ended.

mod beside;
mod events;
mod replacing;
mod report;
mod starting;

use std::sync::Arc;

use mesh_control::convergence::{Input, Observed, Standing, step};
use mesh_model::{LastExit, ModuleName, Workload};
use tokio::sync::watch;
use tokio::time::{Duration, Instant};
use tracing::warn;

use crate::board::Board;
use crate::ending::Ending;
use crate::found::Found;
use crate::gate::Gate;
use crate::host::Host;
use crate::proc::Identity;
use crate::process::Process;
use crate::record::{Phase, Record};
use crate::vitals::Vitals;
use crate::{Desired, RuntimeError};

/// What an instance needs of its host.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) host: Arc<Host>,
    pub(crate) board: Board,
    pub(crate) gate: Gate,
}

/// What one module is to be by an order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) order: u64,
    /// Nothing when it is not to be.
    pub(crate) desired: Option<Desired>,
}

/// What an instance says of itself to whoever orders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// The newest order it has done what it can for: the module is good, or was tried, or is gone.
    pub(crate) order: u64,
    /// What that order was refused with.
    pub(crate) refused: Option<RuntimeError>,
    /// What is here; nothing when nothing is.
    pub(crate) observed: Option<Observed>,
}

/// One module as a process. It alone starts and ends processes of its module.
#[derive(Debug)]
pub(crate) struct Instance {
    around: Surroundings,
    module: ModuleName,
    wanted: watch::Receiver<Wanted>,
    told: watch::Sender<Told>,
    /// The order that is being carried out.
    current: Wanted,
    /// What is on disk of it; nothing when it was never started.
    record: Option<Record>,
    /// Processes that may be left of it and that nobody watches.
    strays: Vec<Identity>,
    doing: Doing,
    /// Whether it does its work; nothing while that is not the question.
    vitals: Option<Vitals>,
    /// Whether it is to become something else than it is.
    pending: Pending,
    row: Row,
    /// Processes were here of which nobody could say what they were; they were ended.
    repaired: bool,
    /// When its log and its record are looked at again.
    look: Instant,
}

/// What came of its starts since it was to be what it is.
#[derive(Debug, Default)]
struct Row {
    /// Ends in a row.
    ends: u32,
    /// Whether it was started at all since it was declared so: a start after that is counted.
    started: bool,
    /// Why it does not run, or not well; until it is good.
    trouble: Option<String>,
    /// Its last start did not come to a process.
    cannot_start: bool,
    /// It was bad, and there is nothing to go back to; or its host refuses it. It is tried again all the same.
    gave_up: bool,
}

/// What an instance is doing.
#[derive(Debug)]
enum Doing {
    /// It has no process, and is not about to have one but by an order.
    Nothing,
    /// It has one, since then.
    Watch(Box<Process>, Instant),
    /// It is started again then.
    Wait(Instant),
    /// It ended, and for good.
    Rest,
}

/// Whether an instance is to become something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    No,
    /// When it is its turn.
    Turn,
    /// Its host refused what that takes; it is tried again then.
    Later(Instant),
}

/// How often log and record are looked at: nothing tells when a log is full, or a file removed.
const LOOK: Duration = Duration::from_secs(2);

impl Instance {
    /// One that is not here, or as an earlier agent left it.
    pub(crate) fn new(
        around: Surroundings,
        module: ModuleName,
        found: Option<Found>,
        wanted: watch::Receiver<Wanted>,
        told: watch::Sender<Told>,
    ) -> Self {
        let mut instance = Self {
            around,
            module,
            wanted,
            told,
            current: Wanted::default(),
            record: None,
            strays: vec![],
            doing: Doing::Nothing,
            vitals: None,
            pending: Pending::No,
            row: Row::default(),
            repaired: false,
            look: Instant::now() + LOOK,
        };
        match found {
            Some(Found::Known(record)) => instance.adopt(*record),
            Some(Found::Unknown(strays)) => instance.strays = strays,
            None => {}
        }
        instance
    }

    /// Goes on with what an earlier agent left.
    fn adopt(&mut self, mut record: Record) {
        self.row.started = true;
        let over = !Ending::Unknown.starts_again(record.workload.restart);
        match &record.phase {
            Phase::Running(process) if process.runs() || over => {
                let process = Process::adopt(*process, self.around.host.marks_of(&self.module));
                self.doing = Doing::Watch(Box::new(process), Instant::now());
            }
            Phase::Running(process) => {
                self.strays = vec![*process];
                record.last_exit = Some(self.exit(Ending::Unknown.to_string()));
            }
            Phase::Gone if over => {
                let reason = Ending::Unknown.to_string();
                record.last_exit = Some(self.exit(reason.clone()));
                record.phase = Phase::Ended { reason };
                self.doing = Doing::Rest;
            }
            Phase::Gone => record.last_exit = Some(self.exit(Ending::Unknown.to_string())),
            Phase::Ended { .. } => self.doing = Doing::Rest,
            // It never came to be.
            Phase::Starting { .. } => match record.restarts.checked_sub(1) {
                Some(before) => record.restarts = before,
                None => self.row.started = false,
            },
        }
        self.record = Some(record);
    }

    /// What is here, for the plan.
    fn observed(&self) -> Option<Observed> {
        let (workload, rejected) = match &self.record {
            Some(record) => {
                let rejected = record.rejected.as_ref();
                let rejected = rejected.map(|rejected| rejected.workload.clone());
                (Some(record.workload.clone()), rejected)
            }
            None if self.strays.is_empty() => return None,
            None => (None, None),
        };
        let standing = match self.doing {
            Doing::Nothing => Standing::Lost,
            Doing::Watch(..) | Doing::Wait(_) | Doing::Rest => Standing::Held,
        };
        Some(Observed {
            module: self.module.clone(),
            workload,
            standing,
            rejected,
        })
    }

    /// Takes the newest order.
    async fn take(&mut self) {
        let wanted = self.wanted.borrow_and_update().clone();
        self.current = wanted;
        self.pending = Pending::No;
        let Some(desired) = &self.current.desired else {
            return self.leave().await;
        };
        if step(self.observed().as_ref(), &desired.workload).is_none() {
            let wanted = desired.workload.clone();
            self.keep(&wanted).await;
        } else {
            self.pending = Pending::Turn;
            self.show();
        }
    }

    /// Goes on with what is here: it is what is wanted, or what came back in its place.
    async fn keep(&mut self, wanted: &Workload) {
        let Some(record) = &mut self.record else {
            return;
        };
        let rejected = record.rejects(wanted);
        if !rejected {
            let asked_otherwise = record.workload.health != wanted.health;
            if asked_otherwise {
                record.workload.health.clone_from(&wanted.health);
                self.vitals = None;
            }
            if record.rejected.take().is_some() || asked_otherwise {
                self.write("a later agent will take it for what it was");
            }
        }
        if let Some(record) = &self.record
            && self.vitals.is_none()
            && matches!(self.doing, Doing::Watch(..))
        {
            let vitals = if record.good {
                Vitals::good(&record.workload)
            } else {
                self.trial(&record.workload)
            };
            self.vitals = Some(vitals);
            self.heard(Input::Started).await;
        }
        self.show();
        if self.is_decided() {
            self.settle(None);
        }
    }

    fn trial(&self, workload: &Workload) -> Vitals {
        Vitals::trial(workload, self.around.host.config.pace.settle)
    }

    /// Whether there is nothing to wait for: it is good, or was tried, or rests.
    fn is_decided(&self) -> bool {
        let good = self.record.as_ref().is_some_and(|record| record.good);
        good || self.row.gave_up || matches!(self.doing, Doing::Rest)
    }

    /// Says that the order was done, as far as it can be, and lets those start that come after this one.
    fn settle(&self, refused: Option<RuntimeError>) {
        if self.pending == Pending::Turn {
            return;
        }
        if let Some(desired) = &self.current.desired {
            self.around.gate.open(&desired.workload);
        }
        let order = self.current.order;
        self.told.send_modify(|told| {
            if told.order < order {
                told.order = order;
                told.refused = refused;
            }
        });
    }

    /// Writes down what is known; `lost` is what it means that it is not.
    fn write(&mut self, lost: &'static str) {
        let now = (self.around.host.config.now)();
        let Some(record) = &mut self.record else {
            return;
        };
        record.at = now;
        if let Err(unwritten) = self.around.host.write(record) {
            warn!(module = %self.module, reason = %unwritten, lost, "what became of it is not on disk");
        }
    }

    fn exit(&self, how: String) -> LastExit {
        let at = (self.around.host.config.now)();
        LastExit { at, how }
    }
}
