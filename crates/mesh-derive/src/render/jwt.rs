//! A grant as the permissions of a NATS user JWT (version 2), for a bus in operator mode.

use mesh_model::{Filter, Grant, Principal, QueueSubscription};
use serde::Serialize;

/// The permissions of a user, as its JWT carries them (`nats-io/jwt` v2, `Permissions`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NatsPermissions {
    /// What it may publish on.
    #[serde(rename = "pub")]
    pub publish: NatsPermission,
    /// What it may subscribe to.
    #[serde(rename = "sub")]
    pub subscribe: NatsPermission,
}

/// One side of a user's permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NatsPermission {
    /// Subjects, or a subject, a space and the only group it may be subscribed in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Everything, where nothing is allowed: to a server an empty list allows all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// The permissions that say what a grant says.
pub fn user_claims(grant: &Grant) -> NatsPermissions {
    let alone = grant.subscribe.iter().map(Filter::to_string);
    let in_groups = grant.queues.iter().map(in_group);
    NatsPermissions {
        publish: permission(grant.publish.iter().map(Filter::to_string)),
        subscribe: permission(alone.chain(in_groups)),
    }
}

/// Bytes of the user JWT that carries a grant: what a client's CONNECT must fit into the server's control line (4,096
/// bytes unless it is told otherwise).
pub fn jwt_bytes(principal: &Principal, grant: &Grant) -> usize {
    let name = principal.to_string();
    let publish = grant.publish.iter().map(|filter| quoted(filter.as_str()));
    let alone = grant.subscribe.iter();
    let alone = alone.map(|filter| quoted(filter.as_str()));
    let in_groups = grant
        .queues
        .iter()
        .map(|allowed| quoted(allowed.filter.as_str()) - QUOTES + SPACE + quoted(&allowed.queue));
    let claims = CLAIMS + quoted(&name) + side(publish) + side(alone.chain(in_groups));
    base64(HEADER.len()) + 1 + base64(claims) + 1 + base64(SIGNATURE)
}

/// Bytes of one side as JSON: `{"allow":[..]}`, or `{"deny":[">"]}`.
fn side(entries: impl Iterator<Item = usize>) -> usize {
    let (count, bytes) = entries.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry));
    match count {
        0 => r#"{"deny":[">"]}"#.len(),
        _ => r#"{"allow":[]}"#.len() + bytes + (count - 1),
    }
}

/// Bytes of a text in JSON. A subject has no control character, and a domain may have what is escaped.
fn quoted(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\'));
    text.len() + escaped.count() + QUOTES
}

fn permission(allow: impl Iterator<Item = String>) -> NatsPermission {
    let allow: Vec<String> = allow.collect();
    let deny = if allow.is_empty() {
        vec![">".to_owned()]
    } else {
        Vec::new()
    };
    NatsPermission { allow, deny }
}

fn in_group(allowed: &QueueSubscription) -> String {
    format!("{} {}", allowed.filter, allowed.queue)
}

/// Characters of unpadded base64.
fn base64(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;
/// Characters of an nkey.
const KEY: usize = 56;
/// Characters of a claim's own hash: base32 of 32 bytes.
const JTI: usize = 52;
/// Bytes of an ed25519 signature.
const SIGNATURE: usize = 64;
const QUOTES: usize = 2;
const SPACE: usize = 1;
/// Bytes of the claims of a user besides its name and its two sides.
const CLAIMS: usize = r#"{"iat":1800000000,"iss":"","jti":"","name":,"nats":{"data":-1,"issuer_account":"","payload":-1,"pub":,"sub":,"subs":-1,"type":"user","version":2},"sub":""}"#.len()
    + 3 * KEY
    + JTI;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_counted_are_those_of_the_claims_written() {
        let join = QueueSubscription {
            filter: "d.x".parse().unwrap(),
            queue: "g".parse().unwrap(),
        };
        let full = Grant {
            publish: ["a", "$JS.ACK.\"q\\.>"]
                .map(|text| text.parse().unwrap())
                .into(),
            subscribe: ["b.>".parse().unwrap()].into(),
            queues: [join].into(),
        };
        for grant in [Grant::default(), full] {
            let principal: Principal = "node/web-1".parse().unwrap();
            let key = "U".repeat(KEY);
            let claims = serde_json::json!({
                "jti": "A".repeat(JTI),
                "iat": 1_800_000_000_u64,
                "iss": key,
                "name": principal.to_string(),
                "sub": key,
                "nats": {
                    "pub": user_claims(&grant).publish,
                    "sub": user_claims(&grant).subscribe,
                    "subs": -1, "data": -1, "payload": -1,
                    "issuer_account": key,
                    "type": "user",
                    "version": 2,
                },
            });
            let written = base64(HEADER.len()) + base64(claims.to_string().len());
            let expected = written + base64(SIGNATURE) + 2;
            assert_eq!(jwt_bytes(&principal, &grant), expected, "{grant:?}");
        }
    }
}
