//! How a host asks to become a node, and the answer the controller signs.

use mesh_model::{BusFacts, Enrolment, EnrolmentAnswer, EnrolmentRefusal, Timestamp};
use serde::{Deserialize, Serialize};

use crate::codec::{self, Versions, field_of, optional, text};
use crate::error::{FieldError, WireError};

const ENROLMENT: &str = "enrolment";
const ANSWER: &str = "enrolment answer";

/// The bytes of what a host asks, in the newest version.
pub fn encode_enrolment(enrolment: &Enrolment) -> Vec<u8> {
    codec::write(&EnrolmentForm::V1(enrolment.into()))
}

/// What a host asks in these bytes.
pub fn decode_enrolment(bytes: &[u8]) -> Result<Enrolment, WireError> {
    let EnrolmentForm::V1(form) = codec::read(bytes)?;
    form.try_into().map_err(field_of(ENROLMENT))
}

/// The bytes of an answer, in the newest version: what is signed, and sent inside [`seal_signed`](crate::seal_signed).
pub fn encode_enrolment_answer(answer: &EnrolmentAnswer) -> Vec<u8> {
    codec::write(&AnswerForm::V1(answer.into()))
}

/// The answer in the body of what was signed; check the signature first.
pub fn decode_enrolment_answer(body: &[u8]) -> Result<EnrolmentAnswer, WireError> {
    let AnswerForm::V1(form) = codec::read(body)?;
    form.try_into().map_err(field_of(ANSWER))
}

#[derive(Serialize, Deserialize)]
enum EnrolmentForm {
    V1(EnrolmentV1),
}

impl Versions for EnrolmentForm {
    const WHAT: &'static str = ENROLMENT;
    const KNOWN: u32 = 1;
}

#[derive(Serialize, Deserialize)]
enum AnswerForm {
    V1(AnswerV1),
}

impl Versions for AnswerForm {
    const WHAT: &'static str = ANSWER;
    const KNOWN: u32 = 1;
}

#[derive(Serialize, Deserialize)]
struct EnrolmentV1 {
    node: Option<String>,
    key: String,
    box_key: String,
    reply: String,
    clock_millis: u64,
}

#[derive(Serialize, Deserialize)]
enum AnswerV1 {
    Accepted {
        mesh: String,
        node: String,
        domain: Option<String>,
        account: String,
        jwt: Option<String>,
    },
    Refused(RefusalV1),
}

#[derive(Serialize, Deserialize)]
enum RefusalV1 {
    Unknown { token: String },
    Expired { token: String, seconds_ago: u64 },
    Spent { token: String, node: String },
    NameTaken { node: String },
    NameMismatch { allowed: String, asked: String },
    NoName,
    ClockSkew { seconds: u64 },
    ForeignAddress { address: String },
    InvalidKey { what: String },
}

impl From<&Enrolment> for EnrolmentV1 {
    fn from(enrolment: &Enrolment) -> Self {
        Self {
            node: enrolment.node.as_ref().map(ToString::to_string),
            key: enrolment.key.to_string(),
            box_key: enrolment.box_key.to_string(),
            reply: enrolment.reply.to_string(),
            clock_millis: enrolment.clock.as_millis(),
        }
    }
}

impl TryFrom<EnrolmentV1> for Enrolment {
    type Error = FieldError;
    fn try_from(form: EnrolmentV1) -> Result<Self, FieldError> {
        Ok(Self {
            node: optional("node", form.node)?,
            key: text("key", form.key)?,
            box_key: text("box_key", form.box_key)?,
            reply: text("reply", form.reply)?,
            clock: Timestamp::from_millis(form.clock_millis),
        })
    }
}

impl From<&EnrolmentAnswer> for AnswerV1 {
    fn from(answer: &EnrolmentAnswer) -> Self {
        match answer {
            EnrolmentAnswer::Accepted {
                mesh,
                node,
                bus,
                jwt,
            } => Self::Accepted {
                mesh: mesh.to_string(),
                node: node.to_string(),
                domain: bus.domain.clone(),
                account: bus.account.clone(),
                jwt: jwt.clone(),
            },
            EnrolmentAnswer::Refused(refusal) => Self::Refused(refusal.into()),
        }
    }
}

impl TryFrom<AnswerV1> for EnrolmentAnswer {
    type Error = FieldError;
    fn try_from(form: AnswerV1) -> Result<Self, FieldError> {
        Ok(match form {
            AnswerV1::Accepted {
                mesh,
                node,
                domain,
                account,
                jwt,
            } => Self::Accepted {
                mesh: text("mesh", mesh)?,
                node: text("node", node)?,
                bus: BusFacts { domain, account },
                jwt,
            },
            AnswerV1::Refused(refusal) => Self::Refused(refusal.try_into()?),
        })
    }
}

impl From<&EnrolmentRefusal> for RefusalV1 {
    fn from(refusal: &EnrolmentRefusal) -> Self {
        match refusal {
            EnrolmentRefusal::Unknown { token } => Self::Unknown {
                token: token.to_string(),
            },
            EnrolmentRefusal::Expired { token, seconds_ago } => Self::Expired {
                token: token.to_string(),
                seconds_ago: *seconds_ago,
            },
            EnrolmentRefusal::Spent { token, node } => Self::Spent {
                token: token.to_string(),
                node: node.to_string(),
            },
            EnrolmentRefusal::NameTaken { node } => Self::NameTaken {
                node: node.to_string(),
            },
            EnrolmentRefusal::NameMismatch { allowed, asked } => Self::NameMismatch {
                allowed: allowed.to_string(),
                asked: asked.to_string(),
            },
            EnrolmentRefusal::NoName => Self::NoName,
            EnrolmentRefusal::ClockSkew { seconds } => Self::ClockSkew { seconds: *seconds },
            EnrolmentRefusal::ForeignAddress { address } => Self::ForeignAddress {
                address: address.to_string(),
            },
            EnrolmentRefusal::InvalidKey { what } => Self::InvalidKey { what: what.clone() },
        }
    }
}

impl TryFrom<RefusalV1> for EnrolmentRefusal {
    type Error = FieldError;
    fn try_from(form: RefusalV1) -> Result<Self, FieldError> {
        Ok(match form {
            RefusalV1::Unknown { token } => Self::Unknown {
                token: text("token", token)?,
            },
            RefusalV1::Expired { token, seconds_ago } => Self::Expired {
                token: text("token", token)?,
                seconds_ago,
            },
            RefusalV1::Spent { token, node } => Self::Spent {
                token: text("token", token)?,
                node: text("node", node)?,
            },
            RefusalV1::NameTaken { node } => Self::NameTaken {
                node: text("node", node)?,
            },
            RefusalV1::NameMismatch { allowed, asked } => Self::NameMismatch {
                allowed: text("allowed", allowed)?,
                asked: text("asked", asked)?,
            },
            RefusalV1::NoName => Self::NoName,
            RefusalV1::ClockSkew { seconds } => Self::ClockSkew { seconds },
            RefusalV1::ForeignAddress { address } => Self::ForeignAddress {
                address: text("address", address)?,
            },
            RefusalV1::InvalidKey { what } => Self::InvalidKey { what },
        })
    }
}
