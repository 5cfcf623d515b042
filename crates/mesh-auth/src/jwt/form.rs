//! The JSON of NATS JWTs, field by field as `github.com/nats-io/jwt/v2` names them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::claims::{AccountClaims, JetStream, OperatorClaims, Traffic, UserClaims};

pub(super) const ALGORITHM: &str = "ed25519-nkey";
pub(super) const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) typ: String,
    pub(super) alg: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Envelope<N> {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) exp: Option<u64>,
    pub(super) iat: u64,
    pub(super) iss: String,
    /// The claims' hash. Left out while it is being computed; servers do not check it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(super) jti: String,
    pub(super) name: String,
    pub(super) nats: N,
    pub(super) sub: String,
}

#[derive(Serialize)]
pub(super) struct User {
    #[serde(rename = "pub")]
    publish: Permission,
    #[serde(rename = "sub")]
    subscribe: Permission,
    #[serde(flatten)]
    limits: UserLimits,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer_account: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
    version: u32,
}

impl User {
    pub(super) fn of(claims: &UserClaims, issuer_account: Option<String>) -> Self {
        Self {
            publish: Permission::allowing(&claims.publish),
            subscribe: Permission::allowing(&claims.subscribe),
            limits: UserLimits::NONE,
            issuer_account,
            kind: "user",
            version: VERSION,
        }
    }
}

/// What is read of a user's own claims; its rights are the server's to read.
#[derive(Deserialize)]
pub(super) struct UserRead {
    #[serde(default)]
    pub(super) issuer_account: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) version: u32,
}

#[derive(Serialize)]
struct Permission {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deny: Vec<String>,
}

impl Permission {
    fn allowing(subjects: &[String]) -> Self {
        let deny = if subjects.is_empty() {
            vec![">".to_owned()]
        } else {
            vec![]
        };
        Self {
            allow: subjects.to_vec(),
            deny,
        }
    }
}

/// Left out, a limit is zero; −1 is none.
#[derive(Serialize)]
struct UserLimits {
    subs: i64,
    data: i64,
    payload: i64,
}

impl UserLimits {
    const NONE: Self = Self {
        subs: -1,
        data: -1,
        payload: -1,
    };
}

#[derive(Serialize)]
pub(super) struct Account {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    imports: Vec<Shared>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exports: Vec<Shared>,
    limits: AccountLimits,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signing_keys: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    revocations: BTreeMap<String, u64>,
    #[serde(rename = "type")]
    kind: &'static str,
    version: u32,
}

impl Account {
    pub(super) fn of(claims: &AccountClaims) -> Self {
        let exports = claims.exports.iter();
        let imports = claims.imports.iter();
        Self {
            imports: imports
                .map(|it| Shared::of(it.traffic, &it.subject, Some(it.from.to_string())))
                .collect(),
            exports: exports
                .map(|it| Shared::of(it.traffic, &it.subject, None))
                .collect(),
            limits: AccountLimits::of(claims.jetstream),
            signing_keys: claims
                .signing_keys
                .iter()
                .map(ToString::to_string)
                .collect(),
            revocations: claims
                .revoked
                .iter()
                .map(|(user, until)| (user.to_string(), *until))
                .collect(),
            kind: "account",
            version: VERSION,
        }
    }
}

/// An export, or with an account an import.
#[derive(Serialize)]
struct Shared {
    name: String,
    subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Shared {
    fn of(traffic: Traffic, subject: &str, account: Option<String>) -> Self {
        let kind = match traffic {
            Traffic::Stream => "stream",
            Traffic::Service => "service",
        };
        Self {
            name: subject.to_owned(),
            subject: subject.to_owned(),
            account,
            kind,
        }
    }
}

#[derive(Serialize)]
struct AccountLimits {
    #[serde(flatten)]
    messages: UserLimits,
    imports: i64,
    exports: i64,
    wildcards: bool,
    conn: i64,
    leaf: i64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    jetstream: Option<JetStreamLimits>,
}

impl AccountLimits {
    fn of(jetstream: JetStream) -> Self {
        Self {
            messages: UserLimits::NONE,
            imports: -1,
            exports: -1,
            wildcards: true,
            conn: -1,
            leaf: -1,
            jetstream: (jetstream == JetStream::On).then_some(JetStreamLimits::NONE),
        }
    }
}

#[derive(Serialize)]
struct JetStreamLimits {
    mem_storage: i64,
    disk_storage: i64,
    streams: i64,
    consumer: i64,
    max_ack_pending: i64,
}

impl JetStreamLimits {
    const NONE: Self = Self {
        mem_storage: -1,
        disk_storage: -1,
        streams: -1,
        consumer: -1,
        max_ack_pending: -1,
    };
}

#[derive(Serialize)]
pub(super) struct Operator {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_account: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
    version: u32,
}

impl Operator {
    pub(super) fn of(claims: &OperatorClaims) -> Self {
        let system_account = claims.system_account.as_ref().map(ToString::to_string);
        Self {
            system_account,
            kind: "operator",
            version: VERSION,
        }
    }
}
