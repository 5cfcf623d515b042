//! Seats and placements on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use mesh_model::{Assigner, ModuleName, Placement, SeatName, SeatRecord, SeatSpec, Selector};
use serde::{Deserialize, Serialize};

use crate::codec::{optional, text, texts, written};
use crate::error::FieldError;

/// A seat and a module, or nobody: as the files name the holder, and as an operator assigned it.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct HolderV1 {
    seat: String,
    holder: Option<String>,
}

impl HolderV1 {
    pub(in crate::fact) fn declared(seat: &SeatName, holder: Option<&ModuleName>) -> Self {
        Self {
            seat: seat.to_string(),
            holder: holder.map(ToString::to_string),
        }
    }

    pub(in crate::fact) fn assigned(seat: &SeatName, record: &SeatRecord) -> Self {
        Self::declared(seat, record.assigned.as_ref())
    }

    fn read(self) -> Result<(SeatName, Option<ModuleName>), FieldError> {
        Ok((text("seat", self.seat)?, optional("holder", self.holder)?))
    }

    pub(in crate::fact) fn read_declared(self) -> Result<(SeatName, SeatSpec), FieldError> {
        let (seat, holder) = self.read()?;
        Ok((seat, holder.into()))
    }

    pub(in crate::fact) fn read_assigned(self) -> Result<(SeatName, SeatRecord), FieldError> {
        let (seat, assigned) = self.read()?;
        let by = Assigner::Operator;
        Ok((seat, SeatRecord { assigned, by }))
    }
}

/// A seat as the files say it, with how long its holder's nodes may be lost.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct SeatV2 {
    first: HolderV1,
    failover_millis: Option<u64>,
}

impl SeatV2 {
    /// Whether the first form does not say everything.
    pub(in crate::fact) fn needed(spec: &SeatSpec) -> bool {
        spec.failover.is_some()
    }

    pub(in crate::fact) fn new(seat: &SeatName, spec: &SeatSpec) -> Self {
        Self {
            first: HolderV1::declared(seat, spec.holder.as_ref()),
            failover_millis: spec.failover,
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(SeatName, SeatSpec), FieldError> {
        let (seat, first) = self.first.read_declared()?;
        let failover = self.failover_millis;
        Ok((seat, SeatSpec { failover, ..first }))
    }
}

/// A seat as it was assigned, with who did that.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct AssignedV2 {
    first: HolderV1,
    by: AssignerV2,
}

#[derive(Serialize, Deserialize)]
enum AssignerV2 {
    Operator,
    Failover,
}

impl AssignedV2 {
    /// Whether the first form does not say everything.
    pub(in crate::fact) fn needed(record: &SeatRecord) -> bool {
        record.by != Assigner::Operator
    }

    pub(in crate::fact) fn new(seat: &SeatName, record: &SeatRecord) -> Self {
        Self {
            first: HolderV1::assigned(seat, record),
            by: match record.by {
                Assigner::Operator => AssignerV2::Operator,
                Assigner::Failover => AssignerV2::Failover,
            },
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(SeatName, SeatRecord), FieldError> {
        let (seat, first) = self.first.read_assigned()?;
        let by = match self.by {
            AssignerV2::Operator => Assigner::Operator,
            AssignerV2::Failover => Assigner::Failover,
        };
        Ok((seat, SeatRecord { by, ..first }))
    }
}

#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct PlacedV1 {
    module: String,
    on: SelectorV1,
}

#[derive(Serialize, Deserialize)]
enum SelectorV1 {
    Nodes(BTreeSet<String>),
    Labels(BTreeMap<String, String>),
}

impl PlacedV1 {
    pub(in crate::fact) fn new(module: &ModuleName, placement: &Placement) -> Self {
        Self {
            module: module.to_string(),
            on: match &placement.on {
                Selector::Nodes(nodes) => SelectorV1::Nodes(written(nodes)),
                Selector::Labels(labels) => SelectorV1::Labels(labels.clone()),
            },
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(ModuleName, Placement), FieldError> {
        let on = match self.on {
            SelectorV1::Nodes(nodes) => Selector::Nodes(texts("on.nodes", nodes)?),
            SelectorV1::Labels(labels) => Selector::Labels(labels),
        };
        Ok((text("module", self.module)?, Placement { on, count: None }))
    }
}

/// With on how many nodes.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct PlacedV2 {
    first: PlacedV1,
    count: Option<NonZeroU32>,
}

impl PlacedV2 {
    /// Whether the first form does not say everything.
    pub(in crate::fact) fn needed(placement: &Placement) -> bool {
        placement.count.is_some()
    }

    pub(in crate::fact) fn new(module: &ModuleName, placement: &Placement) -> Self {
        Self {
            first: PlacedV1::new(module, placement),
            count: placement.count,
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(ModuleName, Placement), FieldError> {
        let (module, first) = self.first.read()?;
        let count = self.count;
        Ok((module, Placement { count, ..first }))
    }
}
