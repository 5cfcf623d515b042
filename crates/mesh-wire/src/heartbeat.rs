//! What a node says of itself and may be lost: heartbeats.

use std::collections::BTreeMap;

use mesh_model::{Heartbeat, Seq};
use serde::{Deserialize, Serialize};

use crate::codec::{self, Versions, field_of, line, text};
use crate::declaration::GenerationV1;
use crate::error::{FieldError, WireError};

const WHAT: &str = "heartbeat";

/// The bytes of a heartbeat, in the first version that can say it.
pub fn encode_heartbeat(heartbeat: &Heartbeat) -> Vec<u8> {
    let first = heartbeat.into();
    codec::write(&if version(heartbeat) > 1 {
        let doing = heartbeat.doing.iter();
        HeartbeatForm::V2(HeartbeatV2 {
            first,
            doing: doing
                .map(|(module, line)| (module.to_string(), line.clone()))
                .collect(),
        })
    } else {
        HeartbeatForm::V1(first)
    })
}

/// The heartbeat in these bytes. Whether the node it names is the one that sent it is not known here.
pub fn decode_heartbeat(bytes: &[u8]) -> Result<Heartbeat, WireError> {
    let (found, heartbeat) = match codec::read(bytes)? {
        HeartbeatForm::V1(form) => (1, form.try_into()),
        HeartbeatForm::V2(form) => (2, form.try_into()),
    };
    let heartbeat = heartbeat.map_err(field_of(WHAT))?;
    codec::no_later(WHAT, found, version(&heartbeat))?;
    Ok(heartbeat)
}

fn version(heartbeat: &Heartbeat) -> u8 {
    if heartbeat.doing.is_empty() { 1 } else { 2 }
}

#[derive(Serialize, Deserialize)]
enum HeartbeatForm {
    V1(HeartbeatV1),
    V2(HeartbeatV2),
}

impl Versions for HeartbeatForm {
    const WHAT: &'static str = WHAT;
    const KNOWN: u32 = 2;
}

#[derive(Serialize, Deserialize)]
struct HeartbeatV1 {
    node: String,
    session: u64,
    applied: Option<GenerationV1>,
    seq: u64,
    deaf: bool,
    version: String,
}

/// With what takes long.
#[derive(Serialize, Deserialize)]
struct HeartbeatV2 {
    first: HeartbeatV1,
    doing: BTreeMap<String, String>,
}

impl From<&Heartbeat> for HeartbeatV1 {
    fn from(heartbeat: &Heartbeat) -> Self {
        Self {
            node: heartbeat.node.to_string(),
            session: heartbeat.session,
            applied: heartbeat.applied.map(Into::into),
            seq: heartbeat.seq.0,
            deaf: heartbeat.deaf,
            version: heartbeat.version.clone(),
        }
    }
}

impl TryFrom<HeartbeatV1> for Heartbeat {
    type Error = FieldError;
    fn try_from(form: HeartbeatV1) -> Result<Self, FieldError> {
        Ok(Self {
            node: text("node", form.node)?,
            session: form.session,
            applied: form.applied.map(Into::into),
            seq: Seq(form.seq),
            deaf: form.deaf,
            version: line("version", form.version)?,
            doing: BTreeMap::new(),
        })
    }
}

impl TryFrom<HeartbeatV2> for Heartbeat {
    type Error = FieldError;
    fn try_from(form: HeartbeatV2) -> Result<Self, FieldError> {
        let doing = form.doing.into_iter();
        let doing = doing
            .map(|(module, doing)| Ok((text("doing", module)?, line("doing", doing)?)))
            .collect::<Result<_, FieldError>>()?;
        let first = Self::try_from(form.first)?;
        Ok(Self { doing, ..first })
    }
}
