//! An instance becomes something else: what is wanted, what it was before, or nothing.

use mesh_control::convergence::{Step, UNHEALTHY, fallback, step};
use mesh_model::Workload;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Doing, Instance, Pending, Row};
use crate::RuntimeError;
use crate::process::Process;
use crate::record::{Previous, Record};

impl Instance {
    /// It is its turn to become what is wanted.
    pub(super) async fn turn(&mut self) {
        self.pending = Pending::No;
        let Some(desired) = &self.current.desired else {
            return;
        };
        let wanted = desired.workload.clone();
        let observed = self.observed();
        match step(observed.as_ref(), &wanted) {
            Some(Step::Start(_)) => self.begin(&wanted).await,
            Some(Step::Replace(_)) => self.replace(wanted).await,
            // What it is may have become what is wanted while it waited: it went back.
            Some(Step::Stop(_)) | None => self.keep(&wanted).await,
        }
    }

    /// Starts what is not here, or what ended while no agent was there.
    async fn begin(&mut self, wanted: &Workload) {
        let unknown = self.record.is_none() && !self.strays.is_empty();
        if let Err(left) = self.end_strays().await {
            return self.refuse(left);
        }
        if let Some(record) = &self.record {
            let next = self.again(record);
            return self.launch(next).await;
        }
        let mut record = Record::new(wanted.clone());
        // It ran, and somebody had taken away what says as what.
        record.repairs = u32::from(unknown || self.repaired);
        self.repaired = false;
        self.launch(record).await;
    }

    /// Ends what is here and starts what is wanted.
    async fn replace(&mut self, wanted: Workload) {
        let Some(record) = self.record.clone() else {
            return;
        };
        // A host that takes no record now would take none of the next start either: what runs goes on.
        if let Err(unwritten) = self.around.host.write(&record) {
            return self.refuse(unwritten);
        }
        if let Err(left) = self.end().await {
            return self.refuse(left);
        }
        info!(module = %self.module, from = record.workload.release, to = wanted.release, "replaced");
        let next = record.replaced_by(wanted);
        self.afresh();
        self.launch(next).await;
    }

    /// What was started is bad: what was good before it comes back, where there is such a thing.
    pub(super) async fn bad(&mut self, why: String) {
        let Some(record) = self.record.clone() else {
            return;
        };
        self.vitals = None;
        let release = &record.workload.release;
        warn!(module = %self.module, release, why, "bad");
        let wanted = self.current.desired.as_ref();
        let back = record.previous.clone().zip(wanted);
        let back = back.and_then(|(good, wanted)| {
            let workload = fallback(&good.workload, &wanted.workload)?;
            Some(Previous { workload, ..good })
        });
        let Some(back) = back.filter(|_| !record.good) else {
            self.row.gave_up = true;
            if matches!(self.doing, Doing::Watch(..)) {
                self.end_as(format!("{UNHEALTHY}{why}")).await;
            }
            self.show();
            return self.settle(None);
        };
        let (before, ended) = (&back.workload.release, back.ended.is_some());
        let now = if ended { "stands" } else { "runs again" };
        let reason = if release == before {
            format!("release {release} as it is declared now: {why}; as it was before it {now}")
        } else {
            format!("release {release}: {why}; release {before} {now}")
        };
        if let Err(left) = self.end().await {
            // It is tried again with the next order; what is bad goes on until then.
            self.row.gave_up = true;
            self.row.trouble = Some(left.to_string());
            self.show();
            return self.settle(Some(left));
        }
        let exit = self.exit(why);
        let mut next = record.taken_back(back, reason);
        next.last_exit.get_or_insert(exit);
        self.afresh();
        if !ended {
            return self.launch(next).await;
        }
        // What had done its work is not to do it again.
        self.record = Some(next);
        self.doing = Doing::Rest;
        self.write("a later agent will try it again");
        self.show();
        self.settle(None);
    }

    /// Ends what is here and forgets it.
    pub(super) async fn leave(&mut self) {
        self.vitals = None;
        self.repaired |= self.record.is_none() && !self.strays.is_empty();
        let ended = match self.end().await {
            Ok(()) => self.end_strays().await,
            left @ Err(_) => left,
        };
        let forgotten = ended.and_then(|()| self.around.host.forget(&self.module));
        match forgotten {
            Ok(()) => self.forget(),
            Err(left) => {
                self.around.board.explain(&self.module, left.to_string());
                self.tell();
                self.settle(Some(left));
            }
        }
    }

    /// Nothing of it is here any longer.
    pub(super) fn forget(&mut self) {
        if let Err(left) = self.around.host.forget(&self.module) {
            warn!(module = %self.module, reason = %left, "its record stays, and is taken for a module that ended");
        }
        self.record = None;
        self.doing = Doing::Nothing;
        self.afresh();
        self.around.board.remove(&self.module);
        self.tell();
        self.settle(None);
    }

    /// Ends the process that is watched, if there is one. One that cannot be ended is watched on.
    async fn end(&mut self) -> Result<(), RuntimeError> {
        let grace = self.around.host.config.pace.grace;
        if let Doing::Watch(process, _) = &mut self.doing {
            process.stop(&self.module, grace).await?;
            let ending = process.reap();
            info!(module = %self.module, pid = process.number(), %ending, "stopped");
        }
        self.doing = Doing::Nothing;
        Ok(())
    }

    /// Ends whatever is left of it that nobody watches.
    async fn end_strays(&mut self) -> Result<(), RuntimeError> {
        let host = &self.around.host;
        for identity in &self.strays {
            let process = Process::adopt(*identity, host.marks_of(&self.module));
            process.stop(&self.module, host.config.pace.grace).await?;
            info!(module = %self.module, pid = process.number(), "stopped");
        }
        self.strays.clear();
        Ok(())
    }

    /// Whatever was known of its starts says nothing of the next.
    fn afresh(&mut self) {
        self.vitals = None;
        self.row = Row::default();
    }

    /// The host refuses what it takes to become what is wanted: what is here goes on, and it is tried again.
    fn refuse(&mut self, refused: RuntimeError) {
        warn!(module = %self.module, reason = %refused, "it stays as it is");
        self.pending = Pending::Later(Instant::now() + self.around.host.config.pace.longest);
        self.row.trouble = Some(refused.to_string());
        self.show();
        self.settle(Some(refused));
    }
}
