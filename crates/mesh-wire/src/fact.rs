//! What the controller keeps: facts as records, each with its kind and the version of its form.

mod form;
mod key;

use mesh_control::Fact;
use mesh_model::{InstanceRecord, SeatRecord, TokenRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{self, field_of};
use crate::declaration::{DeclarationV1, DeclarationV2};
use crate::error::{FieldError, WireError};
use crate::report::ReportV1;
use form::{
    AuditV1, HolderV1, InstanceV1, MeshV1, ModuleV1, NodeV1, NodeV2, OnBus, PlacedV1, SecretV1,
    TokenV1,
};

pub use key::fact_key;

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
    if let Some((kind, body)) = second(fact) {
        let key = fact_key(&fact.key());
        return DiskEntry {
            key,
            kind,
            version: 2,
            body,
        };
    }
    let (kind, body) = match fact {
        Fact::Mesh(mesh) => (MESH, codec::write(&MeshV1::from(mesh))),
        Fact::Module(manifest) => (MODULE, codec::write(&ModuleV1::from(manifest))),
        Fact::Seat(seat, spec) => {
            let form = HolderV1::declared(seat, spec.holder.as_ref());
            (SEAT, codec::write(&form))
        }
        Fact::Placed(module, placement) => {
            (PLACED, codec::write(&PlacedV1::new(module, placement)))
        }
        Fact::Assigned(seat, record) => (ASSIGNED, codec::write(&HolderV1::assigned(seat, record))),
        Fact::Node(node, record) => (NODE, codec::write(&NodeV1::new(node, record))),
        Fact::Token(token, record) => (TOKEN, codec::write(&TokenV1::new(token, record))),
        Fact::Secret(name, record) => (SECRET, codec::write(&SecretV1::new(name, record))),
        Fact::Instance(instance, record) => {
            (INSTANCE, codec::write(&InstanceV1::new(instance, record)))
        }
        Fact::Declaration(declaration) => {
            (DECLARATION, codec::write(&DeclarationV1::from(declaration)))
        }
        Fact::Report(report) => (REPORT, codec::write(&ReportV1::from(report))),
        Fact::Audit(audit) => (AUDIT, codec::write(&AuditV1::from(audit))),
    };
    DiskEntry {
        key: fact_key(&fact.key()),
        kind,
        version: 1,
        body,
    }
}

/// A fact that the first form of its kind cannot say.
fn second(fact: &Fact) -> Option<(u8, Vec<u8>)> {
    match fact {
        Fact::Node(node, record) => Some((NODE, codec::write(&NodeV2::needed(node, record)?))),
        Fact::Token(token, record) => {
            let form = OnBus::needed(TokenV1::new(token, record), record.bus)?;
            Some((TOKEN, codec::write(&form)))
        }
        Fact::Instance(instance, record) => {
            let form = OnBus::needed(InstanceV1::new(instance, record), record.bus)?;
            Some((INSTANCE, codec::write(&form)))
        }
        Fact::Declaration(declaration) => Some((
            DECLARATION,
            codec::write(&DeclarationV2::needed(declaration)?),
        )),
        _ => None,
    }
}

/// The fact that is kept under `key` as `body`, which is in `version` of the form of `kind`.
pub fn read_fact(key: &[u8], kind: u8, version: u8, body: &[u8]) -> Result<Fact, WireError> {
    let what = word(kind).ok_or(WireError::UnknownKind { kind })?;
    let fact = match version {
        1 => read_v1(what, kind, body)?,
        2 if matches!(kind, NODE | TOKEN | INSTANCE | DECLARATION) => {
            let fact = read_v2(what, kind, body)?;
            // Written the first way where that says all of it: each fact has one form.
            if second(&fact).is_none() {
                return Err(WireError::Malformed {
                    what,
                    why: "it is in a later version than it needs".to_owned(),
                });
            }
            fact
        }
        0 => {
            return Err(WireError::Malformed {
                what,
                why: "there is no version 0".to_owned(),
            });
        }
        newer => {
            return Err(WireError::Newer {
                what,
                found: newer.into(),
                known: known(kind),
            });
        }
    };
    let expected = fact_key(&fact.key());
    if key == expected {
        Ok(fact)
    } else {
        Err(WireError::WrongKey {
            what,
            found: key.escape_ascii().to_string(),
            expected: expected.escape_ascii().to_string(),
        })
    }
}

/// The newest version of a kind's form.
fn known(kind: u8) -> u32 {
    if matches!(kind, NODE | TOKEN | INSTANCE | DECLARATION) {
        2
    } else {
        1
    }
}

fn read_v2(what: &'static str, kind: u8, body: &[u8]) -> Result<Fact, WireError> {
    match kind {
        NODE => read(what, body, |form: NodeV2| {
            form.read().map(|(node, record)| Fact::Node(node, record))
        }),
        TOKEN => read(what, body, |form: OnBus<TokenV1>| {
            let (first, bus) = form.read();
            let (token, record) = first.read()?;
            Ok(Fact::Token(token, TokenRecord { bus, ..record }))
        }),
        INSTANCE => read(what, body, |form: OnBus<InstanceV1>| {
            let (first, bus) = form.read();
            let (instance, record) = first.read()?;
            Ok(Fact::Instance(instance, InstanceRecord { bus, ..record }))
        }),
        DECLARATION => read(what, body, |form: DeclarationV2| {
            form.try_into().map(Fact::Declaration)
        }),
        kind => Err(WireError::UnknownKind { kind }),
    }
}

fn read_v1(what: &'static str, kind: u8, body: &[u8]) -> Result<Fact, WireError> {
    match kind {
        MESH => read(what, body, |form: MeshV1| form.try_into().map(Fact::Mesh)),
        MODULE => read(what, body, |form: ModuleV1| {
            form.try_into().map(Fact::Module)
        }),
        SEAT => read(what, body, |form: HolderV1| {
            form.read()
                .map(|(seat, holder)| Fact::Seat(seat, holder.into()))
        }),
        PLACED => read(what, body, |form: PlacedV1| {
            form.read().map(|(module, on)| Fact::Placed(module, on))
        }),
        ASSIGNED => read(what, body, |form: HolderV1| {
            let (seat, assigned) = form.read()?;
            Ok(Fact::Assigned(
                seat,
                SeatRecord {
                    assigned,
                    by: mesh_model::Assigner::Operator,
                },
            ))
        }),
        NODE => read(what, body, |form: NodeV1| {
            form.read().map(|(node, record)| Fact::Node(node, record))
        }),
        SECRET => read(what, body, |form: SecretV1| {
            form.read().map(|(name, record)| Fact::Secret(name, record))
        }),
        TOKEN => read(what, body, |form: TokenV1| {
            let (token, record) = form.read()?;
            Ok(Fact::Token(token, record))
        }),
        INSTANCE => read(what, body, |form: InstanceV1| {
            let (instance, record) = form.read()?;
            Ok(Fact::Instance(instance, record))
        }),
        DECLARATION => read(what, body, |form: DeclarationV1| {
            form.try_into().map(Fact::Declaration)
        }),
        REPORT => read(what, body, |form: ReportV1| {
            form.try_into().map(Fact::Report)
        }),
        AUDIT => read(what, body, |form: AuditV1| Ok(Fact::Audit(form.into()))),
        kind => Err(WireError::UnknownKind { kind }),
    }
}

fn read<T: Serialize + DeserializeOwned>(
    what: &'static str,
    body: &[u8],
    fact: impl FnOnce(T) -> Result<Fact, FieldError>,
) -> Result<Fact, WireError> {
    fact(codec::read_plain(what, body)?).map_err(field_of(what))
}

/// What a kind is, for people.
fn word(kind: u8) -> Option<&'static str> {
    Some(match kind {
        MESH => "mesh record",
        MODULE => "module record",
        SEAT => "seat record",
        PLACED => "placement record",
        ASSIGNED => "assignment record",
        NODE => "node record",
        TOKEN => "token record",
        SECRET => "secret",
        INSTANCE => "instance record",
        DECLARATION => "declaration record",
        REPORT => "report record",
        AUDIT => "audit record",
        _ => return None,
    })
}
