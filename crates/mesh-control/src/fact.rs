//! What the controller keeps on disk: single facts, and how a set of records becomes another by putting and removing
//! them.

use std::collections::BTreeMap;

use mesh_model::{
    BusFacts, Declaration, InstanceRecord, InstanceRef, Manifest, MeshName, ModuleName, NodeName,
    NodeRecord, Placement, Records, Report, ReportId, Revision, SeatName, SeatRecord, SeatSpec,
    SecretName, SecretRecord, Timestamp, TokenId, TokenRecord,
};

/// One thing that must outlive the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The mesh itself; there is one.
    Mesh(MeshFact),
    /// A module, as declared.
    Module(Manifest),
    /// A seat, as the files say it.
    Seat(SeatName, SeatSpec),
    /// Where a module runs.
    Placed(ModuleName, Placement),
    /// A holder the files do not name.
    Assigned(SeatName, SeatRecord),
    /// An enrolled host.
    Node(NodeName, NodeRecord),
    /// A token.
    Token(TokenId, TokenRecord),
    /// A credential of a module on a node.
    Instance(InstanceRef, InstanceRecord),
    /// A secret an operator set.
    Secret(SecretName, SecretRecord),
    /// What a node was last told.
    Declaration(Declaration),
    /// What a node said.
    Report(Report),
    /// What an operator did.
    Audit(AuditFact),
}

/// The mesh's own fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshFact {
    /// Its name.
    pub name: MeshName,
    /// The version of its records.
    pub revision: Revision,
    /// Which life of the records.
    pub incarnation: u64,
}

/// One change, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFact {
    /// The revision it made.
    pub revision: Revision,
    /// When.
    pub at: Timestamp,
    /// Who, as the surface it came by tells.
    pub who: String,
    /// What, in one sentence.
    pub what: String,
}

/// Which fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKey {
    /// The mesh itself.
    Mesh,
    /// A module.
    Module(ModuleName),
    /// A seat.
    Seat(SeatName),
    /// A placement.
    Placed(ModuleName),
    /// An assignment.
    Assigned(SeatName),
    /// A node.
    Node(NodeName),
    /// A token.
    Token(TokenId),
    /// An instance's credential.
    Instance(InstanceRef),
    /// A secret.
    Secret(SecretName),
    /// A node's declaration.
    Declaration(NodeName),
    /// A report.
    Report(ReportId),
    /// An audit entry.
    Audit(Revision),
}

impl Fact {
    /// Under what it is kept: a fact with an equal key takes its place.
    pub fn key(&self) -> FactKey {
        match self {
            Self::Mesh(_) => FactKey::Mesh,
            Self::Module(manifest) => FactKey::Module(manifest.module.clone()),
            Self::Seat(seat, _) => FactKey::Seat(seat.clone()),
            Self::Placed(module, _) => FactKey::Placed(module.clone()),
            Self::Assigned(seat, _) => FactKey::Assigned(seat.clone()),
            Self::Node(node, _) => FactKey::Node(node.clone()),
            Self::Token(token, _) => FactKey::Token(token.clone()),
            Self::Instance(instance, _) => FactKey::Instance(instance.clone()),
            Self::Secret(secret, _) => FactKey::Secret(secret.clone()),
            Self::Declaration(declaration) => FactKey::Declaration(declaration.node.clone()),
            Self::Report(report) => FactKey::Report(report.id.clone()),
            Self::Audit(audit) => FactKey::Audit(audit.revision),
        }
    }
}

/// One step of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every change puts something, and none lives long"
)]
pub enum Change {
    /// Keep this, in place of what has its key.
    Put(Fact),
    /// Keep what has this key no longer.
    Remove(FactKey),
}

/// Everything that was kept, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The records.
    pub records: Records,
    /// What each node was last told.
    pub declarations: BTreeMap<NodeName, Declaration>,
    /// What each node said last, and the identities of all its kept reports.
    pub reports: BTreeMap<NodeName, Vec<Report>>,
}

impl Kept {
    /// Puts facts together again; nothing when the store is new. `bus` is no fact: it is what the bus says it is.
    pub fn assemble(facts: impl IntoIterator<Item = Fact>, bus: BusFacts) -> Option<Self> {
        let mut mesh = None;
        let mut rest = Vec::new();
        for fact in facts {
            match fact {
                Fact::Mesh(fact) => mesh = Some(fact),
                other => rest.push(other),
            }
        }
        let mesh = mesh?;
        let mut records = Records::new(mesh.name, bus);
        records.revision = mesh.revision;
        records.incarnation = mesh.incarnation;
        let mut kept = Self {
            records,
            declarations: BTreeMap::new(),
            reports: BTreeMap::new(),
        };
        for fact in rest {
            kept.put(fact);
        }
        for reports in kept.reports.values_mut() {
            reports.sort_by_key(|report| (report.id.generation, report.id.seq));
        }
        Some(kept)
    }

    fn put(&mut self, fact: Fact) {
        let records = &mut self.records;
        match fact {
            Fact::Mesh(_) | Fact::Audit(_) => {}
            Fact::Module(manifest) => {
                let modules = &mut records.declared.modules;
                modules.insert(manifest.module.clone(), manifest);
            }
            Fact::Seat(seat, spec) => {
                records.declared.seats.insert(seat, spec);
            }
            Fact::Placed(module, placement) => {
                records.declared.placements.insert(module, placement);
            }
            Fact::Assigned(seat, record) => {
                records.seats.insert(seat, record);
            }
            Fact::Node(node, record) => {
                records.nodes.insert(node, record);
            }
            Fact::Token(token, record) => {
                records.tokens.insert(token, record);
            }
            Fact::Instance(instance, record) => {
                records.instances.insert(instance, record);
            }
            Fact::Secret(secret, record) => {
                records.secrets.insert(secret, record);
            }
            Fact::Declaration(declaration) => {
                let node = declaration.node.clone();
                self.declarations.insert(node, declaration);
            }
            Fact::Report(report) => {
                let node = report.id.node.clone();
                self.reports.entry(node).or_default().push(report);
            }
        }
    }
}

/// The facts of a set of records, besides declarations and reports.
fn facts(records: &Records) -> BTreeMap<FactKey, Fact> {
    let declared = &records.declared;
    let mesh = Fact::Mesh(MeshFact {
        name: declared.mesh.clone(),
        revision: records.revision,
        incarnation: records.incarnation,
    });
    std::iter::once(mesh)
        .chain(declared.modules.values().cloned().map(Fact::Module))
        .chain(pairs(&declared.seats, Fact::Seat))
        .chain(pairs(&declared.placements, Fact::Placed))
        .chain(pairs(&records.seats, Fact::Assigned))
        .chain(pairs(&records.nodes, Fact::Node))
        .chain(pairs(&records.tokens, Fact::Token))
        .chain(pairs(&records.instances, Fact::Instance))
        .chain(pairs(&records.secrets, Fact::Secret))
        .map(|fact| (fact.key(), fact))
        .collect()
}

fn pairs<'a, K: Clone, V: Clone>(
    map: &'a BTreeMap<K, V>,
    fact: impl Fn(K, V) -> Fact + 'a,
) -> impl Iterator<Item = Fact> + 'a {
    map.iter().map(move |(k, v)| fact(k.clone(), v.clone()))
}

/// What to put and remove so that what is kept of `old` becomes what is to be kept of `new`.
pub(crate) fn changes(old: &Records, new: &Records) -> Vec<Change> {
    let mut before = facts(old);
    let mut changes = Vec::new();
    for (key, fact) in facts(new) {
        if before.remove(&key).as_ref() != Some(&fact) {
            changes.push(Change::Put(fact));
        }
    }
    changes.extend(before.into_keys().map(Change::Remove));
    changes
}
