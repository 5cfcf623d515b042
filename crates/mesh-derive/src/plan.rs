//! What is derived: a value that a bus is brought to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mesh_model::{
    BusKind, ConsumerRef, ConsumerSpec, Filter, Grant, Principal, PublicKey, StreamName, StreamSpec,
};
use serde::Serialize;

use crate::subject;

/// Everything the bus is to hold, and who may do what on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What the two accounts share.
    pub accounts: Accounts,
    /// Every stream.
    pub streams: BTreeMap<StreamName, StreamSpec>,
    /// Every consumer.
    pub consumers: BTreeMap<ConsumerRef, ConsumerSpec>,
    /// Every principal's authority.
    pub grants: BTreeMap<Principal, Grant>,
    /// What was declared for each to hear: what its consumers must select, and no more.
    pub reads: BTreeMap<Principal, BTreeSet<Filter>>,
    /// Whose key is whose. The controller's own is the bus's to add: it is no record.
    pub users: BTreeMap<PublicKey, Principal>,
    /// Keys of theirs that were replaced and are good for a while longer: whoever has one may what its owner may.
    pub retiring: BTreeMap<PublicKey, Principal>,
    /// What of it each bus holds, in a mesh of two; nothing where one bus holds all. See [`part`](crate::part).
    pub parts: BTreeMap<BusKind, Self>,
    /// Consumers of this bus whose readers are all on the other: the controller reads them, and carries what it reads
    /// there.
    pub carried: BTreeSet<ConsumerRef>,
}

impl Plan {
    /// Whether this is what one bus of two holds: there events may come from the other.
    pub(crate) fn is_part(&self) -> bool {
        let events = self.streams.get(&subject::events_stream());
        events.is_some_and(|stream| stream.subjects.contains(&subject::all_carries()))
    }

    /// What this bus holds of it: all of it, where there is no other.
    pub fn on(&self, bus: BusKind) -> &Self {
        self.parts.get(&bus).unwrap_or(self)
    }
}

/// What crosses between the account that holds JetStream (`MESH`) and the one everybody else lives in (`EDGE`).
///
/// Each share is exported by one and imported by the other under the same subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accounts {
    /// `MESH` to `EDGE`.
    pub mesh_exports: BTreeSet<Share>,
    /// `EDGE` to `MESH`.
    pub edge_exports: BTreeSet<Share>,
}

/// One subject shared between accounts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Messages flow from the exporter to the importer.
    Stream(Filter),
    /// The importer publishes, the exporter answers.
    Service(Filter),
}

impl Share {
    /// What is shared.
    pub fn filter(&self) -> &Filter {
        match self {
            Self::Stream(filter) | Self::Service(filter) => filter,
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.stream().is_some()
    }

    pub(crate) fn stream(&self) -> Option<&Filter> {
        match self {
            Self::Stream(filter) => Some(filter),
            Self::Service(_) => None,
        }
    }

    pub(crate) fn service(&self) -> Option<&Filter> {
        match self {
            Self::Service(filter) => Some(filter),
            Self::Stream(_) => None,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_stream() {
            "stream"
        } else {
            "service"
        };
        write!(f, "{kind} {}", self.filter())
    }
}
