//! Reading facts: every version of every kind, each fact in the one it is written in.

use mesh_control::Fact;
use mesh_model::{InstanceRecord, TokenRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::form::{
    AssignedV2, AuditV1, HolderV1, InstanceV1, InstanceV3, MeshV1, ModuleV1, ModuleV2, NodeV1,
    NodeV2, NodeV3, OnBus, PlacedV1, PlacedV2, SeatV2, SecretV1, TokenV1,
};
use super::{
    ASSIGNED, AUDIT, DECLARATION, INSTANCE, MESH, MODULE, NODE, PLACED, REPORT, SEAT, SECRET,
    TOKEN, fact_key,
};
use crate::codec::{self, field_of};
use crate::declaration::{DeclarationV1, DeclarationV2, DeclarationV3};
use crate::error::{FieldError, WireError};
use crate::report::{ReportV1, ReportV2};

/// The fact that is kept under `key` as `body`, which is in `version` of the form of `kind`.
pub fn read_fact(key: &[u8], kind: u8, version: u8, body: &[u8]) -> Result<Fact, WireError> {
    let (what, known) = described(kind).ok_or(WireError::UnknownKind { kind })?;
    let fact = match version {
        0 => {
            return Err(WireError::Malformed {
                what,
                why: "there is no version 0".to_owned(),
            });
        }
        1 => first(what, kind, body),
        2 if known >= 2 => second(what, kind, body),
        3 if known >= 3 => third(what, kind, body),
        newer => {
            return Err(WireError::Newer {
                what,
                found: newer.into(),
                known,
            });
        }
    }?;
    codec::no_later(what, version, super::version(&fact))?;
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

fn first(what: &'static str, kind: u8, body: &[u8]) -> Result<Fact, WireError> {
    match kind {
        MESH => read(what, body, |form: MeshV1| form.try_into().map(Fact::Mesh)),
        MODULE => read(what, body, |form: ModuleV1| {
            form.try_into().map(Fact::Module)
        }),
        SEAT => read(what, body, |form: HolderV1| {
            form.read_declared()
                .map(|(seat, spec)| Fact::Seat(seat, spec))
        }),
        PLACED => read(what, body, |form: PlacedV1| {
            form.read().map(|(module, on)| Fact::Placed(module, on))
        }),
        ASSIGNED => read(what, body, |form: HolderV1| {
            let (seat, record) = form.read_assigned()?;
            Ok(Fact::Assigned(seat, record))
        }),
        NODE => read(what, body, |form: NodeV1| {
            form.read().map(|(node, record)| Fact::Node(node, record))
        }),
        TOKEN => read(what, body, |form: TokenV1| {
            let (token, record) = form.read()?;
            Ok(Fact::Token(token, record))
        }),
        INSTANCE => read(what, body, |form: InstanceV1| {
            let (instance, record) = form.read()?;
            Ok(Fact::Instance(instance, record))
        }),
        SECRET => read(what, body, |form: SecretV1| {
            form.read().map(|(name, record)| Fact::Secret(name, record))
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

fn second(what: &'static str, kind: u8, body: &[u8]) -> Result<Fact, WireError> {
    match kind {
        MODULE => read(what, body, |form: ModuleV2| {
            form.try_into().map(Fact::Module)
        }),
        SEAT => read(what, body, |form: SeatV2| {
            form.read().map(|(seat, spec)| Fact::Seat(seat, spec))
        }),
        PLACED => read(what, body, |form: PlacedV2| {
            form.read().map(|(module, on)| Fact::Placed(module, on))
        }),
        ASSIGNED => read(what, body, |form: AssignedV2| {
            form.read()
                .map(|(seat, record)| Fact::Assigned(seat, record))
        }),
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
        REPORT => read(what, body, |form: ReportV2| {
            form.try_into().map(Fact::Report)
        }),
        kind => Err(WireError::UnknownKind { kind }),
    }
}

fn third(what: &'static str, kind: u8, body: &[u8]) -> Result<Fact, WireError> {
    match kind {
        NODE => read(what, body, |form: NodeV3| {
            form.read().map(|(node, record)| Fact::Node(node, record))
        }),
        INSTANCE => read(what, body, |form: InstanceV3| {
            let (instance, record) = form.read()?;
            Ok(Fact::Instance(instance, record))
        }),
        DECLARATION => read(what, body, |form: DeclarationV3| {
            form.try_into().map(Fact::Declaration)
        }),
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

/// What a kind is, for people, and how many versions its form has.
fn described(kind: u8) -> Option<(&'static str, u32)> {
    Some(match kind {
        MESH => ("mesh record", 1),
        MODULE => ("module record", 2),
        SEAT => ("seat record", 2),
        PLACED => ("placement record", 2),
        ASSIGNED => ("assignment record", 2),
        NODE => ("node record", 3),
        TOKEN => ("token record", 2),
        INSTANCE => ("instance record", 3),
        DECLARATION => ("declaration record", 3),
        REPORT => ("report record", 2),
        AUDIT => ("audit record", 1),
        SECRET => ("secret record", 1),
        _ => return None,
    })
}
