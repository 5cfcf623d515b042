//! Reports the bus has not confirmed: few, in order, one on its way at a time.

use std::collections::{BTreeMap, VecDeque};

use mesh_model::{
    Generation, ModuleName, ModuleReport, NodeName, Outcome, Report, ReportId, Seq, Timestamp,
};

use crate::pause::due;

/// Reports kept; each holds the node's whole state, so the newest ones say everything.
const ROOM: usize = 16;

#[derive(Debug)]
pub(super) struct Outbox {
    seq: Seq,
    unsent: VecDeque<Report>,
    sending: Option<Seq>,
    /// It was asked for again while it was on its way, perhaps over another bus: it goes once more.
    once_more: bool,
    again: Option<Timestamp>,
    /// Milliseconds between two attempts.
    retry: u64,
}

impl Outbox {
    pub(super) fn new(seq: Seq, unsent: Vec<Report>, retry: u64) -> Self {
        Self {
            seq,
            unsent: unsent.into(),
            sending: None,
            once_more: false,
            again: None,
            retry,
        }
    }

    pub(super) fn seq(&self) -> Seq {
        self.seq
    }

    pub(super) fn unsent(&self) -> Vec<Report> {
        self.unsent.iter().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    /// A new report. What an earlier generation has to say does not matter any more.
    pub(super) fn add(
        &mut self,
        node: NodeName,
        generation: Generation,
        outcome: Outcome,
        modules: BTreeMap<ModuleName, ModuleReport>,
        now: Timestamp,
    ) -> Report {
        // Drawn from the clock as well as from what is on disk, so that it grows even when the disk was lost.
        self.seq = Seq(self.seq.0.saturating_add(1).max(now.as_millis()));
        let report = Report {
            id: ReportId {
                node,
                generation,
                seq: self.seq,
            },
            at: now,
            outcome,
            modules,
        };
        self.unsent.retain(|old| old.id.generation >= generation);
        self.push(report.clone());
        report
    }

    /// One that was sent before is asked for again.
    pub(super) fn again(&mut self, report: Report) {
        if self.sending == Some(report.id.seq) {
            self.once_more = true;
        }
        if !self.unsent.iter().any(|other| other.id == report.id) {
            self.push(report);
        }
    }

    fn push(&mut self, report: Report) {
        self.unsent.push_back(report);
        while self.unsent.len() > ROOM {
            self.unsent.pop_front();
        }
    }

    /// The next to send, unless one is on its way or it is too early.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<Report> {
        let due = self.again.is_none_or(|again| due(again, now, self.retry));
        if self.sending.is_some() || !due {
            return None;
        }
        let report = self.unsent.front()?.clone();
        self.sending = Some(report.id.seq);
        Some(report)
    }

    pub(super) fn sent(&mut self, seq: Seq) {
        let on_its_way = self.sending == Some(seq);
        if on_its_way {
            self.sending = None;
            self.again = None;
        }
        let once_more = on_its_way && std::mem::take(&mut self.once_more);
        if !once_more {
            self.unsent.retain(|report| report.id.seq != seq);
        }
    }

    /// Answers whether this is the first failure in a row, which is worth a line.
    pub(super) fn failed(&mut self, seq: Seq, now: Timestamp) -> bool {
        if self.sending == Some(seq) {
            self.sending = None;
            // It goes again anyhow.
            self.once_more = false;
        }
        self.again.replace(now.plus(self.retry)).is_none()
    }

    pub(super) fn retry_now(&mut self) {
        self.again = None;
    }
}
