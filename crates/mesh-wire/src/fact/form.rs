//! The bodies of facts on disk. A form never changes: a fact that must say more gets the next version.

use std::collections::{BTreeMap, BTreeSet};

use mesh_control::{AuditFact, MeshFact};
use mesh_model::{
    BusKind, InstanceRecord, InstanceRef, Manifest, ModuleName, Moving, NodeName, NodeRecord,
    Placement, Revision, Sealed, SeatName, SeatRecord, SecretName, SecretRecord, Selector, Spent,
    Timestamp, TokenId, TokenRecord,
};
use serde::{Deserialize, Serialize};

use crate::codec::{optional, text, texts, written};
use crate::declaration::{BusV2, RestartV1, RunV1};
use crate::error::FieldError;

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
pub(super) struct ModuleV1 {
    module: String,
    release: String,
    run: RunV1,
    after: BTreeSet<String>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    emits: BTreeSet<String>,
    follows: BTreeSet<String>,
    can_hold: BTreeSet<String>,
    sends_to: BTreeSet<String>,
}

impl From<&Manifest> for ModuleV1 {
    fn from(manifest: &Manifest) -> Self {
        Self {
            module: manifest.module.to_string(),
            release: manifest.release.clone(),
            run: (&manifest.run).into(),
            after: written(&manifest.after),
            env: manifest.env.clone(),
            restart: manifest.restart.into(),
            emits: written(&manifest.emits),
            follows: written(&manifest.follows),
            can_hold: written(&manifest.can_hold),
            sends_to: written(&manifest.sends_to),
        }
    }
}

impl TryFrom<ModuleV1> for Manifest {
    type Error = FieldError;
    fn try_from(form: ModuleV1) -> Result<Self, FieldError> {
        Ok(Self {
            module: text("module", form.module)?,
            release: form.release,
            run: form.run.into(),
            after: texts("after", form.after)?,
            env: form.env,
            restart: form.restart.into(),
            emits: texts("emits", form.emits)?,
            follows: texts("follows", form.follows)?,
            can_hold: texts("can_hold", form.can_hold)?,
            sends_to: texts("sends_to", form.sends_to)?,
            health: None,
            secrets: BTreeSet::new(),
        })
    }
}

/// A seat and a module, or nobody: as the files name the holder, and as an operator assigned it.
#[derive(Serialize, Deserialize)]
pub(super) struct HolderV1 {
    seat: String,
    holder: Option<String>,
}

impl HolderV1 {
    pub(super) fn declared(seat: &SeatName, holder: Option<&ModuleName>) -> Self {
        Self {
            seat: seat.to_string(),
            holder: holder.map(ToString::to_string),
        }
    }

    pub(super) fn assigned(seat: &SeatName, record: &SeatRecord) -> Self {
        Self::declared(seat, record.assigned.as_ref())
    }

    pub(super) fn read(self) -> Result<(SeatName, Option<ModuleName>), FieldError> {
        Ok((text("seat", self.seat)?, optional("holder", self.holder)?))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct PlacedV1 {
    module: String,
    on: SelectorV1,
}

#[derive(Serialize, Deserialize)]
enum SelectorV1 {
    Nodes(BTreeSet<String>),
    Labels(BTreeMap<String, String>),
}

impl PlacedV1 {
    pub(super) fn new(module: &ModuleName, placement: &Placement) -> Self {
        Self {
            module: module.to_string(),
            on: match &placement.on {
                Selector::Nodes(nodes) => SelectorV1::Nodes(written(nodes)),
                Selector::Labels(labels) => SelectorV1::Labels(labels.clone()),
            },
        }
    }

    pub(super) fn read(self) -> Result<(ModuleName, Placement), FieldError> {
        let on = match self.on {
            SelectorV1::Nodes(nodes) => Selector::Nodes(texts("on.nodes", nodes)?),
            SelectorV1::Labels(labels) => Selector::Labels(labels),
        };
        Ok((text("module", self.module)?, Placement { on, count: None }))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct NodeV1 {
    node: String,
    key: String,
    box_key: String,
    labels: BTreeMap<String, String>,
    token: String,
    enrolled_millis: u64,
}

impl NodeV1 {
    pub(super) fn new(node: &NodeName, record: &NodeRecord) -> Self {
        Self {
            node: node.to_string(),
            key: record.key.to_string(),
            box_key: record.box_key.to_string(),
            labels: record.labels.clone(),
            token: record.token.to_string(),
            enrolled_millis: record.enrolled.as_millis(),
        }
    }

    pub(super) fn read(self) -> Result<(NodeName, NodeRecord), FieldError> {
        let record = NodeRecord {
            bus: BusKind::Nats,
            moving: None,
            key: text("key", self.key)?,
            box_key: text("box_key", self.box_key)?,
            labels: self.labels,
            token: text("token", self.token)?,
            enrolled: Timestamp::from_millis(self.enrolled_millis),
            scheduling: mesh_model::Scheduling::Open,
        };
        Ok((text("node", self.node)?, record))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct TokenV1 {
    token: String,
    key: String,
    expires_millis: u64,
    node: Option<String>,
    labels: BTreeMap<String, String>,
    rejoin: bool,
    spent: Option<SpentV1>,
}

#[derive(Serialize, Deserialize)]
struct SpentV1 {
    node: String,
    key: String,
    arrived: bool,
}

impl TokenV1 {
    pub(super) fn new(token: &TokenId, record: &TokenRecord) -> Self {
        Self {
            token: token.to_string(),
            key: record.key.to_string(),
            expires_millis: record.expires.as_millis(),
            node: record.node.as_ref().map(ToString::to_string),
            labels: record.labels.clone(),
            rejoin: record.rejoin,
            spent: record.spent.as_ref().map(|spent| SpentV1 {
                node: spent.node.to_string(),
                key: spent.key.to_string(),
                arrived: spent.arrived,
            }),
        }
    }

    pub(super) fn read(self) -> Result<(TokenId, TokenRecord), FieldError> {
        let spent = |spent: SpentV1| {
            Ok(Spent {
                node: text("spent.node", spent.node)?,
                key: text("spent.key", spent.key)?,
                arrived: spent.arrived,
            })
        };
        let record = TokenRecord {
            bus: BusKind::Nats,
            key: text("key", self.key)?,
            expires: Timestamp::from_millis(self.expires_millis),
            node: optional("node", self.node)?,
            labels: self.labels,
            rejoin: self.rejoin,
            spent: self.spent.map(spent).transpose()?,
        };
        Ok((text("token", self.token)?, record))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct InstanceV1 {
    module: String,
    node: String,
    key: String,
    credential: Vec<u8>,
    sealed_to: String,
}

impl InstanceV1 {
    pub(super) fn new(instance: &InstanceRef, record: &InstanceRecord) -> Self {
        Self {
            module: instance.module.to_string(),
            node: instance.node.to_string(),
            key: record.key.to_string(),
            credential: record.credential.0.clone(),
            sealed_to: record.sealed_to.to_string(),
        }
    }

    pub(super) fn read(self) -> Result<(InstanceRef, InstanceRecord), FieldError> {
        let instance = InstanceRef {
            module: text("module", self.module)?,
            node: text("node", self.node)?,
        };
        let record = InstanceRecord {
            bus: BusKind::Nats,
            key: text("key", self.key)?,
            credential: Sealed(self.credential),
            sealed_to: text("sealed_to", self.sealed_to)?,
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        };
        Ok((instance, record))
    }
}

/// A record that says which bus it is of. The first form is written where that is NATS and nothing else is to be said.
#[derive(Serialize, Deserialize)]
pub(super) struct OnBus<F> {
    pub(super) first: F,
    bus: BusV2,
}

impl<F> OnBus<F> {
    /// This form, where the first does not say everything.
    pub(super) fn needed(first: F, bus: BusKind) -> Option<Self> {
        (bus != BusKind::Nats).then(|| Self {
            first,
            bus: bus.into(),
        })
    }

    pub(super) fn read(self) -> (F, BusKind) {
        (self.first, self.bus.into())
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct NodeV2 {
    first: NodeV1,
    bus: BusV2,
    moving: Option<MovingV2>,
}

#[derive(Serialize, Deserialize)]
enum MovingV2 {
    Proving {
        to: BusV2,
        key: String,
        credential: Vec<u8>,
        since_millis: u64,
    },
    Leaving {
        from: BusV2,
    },
}

impl NodeV2 {
    /// This form, where the first does not say everything.
    pub(super) fn needed(node: &NodeName, record: &NodeRecord) -> Option<Self> {
        if record.bus == BusKind::Nats && record.moving.is_none() {
            return None;
        }
        let moving = record.moving.as_ref().map(|moving| match moving {
            Moving::Proving {
                to,
                key,
                credential,
                since,
            } => MovingV2::Proving {
                to: (*to).into(),
                key: key.to_string(),
                credential: credential.0.clone(),
                since_millis: since.as_millis(),
            },
            Moving::Leaving { from } => MovingV2::Leaving {
                from: (*from).into(),
            },
        });
        Some(Self {
            first: NodeV1::new(node, record),
            bus: record.bus.into(),
            moving,
        })
    }

    pub(super) fn read(self) -> Result<(NodeName, NodeRecord), FieldError> {
        let moving = self.moving.map(|moving| {
            Ok(match moving {
                MovingV2::Proving {
                    to,
                    key,
                    credential,
                    since_millis,
                } => Moving::Proving {
                    to: to.into(),
                    key: text("moving.key", key)?,
                    credential: Sealed(credential),
                    since: Timestamp::from_millis(since_millis),
                },
                MovingV2::Leaving { from } => Moving::Leaving { from: from.into() },
            })
        });
        let (node, first) = self.first.read()?;
        let record = NodeRecord {
            bus: self.bus.into(),
            moving: moving.transpose()?,
            ..first
        };
        Ok((node, record))
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
