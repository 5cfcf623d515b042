//! What is derived: a value that a bus is brought to.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    ConsumerRef, ConsumerSpec, Filter, Grant, Principal, PublicKey, StreamName, StreamSpec,
};
use serde::Serialize;

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
}

impl Plan {
    pub(crate) fn new(accounts: Accounts) -> Self {
        Self {
            accounts,
            streams: BTreeMap::new(),
            consumers: BTreeMap::new(),
            grants: BTreeMap::new(),
            reads: BTreeMap::new(),
            users: BTreeMap::new(),
        }
    }

    pub(crate) fn add_stream(&mut self, stream: StreamSpec) {
        self.streams.insert(stream.name.clone(), stream);
    }

    pub(crate) fn add_consumer(&mut self, consumer: ConsumerSpec) {
        self.consumers.insert(consumer.consumer.clone(), consumer);
    }

    /// A principal with a key of its own. A key that is somebody's already stays theirs: nobody's authority is ever
    /// replaced by another's, and the check names who is left without.
    pub(crate) fn add_user(&mut self, key: &PublicKey, principal: Principal, grant: Grant) {
        self.grants.insert(principal.clone(), grant);
        self.users.entry(key.clone()).or_insert(principal);
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

impl Accounts {
    /// Whether somebody in `EDGE` who publishes here is heard in `MESH`.
    pub(crate) fn carries_to_mesh(&self, filter: &Filter) -> bool {
        let services = self.mesh_exports.iter().filter_map(Share::service);
        let streams = self.edge_exports.iter().filter_map(Share::stream);
        services.chain(streams).any(|s| filter.is_subset_of(s))
    }

    /// Whether somebody in `EDGE` who subscribes here hears `MESH`.
    pub(crate) fn carries_to_edge(&self, filter: &Filter) -> bool {
        let mut streams = self.mesh_exports.iter().filter_map(Share::stream);
        streams.any(|stream| filter.is_subset_of(stream))
    }
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
    fn stream(&self) -> Option<&Filter> {
        match self {
            Self::Stream(filter) => Some(filter),
            Self::Service(_) => None,
        }
    }

    fn service(&self) -> Option<&Filter> {
        match self {
            Self::Service(filter) => Some(filter),
            Self::Stream(_) => None,
        }
    }
}
