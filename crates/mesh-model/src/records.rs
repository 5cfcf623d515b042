//! What the controller keeps: what was declared, who enrolled, and which credential is whose.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    BoxPublicKey, BusKind, Declared, InstanceRef, Labels, MeshName, ModuleName, Moving, NodeName,
    PublicKey, Revision, Sealed, SeatName, Timestamp, TokenId,
};

/// Everything the mesh is, as its controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// What was declared.
    pub declared: Declared,
    /// The version of all this.
    pub revision: Revision,
    /// Which life of the records.
    pub incarnation: u64,
    /// What the bus is.
    pub bus: BusFacts,
    /// Enrolled hosts.
    pub nodes: BTreeMap<NodeName, NodeRecord>,
    /// Holders assigned by hand, over what the files say.
    pub seats: BTreeMap<SeatName, SeatRecord>,
    /// Tokens that may still matter.
    pub tokens: BTreeMap<TokenId, TokenRecord>,
    /// Credentials of modules on nodes.
    pub instances: BTreeMap<InstanceRef, InstanceRecord>,
}

impl Records {
    /// A mesh nobody has declared anything for.
    pub fn new(mesh: MeshName, bus: BusFacts) -> Self {
        Self {
            declared: Declared {
                mesh,
                modules: BTreeMap::new(),
                seats: BTreeMap::new(),
                placements: BTreeMap::new(),
            },
            revision: Revision::default(),
            incarnation: 0,
            bus,
            nodes: BTreeMap::new(),
            seats: BTreeMap::new(),
            tokens: BTreeMap::new(),
            instances: BTreeMap::new(),
        }
    }

    /// Who holds a seat now: whom an operator assigned last, else whom the files name.
    pub fn holder(&self, seat: &SeatName) -> Option<&ModuleName> {
        match self.seats.get(seat) {
            Some(SeatRecord { assigned }) => assigned.as_ref(),
            None => self.declared.seats.get(seat).and_then(Option::as_ref),
        }
    }
}

/// What of the bus stands in subjects: the newer form of an ack subject carries both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BusFacts {
    /// The JetStream domain, where there is one.
    pub domain: Option<String>,
    /// What the account that holds JetStream is called: its name on a configured server, its public key in operator
    /// mode. Its hash stands in ack subjects.
    pub account: String,
}

/// An enrolled host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its bus.
    pub bus: BusKind,
    /// Whether it is on its way to another.
    pub moving: Option<Moving>,
    /// Its user key.
    pub key: PublicKey,
    /// The key secrets are sealed to.
    pub box_key: BoxPublicKey,
    /// Its labels.
    pub labels: Labels,
    /// The token it came with.
    pub token: TokenId,
    /// When.
    pub enrolled: Timestamp,
}

/// A holder assigned by hand. There is a record only while it overrides the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatRecord {
    /// The holder, or nobody.
    pub assigned: Option<ModuleName>,
}

/// A token, without what makes it one: the controller keeps the public half of its key, from which the secret half
/// cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// On which bus its holder asks.
    pub bus: BusKind,
    /// The joiner's user key.
    pub key: PublicKey,
    /// When it stops being one.
    pub expires: Timestamp,
    /// The only name it is for.
    pub node: Option<NodeName>,
    /// Labels of the node it makes.
    pub labels: Labels,
    /// It may replace the key of the node it names.
    pub rejoin: bool,
    /// By whom it was spent.
    pub spent: Option<Spent>,
}

impl TokenRecord {
    /// Seconds a token may be good for at most. What waits for its holder is kept for as long.
    pub const LONGEST_SECS: u64 = 30 * 24 * 3600;
}

/// Who spent a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The node it made.
    pub node: NodeName,
    /// With this key.
    pub key: PublicKey,
    /// The node has been heard since, so the joiner's credential is done with.
    pub arrived: bool,
}

/// A credential of one module on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceRecord {
    /// For which bus it is.
    pub bus: BusKind,
    /// The public half.
    pub key: PublicKey,
    /// The secret half, sealed to the node: the controller cannot read it again.
    pub credential: Sealed,
    /// To which of the node's keys it is sealed.
    pub sealed_to: BoxPublicKey,
}
