//! Nodes on disk.

use std::collections::BTreeMap;

use mesh_model::{BusKind, Moving, NodeName, NodeRecord, Scheduling, Sealed, Timestamp};
use serde::{Deserialize, Serialize};

use crate::codec::text;
use crate::declaration::BusV2;
use crate::error::FieldError;

#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct NodeV1 {
    node: String,
    key: String,
    box_key: String,
    labels: BTreeMap<String, String>,
    token: String,
    enrolled_millis: u64,
}

impl NodeV1 {
    pub(in crate::fact) fn new(node: &NodeName, record: &NodeRecord) -> Self {
        Self {
            node: node.to_string(),
            key: record.key.to_string(),
            box_key: record.box_key.to_string(),
            labels: record.labels.clone(),
            token: record.token.to_string(),
            enrolled_millis: record.enrolled.as_millis(),
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(NodeName, NodeRecord), FieldError> {
        let record = NodeRecord {
            bus: BusKind::Nats,
            moving: None,
            key: text("key", self.key)?,
            box_key: text("box_key", self.box_key)?,
            labels: self.labels,
            token: text("token", self.token)?,
            enrolled: Timestamp::from_millis(self.enrolled_millis),
            scheduling: Scheduling::Open,
        };
        Ok((text("node", self.node)?, record))
    }
}

/// With on which bus it is, and whether it is on its way to another.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct NodeV2 {
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

impl From<&Moving> for MovingV2 {
    fn from(moving: &Moving) -> Self {
        match moving {
            Moving::Proving {
                to,
                key,
                credential,
                since,
            } => Self::Proving {
                to: (*to).into(),
                key: key.to_string(),
                credential: credential.0.clone(),
                since_millis: since.as_millis(),
            },
            Moving::Leaving { from } => Self::Leaving {
                from: (*from).into(),
            },
        }
    }
}

impl TryFrom<MovingV2> for Moving {
    type Error = FieldError;
    fn try_from(form: MovingV2) -> Result<Self, FieldError> {
        Ok(match form {
            MovingV2::Proving {
                to,
                key,
                credential,
                since_millis,
            } => Self::Proving {
                to: to.into(),
                key: text("moving.key", key)?,
                credential: Sealed(credential),
                since: Timestamp::from_millis(since_millis),
            },
            MovingV2::Leaving { from } => Self::Leaving { from: from.into() },
        })
    }
}

impl NodeV2 {
    /// Whether the first form does not say everything.
    pub(in crate::fact) fn needed(record: &NodeRecord) -> bool {
        record.bus != BusKind::Nats || record.moving.is_some()
    }

    pub(in crate::fact) fn new(node: &NodeName, record: &NodeRecord) -> Self {
        Self {
            first: NodeV1::new(node, record),
            bus: record.bus.into(),
            moving: record.moving.as_ref().map(Into::into),
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(NodeName, NodeRecord), FieldError> {
        let (node, first) = self.first.read()?;
        let record = NodeRecord {
            bus: self.bus.into(),
            moving: self.moving.map(TryInto::try_into).transpose()?,
            ..first
        };
        Ok((node, record))
    }
}

/// With whether modules are placed on it.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct NodeV3 {
    second: NodeV2,
    scheduling: SchedulingV3,
}

#[derive(Serialize, Deserialize)]
enum SchedulingV3 {
    Open,
    Cordoned,
    Drained,
}

impl NodeV3 {
    /// Whether no form before says everything.
    pub(in crate::fact) fn needed(record: &NodeRecord) -> bool {
        record.scheduling != Scheduling::Open
    }

    pub(in crate::fact) fn new(node: &NodeName, record: &NodeRecord) -> Self {
        Self {
            second: NodeV2::new(node, record),
            scheduling: match record.scheduling {
                Scheduling::Open => SchedulingV3::Open,
                Scheduling::Cordoned => SchedulingV3::Cordoned,
                Scheduling::Drained => SchedulingV3::Drained,
            },
        }
    }

    pub(in crate::fact) fn read(self) -> Result<(NodeName, NodeRecord), FieldError> {
        let (node, second) = self.second.read()?;
        let scheduling = match self.scheduling {
            SchedulingV3::Open => Scheduling::Open,
            SchedulingV3::Cordoned => Scheduling::Cordoned,
            SchedulingV3::Drained => Scheduling::Drained,
        };
        Ok((
            node,
            NodeRecord {
                scheduling,
                ..second
            },
        ))
    }
}
