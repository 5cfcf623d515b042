//! The bodies of facts on disk. A form never changes: a fact that must say more gets the next version.

mod credential;
mod module;
mod node;
mod seats;

use mesh_control::{AuditFact, MeshFact};
use mesh_model::{Revision, Sealed, SecretName, SecretRecord, Timestamp};
use serde::{Deserialize, Serialize};

use crate::codec::text;
use crate::error::FieldError;

pub(super) use credential::{InstanceV1, InstanceV3, OnBus, TokenV1};
pub(super) use module::{ModuleV1, ModuleV2};
pub(super) use node::{NodeV1, NodeV2, NodeV3};
pub(super) use seats::{AssignedV2, HolderV1, PlacedV1, PlacedV2, SeatV2};

#[derive(Serialize, Deserialize)]
pub(super) struct MeshV1 {
    name: String,
    revision: u64,
    incarnation: u64,
}

impl From<&MeshFact> for MeshV1 {
    fn from(mesh: &MeshFact) -> Self {
        Self {
            name: mesh.name.to_string(),
            revision: mesh.revision.0,
            incarnation: mesh.incarnation,
        }
    }
}

impl TryFrom<MeshV1> for MeshFact {
    type Error = FieldError;
    fn try_from(form: MeshV1) -> Result<Self, FieldError> {
        Ok(Self {
            name: text("name", form.name)?,
            revision: Revision(form.revision),
            incarnation: form.incarnation,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct SecretV1 {
    secret: String,
    version: u64,
    set_millis: u64,
    sealed: Vec<u8>,
}

impl SecretV1 {
    pub(super) fn new(secret: &SecretName, record: &SecretRecord) -> Self {
        Self {
            secret: secret.to_string(),
            version: record.version,
            set_millis: record.set.as_millis(),
            sealed: record.sealed.0.clone(),
        }
    }

    pub(super) fn read(self) -> Result<(SecretName, SecretRecord), FieldError> {
        let record = SecretRecord {
            version: self.version,
            set: Timestamp::from_millis(self.set_millis),
            sealed: Sealed(self.sealed),
        };
        Ok((text("secret", self.secret)?, record))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct AuditV1 {
    revision: u64,
    at_millis: u64,
    who: String,
    what: String,
}

impl From<&AuditFact> for AuditV1 {
    fn from(audit: &AuditFact) -> Self {
        Self {
            revision: audit.revision.0,
            at_millis: audit.at.as_millis(),
            who: audit.who.clone(),
            what: audit.what.clone(),
        }
    }
}

impl From<AuditV1> for AuditFact {
    fn from(form: AuditV1) -> Self {
        Self {
            revision: Revision(form.revision),
            at: Timestamp::from_millis(form.at_millis),
            who: form.who,
            what: form.what,
        }
    }
}
