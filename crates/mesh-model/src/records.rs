//! What the controller keeps: what was declared, who enrolled, and which credential is whose.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    BoxPublicKey, BusKind, Declared, HandedSecret, InstanceRef, Labels, MeshName, ModuleName,
    Moving, NodeName, PublicKey, Revision, Sealed, SeatName, SecretName, SecretRecord, Timestamp,
    TokenId,
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
    /// Secrets an operator set.
    pub secrets: BTreeMap<SecretName, SecretRecord>,
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
            secrets: BTreeMap::new(),
        }
    }

    /// Who holds a seat now: whom an operator assigned last, else whom the files name.
    pub fn holder(&self, seat: &SeatName) -> Option<&ModuleName> {
        match self.seats.get(seat) {
            Some(SeatRecord { assigned, .. }) => assigned.as_ref(),
            None => self.declared.seats.get(seat)?.holder.as_ref(),
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
    /// Whether modules are placed on it.
    pub scheduling: Scheduling,
}

/// Whether modules are placed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// They are.
    #[default]
    Open,
    /// None that is not there already.
    Cordoned,
    /// None, and those that were there have gone.
    Drained,
}

impl Scheduling {
    /// The word for tables and metric labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Cordoned => "cordoned",
            Self::Drained => "drained",
        }
    }
}

/// A holder the files do not name. There is a record only while it overrides them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatRecord {
    /// The holder, or nobody.
    pub assigned: Option<ModuleName>,
    /// Who decided that.
    pub by: Assigner,
}

/// Who assigned a seat against the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assigner {
    /// An operator.
    #[default]
    Operator,
    /// The controller, because every node of the holder before was lost.
    Failover,
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
    /// The values of the secrets its manifest names, sealed to the same key.
    pub secrets: BTreeMap<SecretName, HandedSecret>,
    /// How old it is, and which ones came before it.
    pub life: CredentialLife,
}

/// Where a credential is between being made and being replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CredentialLife {
    /// When it was made; nothing where an earlier release did not say.
    pub made: Option<Timestamp>,
    /// The one before it, which is good for a while longer.
    pub retiring: Option<Retiring>,
    /// Keys of those before it which a running module was started with and need not be restarted for.
    pub accepts: BTreeSet<PublicKey>,
}

/// A credential that has been replaced and is still good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retiring {
    /// Its public half.
    pub key: PublicKey,
    /// When the bus knows it no longer.
    pub until: Timestamp,
}
