//! Tokens and the credentials of instances on disk.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    BusKind, CredentialLife, InstanceRecord, InstanceRef, Retiring, Sealed, Spent, Timestamp,
    TokenId, TokenRecord,
};
use serde::{Deserialize, Serialize};

use crate::codec::{optional, text, texts, written};
use crate::declaration::BusV2;
use crate::error::FieldError;
use crate::run::{SecretsV1, secrets, written_secrets};

#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct TokenV1 {
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
    pub(in crate::fact) fn new(token: &TokenId, record: &TokenRecord) -> Self {
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

    pub(in crate::fact) fn read(self) -> Result<(TokenId, TokenRecord), FieldError> {
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
pub(in crate::fact) struct InstanceV1 {
    module: String,
    node: String,
    key: String,
    credential: Vec<u8>,
    sealed_to: String,
}

impl InstanceV1 {
    pub(in crate::fact) fn new(instance: &InstanceRef, record: &InstanceRecord) -> Self {
        Self {
            module: instance.module.to_string(),
            node: instance.node.to_string(),
            key: record.key.to_string(),
            credential: record.credential.0.clone(),
            sealed_to: record.sealed_to.to_string(),
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(InstanceRef, InstanceRecord), FieldError> {
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
            life: CredentialLife::default(),
        };
        Ok((instance, record))
    }
}

/// A record that says which bus it is of. The first form is written where that is NATS and nothing else is to be said.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct OnBus<F> {
    pub(in crate::fact) first: F,
    bus: BusV2,
}

impl<F> OnBus<F> {
    pub(in crate::fact) fn new(first: F, bus: BusKind) -> Self {
        let bus = bus.into();
        Self { first, bus }
    }

    pub(in crate::fact) fn read(self) -> (F, BusKind) {
        (self.first, self.bus.into())
    }
}

/// With the secrets it is handed, and where its credential is between being made and being replaced.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct InstanceV3 {
    second: OnBus<InstanceV1>,
    secrets: SecretsV1,
    made_millis: Option<u64>,
    retiring: Option<RetiringV3>,
    accepts: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct RetiringV3 {
    key: String,
    until_millis: u64,
}

impl InstanceV3 {
    /// Whether no form before says everything.
    pub(in crate::fact) fn needed(record: &InstanceRecord) -> bool {
        !record.secrets.is_empty() || record.life != CredentialLife::default()
    }

    pub(in crate::fact) fn new(instance: &InstanceRef, record: &InstanceRecord) -> Self {
        let CredentialLife {
            made,
            retiring,
            accepts,
        } = &record.life;
        Self {
            second: OnBus::new(InstanceV1::new(instance, record), record.bus),
            secrets: written_secrets(&record.secrets),
            made_millis: made.map(Timestamp::as_millis),
            retiring: retiring.as_ref().map(|retiring| RetiringV3 {
                key: retiring.key.to_string(),
                until_millis: retiring.until.as_millis(),
            }),
            accepts: written(accepts),
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(InstanceRef, InstanceRecord), FieldError> {
        let (first, bus) = self.second.read();
        let (instance, first) = first.read()?;
        let retiring = |retiring: RetiringV3| {
            Ok(Retiring {
                key: text("life.retiring", retiring.key)?,
                until: Timestamp::from_millis(retiring.until_millis),
            })
        };
        let record = InstanceRecord {
            bus,
            secrets: secrets("secrets", self.secrets)?,
            life: CredentialLife {
                made: self.made_millis.map(Timestamp::from_millis),
                retiring: self.retiring.map(retiring).transpose()?,
                accepts: texts("life.accepts", self.accepts)?,
            },
            ..first
        };
        Ok((instance, record))
    }
}
