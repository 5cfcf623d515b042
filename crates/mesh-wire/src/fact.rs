//! What the controller keeps: facts as records, each with its kind and the version of its form.

mod form;
mod key;
mod read;

use mesh_control::Fact;
use mesh_model::BusKind;

use crate::codec;
use crate::declaration::{self, kept_declaration};
use crate::report::{self, kept_report};
use form::{
    AssignedV2, AuditV1, HolderV1, InstanceV1, InstanceV3, MeshV1, ModuleV1, ModuleV2, NodeV1,
    NodeV2, NodeV3, OnBus, PlacedV1, PlacedV2, SeatV2, SecretV1, TokenV1,
};

pub use key::fact_key;
pub use read::read_fact;

/// A fact as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskEntry {
    /// Where: see [`fact_key`].
    pub key: Vec<u8>,
    /// What it is a fact of.
    pub kind: u8,
    /// In which version its body is.
    pub version: u8,
    /// What it says, the key's part included.
    pub body: Vec<u8>,
}

/// The numbers of the kinds. They stand on disk: one is never given to another kind.
const MESH: u8 = 1;
const MODULE: u8 = 2;
const SEAT: u8 = 3;
const PLACED: u8 = 4;
const ASSIGNED: u8 = 5;
const NODE: u8 = 6;
const TOKEN: u8 = 7;
const INSTANCE: u8 = 8;
const DECLARATION: u8 = 9;
const REPORT: u8 = 10;
const AUDIT: u8 = 11;
const SECRET: u8 = 12;

/// A fact as it is kept, in the one version that says all of it: the first, wherever that does.
pub fn fact_entry(fact: &Fact) -> DiskEntry {
    let version = version(fact);
    DiskEntry {
        key: fact_key(&fact.key()),
        kind: kind(fact),
        version,
        body: body(fact, version),
    }
}

const fn kind(fact: &Fact) -> u8 {
    match fact {
        Fact::Mesh(_) => MESH,
        Fact::Module(_) => MODULE,
        Fact::Seat(..) => SEAT,
        Fact::Placed(..) => PLACED,
        Fact::Assigned(..) => ASSIGNED,
        Fact::Node(..) => NODE,
        Fact::Token(..) => TOKEN,
        Fact::Instance(..) => INSTANCE,
        Fact::Secret(..) => SECRET,
        Fact::Declaration(_) => DECLARATION,
        Fact::Report(_) => REPORT,
        Fact::Audit(_) => AUDIT,
    }
}

/// The first version of its kind's form that can say it, and so the only one it is written in.
fn version(fact: &Fact) -> u8 {
    match fact {
        Fact::Mesh(_) | Fact::Secret(..) | Fact::Audit(_) => 1,
        Fact::Module(manifest) => later(ModuleV2::needed(manifest)),
        Fact::Seat(_, spec) => later(SeatV2::needed(spec)),
        Fact::Placed(_, placement) => later(PlacedV2::needed(placement)),
        Fact::Assigned(_, record) => later(AssignedV2::needed(record)),
        Fact::Node(_, record) if NodeV3::needed(record) => 3,
        Fact::Node(_, record) => later(NodeV2::needed(record)),
        Fact::Token(_, record) => later(record.bus != BusKind::Nats),
        Fact::Instance(_, record) if InstanceV3::needed(record) => 3,
        Fact::Instance(_, record) => later(record.bus != BusKind::Nats),
        Fact::Declaration(declaration) => declaration::version(declaration),
        Fact::Report(report) => report::version(report),
    }
}

const fn later(needed: bool) -> u8 {
    if needed { 2 } else { 1 }
}

fn body(fact: &Fact, version: u8) -> Vec<u8> {
    match (fact, version) {
        (Fact::Mesh(mesh), _) => codec::write(&MeshV1::from(mesh)),
        (Fact::Module(manifest), 1) => codec::write(&ModuleV1::from(manifest)),
        (Fact::Module(manifest), _) => codec::write(&ModuleV2::from(manifest)),
        (Fact::Seat(seat, spec), 1) => {
            codec::write(&HolderV1::declared(seat, spec.holder.as_ref()))
        }
        (Fact::Seat(seat, spec), _) => codec::write(&SeatV2::new(seat, spec)),
        (Fact::Placed(module, on), 1) => codec::write(&PlacedV1::new(module, on)),
        (Fact::Placed(module, on), _) => codec::write(&PlacedV2::new(module, on)),
        (Fact::Assigned(seat, record), 1) => codec::write(&HolderV1::assigned(seat, record)),
        (Fact::Assigned(seat, record), _) => codec::write(&AssignedV2::new(seat, record)),
        (Fact::Node(node, record), 1) => codec::write(&NodeV1::new(node, record)),
        (Fact::Node(node, record), 2) => codec::write(&NodeV2::new(node, record)),
        (Fact::Node(node, record), _) => codec::write(&NodeV3::new(node, record)),
        (Fact::Token(token, record), 1) => codec::write(&TokenV1::new(token, record)),
        (Fact::Token(token, record), _) => {
            codec::write(&OnBus::new(TokenV1::new(token, record), record.bus))
        }
        (Fact::Instance(of, record), 1) => codec::write(&InstanceV1::new(of, record)),
        (Fact::Instance(of, record), 2) => {
            codec::write(&OnBus::new(InstanceV1::new(of, record), record.bus))
        }
        (Fact::Instance(of, record), _) => codec::write(&InstanceV3::new(of, record)),
        (Fact::Secret(name, record), _) => codec::write(&SecretV1::new(name, record)),
        (Fact::Declaration(declaration), _) => kept_declaration(declaration),
        (Fact::Report(report), _) => kept_report(report),
        (Fact::Audit(audit), _) => codec::write(&AuditV1::from(audit)),
    }
}
