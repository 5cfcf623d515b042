//! What the controller keeps: what was declared, who enrolled, and which credential is whose.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    BoxPublicKey, EventName, EventRef, InstanceRef, Manifest, ManifestError, MeshName, ModuleName,
    NodeName, PublicKey, Revision, Sealed, SeatName, Timestamp, TokenId,
};

/// A node's labels, for placing modules by what a node is.
pub type Labels = BTreeMap<String, String>;

/// What an operator declared: one directory of files, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// The mesh's name.
    pub mesh: MeshName,
    /// Its modules.
    pub modules: BTreeMap<ModuleName, Manifest>,
    /// Its seats, each with the holder the files name.
    pub seats: BTreeMap<SeatName, Option<ModuleName>>,
    /// Where modules run.
    pub placements: BTreeMap<ModuleName, Placement>,
}

/// Where one module runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Which nodes.
    pub on: Selector,
}

/// Which nodes are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// These.
    Nodes(BTreeSet<NodeName>),
    /// All that have every one of these labels.
    Labels(Labels),
}

impl Selector {
    /// Whether a node is meant.
    pub fn selects(&self, node: &NodeName, labels: &Labels) -> bool {
        match self {
            Self::Nodes(nodes) => nodes.contains(node),
            Self::Labels(wanted) => wanted.iter().all(|(k, v)| labels.get(k) == Some(v)),
        }
    }
}

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

    /// Which modules a node is to run.
    pub fn placed_on<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Manifest> {
        let labels = self.nodes.get(node).map(|record| &record.labels);
        self.declared.modules.values().filter(move |manifest| {
            self.declared
                .placements
                .get(&manifest.module)
                .zip(labels)
                .is_some_and(|(placement, labels)| placement.on.selects(node, labels))
        })
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
    /// The public half.
    pub key: PublicKey,
    /// The secret half, sealed to the node: the controller cannot read it again.
    pub credential: Sealed,
    /// To which of the node's keys it is sealed.
    pub sealed_to: BoxPublicKey,
}

/// A set of declarations that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeshError {
    /// One manifest, by itself.
    #[error("module {module}: {error}")]
    Manifest {
        /// The module.
        module: ModuleName,
        /// What is wrong.
        error: ManifestError,
    },
    /// It follows what nobody emits.
    #[error("module {module}: follows {event}, which {why}")]
    NobodyEmits {
        /// The follower.
        module: ModuleName,
        /// The event.
        event: EventRef,
        /// Whether the module or the event is missing.
        why: &'static str,
    },
    /// A seat nobody registered.
    #[error("module {module}: {field} names seat {seat}, which mesh.toml does not list")]
    UnknownSeat {
        /// The module.
        module: ModuleName,
        /// Which field.
        field: &'static str,
        /// The seat.
        seat: SeatName,
    },
    /// A seat held by a module that cannot.
    #[error("seat {seat}: holder {module} {why}")]
    CannotHold {
        /// The seat.
        seat: SeatName,
        /// The holder.
        module: ModuleName,
        /// Why not.
        why: &'static str,
    },
    /// A module placed that is not declared.
    #[error("place: module {module} is not declared")]
    UnknownPlaced {
        /// The module.
        module: ModuleName,
    },
    /// It starts after a module that is not declared.
    #[error("module {module}: after names {other}, which is not declared")]
    UnknownAfter {
        /// The module.
        module: ModuleName,
        /// The other.
        other: ModuleName,
    },
    /// A circle of `after`.
    #[error("modules {} each start after another of them", list(.modules))]
    AfterCycle {
        /// The circle.
        modules: Vec<ModuleName>,
    },
}

fn list(modules: &[ModuleName]) -> String {
    modules
        .iter()
        .map(ModuleName::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Declared {
    /// Every contradiction, in a stable order; none when it may be applied.
    pub fn check(&self) -> Vec<MeshError> {
        let mut errors = Vec::new();
        for manifest in self.modules.values() {
            self.check_module(manifest, &mut errors);
        }
        for (seat, holder) in &self.seats {
            if let Some(module) = holder
                && let Err(why) = self.can_hold(module, seat)
            {
                errors.push(MeshError::CannotHold {
                    seat: seat.clone(),
                    module: module.clone(),
                    why,
                });
            }
        }
        for module in self.placements.keys() {
            if !self.modules.contains_key(module) {
                errors.push(MeshError::UnknownPlaced {
                    module: module.clone(),
                });
            }
        }
        errors.extend(self.cycle());
        errors
    }

    /// Whether a module may hold a seat, and if not, why.
    pub fn can_hold(&self, module: &ModuleName, seat: &SeatName) -> Result<(), &'static str> {
        match self.modules.get(module) {
            None => Err("is not declared"),
            Some(manifest) if !manifest.can_hold.contains(seat) => {
                Err("does not list it under can_hold")
            }
            Some(_) => Ok(()),
        }
    }

    fn check_module(&self, manifest: &Manifest, errors: &mut Vec<MeshError>) {
        let module = &manifest.module;
        if let Err(error) = manifest.check() {
            errors.push(MeshError::Manifest {
                module: module.clone(),
                error,
            });
        }
        for event in &manifest.follows {
            let why = match self.modules.get(&event.module) {
                None => "no declared module emits: there is no such module",
                Some(_) if event.event == EventName::announced() => continue,
                Some(emitter) if !emitter.emits.contains(&event.event) => {
                    "its module does not list under emits"
                }
                Some(_) => continue,
            };
            errors.push(MeshError::NobodyEmits {
                module: module.clone(),
                event: event.clone(),
                why,
            });
        }
        for (field, seats) in [
            ("can_hold", &manifest.can_hold),
            ("sends_to", &manifest.sends_to),
        ] {
            for seat in seats.iter().filter(|seat| !self.seats.contains_key(*seat)) {
                errors.push(MeshError::UnknownSeat {
                    module: module.clone(),
                    field,
                    seat: seat.clone(),
                });
            }
        }
        for other in &manifest.after {
            if !self.modules.contains_key(other) {
                errors.push(MeshError::UnknownAfter {
                    module: module.clone(),
                    other: other.clone(),
                });
            }
        }
    }

    /// Modules that can never start, because each waits for another of them.
    fn cycle(&self) -> Option<MeshError> {
        let mut waiting: BTreeMap<&ModuleName, BTreeSet<&ModuleName>> = self
            .modules
            .values()
            .map(|m| {
                let after = m
                    .after
                    .iter()
                    .filter(|o| **o != m.module && self.modules.contains_key(*o));
                (&m.module, after.collect())
            })
            .collect();
        loop {
            let ready: Vec<&ModuleName> = waiting
                .iter()
                .filter(|(_, after)| after.is_empty())
                .map(|(module, _)| *module)
                .collect();
            if ready.is_empty() {
                break;
            }
            for module in &ready {
                waiting.remove(module);
            }
            for after in waiting.values_mut() {
                after.retain(|module| !ready.contains(module));
            }
        }
        (!waiting.is_empty()).then(|| MeshError::AfterCycle {
            modules: waiting.into_keys().cloned().collect(),
        })
    }
}
