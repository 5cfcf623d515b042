//! Seats: who holds each, who else could, and what waits.

use mesh_model::{Assigner, ModuleName, NodeName, SeatName, Timestamp};
use serde::{Deserialize, Serialize};

use crate::controller::Controller;
use crate::failover::{candidates, nodes_of};
use crate::placement::Mint;

/// One seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatStatus {
    /// Its name.
    pub seat: SeatName,
    /// Who holds it.
    pub holder: Option<ModuleName>,
    /// The holder was assigned by hand, over what the files say.
    pub by_hand: bool,
    /// Who decided who holds it.
    #[serde(default)]
    pub by: HeldBy,
    /// Milliseconds its holder may be lost before another takes it; nothing where an operator decides.
    #[serde(default)]
    pub failover: Option<u64>,
    /// What keeps it from being worked, in one sentence.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Milliseconds until it goes to another by itself.
    #[serde(default)]
    pub fails_over_in: Option<u64>,
    /// Every module that can hold it.
    #[serde(default)]
    pub candidates: Vec<Candidate>,
    /// Messages that are not settled: they wait, or are out with the holder; nothing where the bus does not tell.
    #[serde(default)]
    pub backlog: Option<u64>,
    /// Milliseconds since the oldest of them was sent; nothing where there is none, or the bus does not tell.
    #[serde(default)]
    pub oldest: Option<u64>,
}

/// Who decided who holds a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// The files.
    #[default]
    Declared,
    /// An operator, over what the files say.
    Operator,
    /// The controller, because the holder before was lost.
    Failover,
}

impl HeldBy {
    /// The word for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Operator => "assigned",
            Self::Failover => "failover",
        }
    }
}

/// A module that can hold a seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The module.
    pub module: ModuleName,
    /// The nodes it is on.
    pub nodes: Vec<NodeName>,
    /// Whether one of those is heard, so that it could work the seat now.
    pub heard: bool,
}

impl<M: Mint> Controller<M> {
    /// Every seat; what waits there is the bus's to tell.
    pub(super) fn seat_statuses(&self, now: Timestamp) -> Vec<SeatStatus> {
        let records = self.records();
        let seats = records.declared.seats.iter();
        let status = seats.map(|(seat, spec)| {
            let by = match records.seats.get(seat).map(|record| record.by) {
                None => HeldBy::Declared,
                Some(Assigner::Operator) => HeldBy::Operator,
                Some(Assigner::Failover) => HeldBy::Failover,
            };
            let (trouble, fails_over_in) = self.trouble(seat, now).unzip();
            let candidate = |module: &ModuleName| Candidate {
                module: module.clone(),
                nodes: nodes_of(records, module).cloned().collect(),
                heard: self.could_work(module, now),
            };
            SeatStatus {
                seat: seat.clone(),
                holder: records.holder(seat).cloned(),
                by_hand: by == HeldBy::Operator,
                by,
                failover: spec.failover,
                trouble,
                fails_over_in: fails_over_in.flatten(),
                candidates: candidates(records, seat).map(candidate).collect(),
                backlog: None,
                oldest: None,
            }
        });
        status.collect()
    }
}
