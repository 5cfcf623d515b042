//! The claims a JWT carries, and what is refused as one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::keys::UserKey;

fn account() -> AccountKey {
    AccountKey::from_seed("SAAPN4W3EG6KCJGUQTKTJ5GSB5NHK5CHAJL4DBGFUM3HHROI4XUEP4OBK4").unwrap()
}

const ACCOUNT: &str = "ACODERUVFFAWZQDSS6SBIACUA5O6SXF7HJ3YTYXBALHZP3P7R4BUO4J2";

fn claims(subject: UserPublic) -> UserClaims {
    UserClaims {
        name: "node/web-1".to_owned(),
        subject,
        account: account().public(),
        publish: vec!["mesh.heartbeat.web-1".to_owned()],
        subscribe: vec![
            "mesh.deliver.seat.mail mail".to_owned(),
            "mesh.inbox.node.web-1.>".to_owned(),
        ],
        issued_at: 1_796_000_000,
        expires: Some(1_796_003_600),
    }
}

/// Header and claims, after checking the signature with nkeys alone.
fn opened(jwt: &str) -> (Value, Value) {
    let parts: Vec<&str> = jwt.split('.').collect();
    let [header, claims, signature] = parts[..] else {
        panic!("{} parts", parts.len())
    };
    let value = |part: &str| {
        serde_json::from_slice::<Value>(&BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).unwrap()
    };
    let (header, claims_value) = (value(header), value(claims));
    let issuer = nkeys::KeyPair::from_public_key(claims_value["iss"].as_str().unwrap()).unwrap();
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).unwrap();
    issuer
        .verify(jwt.rsplit_once('.').unwrap().0.as_bytes(), &signature)
        .unwrap();
    (header, claims_value)
}

#[test]
fn a_user_is_issued_exactly_these_claims() {
    let user = UserKey::generate().unwrap().public();
    let (header, claims) = opened(user_jwt(&claims(user.clone()), &account()).as_str());
    assert_eq!(header, json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    assert_eq!(claims["jti"].as_str().unwrap().len(), 52);
    let expected = json!({
        "exp": 1_796_003_600, "iat": 1_796_000_000, "iss": ACCOUNT, "jti": claims["jti"],
        "name": "node/web-1", "sub": user.as_str(),
        "nats": {
            "pub": { "allow": ["mesh.heartbeat.web-1"] },
            "sub": { "allow": ["mesh.deliver.seat.mail mail", "mesh.inbox.node.web-1.>"] },
            "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2,
        },
    });
    assert_eq!(claims, expected);
}

#[test]
fn a_side_without_subjects_allows_nothing() {
    let mut claims = claims(UserKey::generate().unwrap().public());
    claims.publish.clear();
    claims.subscribe.clear();
    let (_, claims) = opened(user_jwt(&claims, &account()).as_str());
    assert_eq!(claims["nats"]["pub"], json!({ "deny": [">"] }));
    assert_eq!(claims["nats"]["sub"], json!({ "deny": [">"] }));
}

#[test]
fn a_signing_key_names_the_account_it_signs_for() {
    let signer = AccountKey::generate().unwrap();
    let jwt = user_jwt(&claims(UserKey::generate().unwrap().public()), &signer);
    let (_, claims) = opened(jwt.as_str());
    assert_eq!(claims["iss"], signer.public().as_str());
    assert_eq!(claims["nats"]["issuer_account"], ACCOUNT);
    assert_eq!(
        jwt.as_str().parse::<UserJwt>().unwrap().account().as_str(),
        ACCOUNT
    );
}

#[test]
fn an_account_is_issued_exactly_these_claims() {
    let operator = OperatorKey::generate().unwrap();
    let [edge, signing] = [
        AccountKey::generate().unwrap().public(),
        AccountKey::generate().unwrap().public(),
    ];
    let user = UserKey::generate().unwrap().public();
    let claims = AccountClaims {
        name: "MESH".to_owned(),
        subject: account().public(),
        jetstream: JetStream::On,
        exports: vec![Export {
            traffic: Traffic::Stream,
            subject: "mesh.deliver.>".to_owned(),
        }],
        imports: vec![Import {
            traffic: Traffic::Service,
            from: edge.clone(),
            subject: "mesh.heartbeat.>".to_owned(),
        }],
        signing_keys: vec![signing.clone()],
        revoked: BTreeMap::from([(user.clone(), 1_795_000_000)]),
        issued_at: 1_796_000_000,
    };
    let (_, issued) = opened(&account_jwt(&claims, &operator));
    let expected = json!({
        "iat": 1_796_000_000, "iss": operator.public().as_str(), "jti": issued["jti"], "name": "MESH", "sub": ACCOUNT,
        "nats": {
            "exports": [{ "name": "mesh.deliver.>", "subject": "mesh.deliver.>", "type": "stream" }],
            "imports": [{
                "name": "mesh.heartbeat.>", "subject": "mesh.heartbeat.>", "account": edge.as_str(), "type": "service",
            }],
            "limits": {
                "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
                "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
                "max_ack_pending": -1,
            },
            "signing_keys": [signing.as_str()],
            "revocations": { user.as_str(): 1_795_000_000 },
            "type": "account", "version": 2,
        },
    });
    assert_eq!(issued, expected);
    let (_, issued) = opened(&account_jwt(
        &AccountClaims {
            jetstream: JetStream::Off,
            ..claims
        },
        &operator,
    ));
    assert_eq!(issued["nats"]["limits"]["disk_storage"], Value::Null);
}

#[test]
fn an_operator_vouches_for_itself() {
    let operator = OperatorKey::generate().unwrap();
    let system_account = Some(account().public());
    let claims = OperatorClaims {
        name: "mesh".to_owned(),
        system_account,
        issued_at: 1_796_000_000,
    };
    let (_, claims) = opened(&operator_jwt(&claims, &operator));
    assert_eq!(
        (&claims["iss"], &claims["sub"]),
        (
            &json!(operator.public().as_str()),
            &json!(operator.public().as_str())
        )
    );
    assert_eq!(
        claims["nats"],
        json!({ "system_account": ACCOUNT, "type": "operator", "version": 2 })
    );
}

#[test]
fn what_was_issued_is_read_back() {
    let user = UserKey::generate().unwrap().public();
    let issued = user_jwt(&claims(user.clone()), &account());
    let read: UserJwt = issued.as_str().parse().unwrap();
    assert_eq!(read, issued);
    assert_eq!(
        (read.name(), read.subject(), read.issued_at()),
        ("node/web-1", &user, 1_796_000_000)
    );
    assert_eq!(read.expires(), Some(1_796_003_600));
    assert!(!format!("{read:?}").contains(read.as_str()));
}

#[test]
fn equal_claims_are_issued_as_equal_text() {
    let claims = claims(UserKey::generate().unwrap().public());
    assert_eq!(user_jwt(&claims, &account()), user_jwt(&claims, &account()));
}

#[test]
fn what_is_no_users_jwt_says_why() {
    let read = |text: &str| text.parse::<UserJwt>().unwrap_err();
    for text in ["", "a", "a.b", "a.b.c", "....", "e30.e30.e30"] {
        assert_eq!(read(text), ReadJwtError::NotAJwt, "{text}");
    }
    let operator = OperatorKey::generate().unwrap();
    let claims_of = OperatorClaims {
        name: "mesh".to_owned(),
        system_account: None,
        issued_at: 0,
    };
    let error = read(&operator_jwt(&claims_of, &operator));
    assert_eq!(
        error,
        ReadJwtError::NotAUser {
            kind: "operator".to_owned(),
            version: 2
        }
    );

    let jwt = user_jwt(&claims(UserKey::generate().unwrap().public()), &account());
    let other = user_jwt(&claims(UserKey::generate().unwrap().public()), &account());
    let (signed, _) = jwt.as_str().rsplit_once('.').unwrap();
    let (_, signature) = other.as_str().rsplit_once('.').unwrap();
    assert!(matches!(
        read(&format!("{signed}.{signature}")),
        ReadJwtError::Signature { .. }
    ));
    let (_, rest) = jwt.as_str().split_once('.').unwrap();
    let none = BASE64URL_NOPAD.encode(br#"{"typ":"JWT","alg":"none"}"#);
    assert_eq!(
        read(&format!("{none}.{rest}")),
        ReadJwtError::Algorithm {
            found: "none".to_owned()
        }
    );
}

#[test]
fn more_grants_than_a_line_holds_are_refused_with_that_reason() {
    let mut claims = claims(UserKey::generate().unwrap().public());
    user_jwt(&claims, &account()).check_fits(4096).unwrap();
    claims.publish = (0..100)
        .map(|event| format!("mesh.mod.mailer.event-{event}"))
        .collect();
    let jwt = user_jwt(&claims, &account());
    let error = jwt.check_fits(4096).unwrap_err().to_string();
    assert!(
        error.contains("node/web-1") && error.contains("max_control_line"),
        "{error}"
    );
    jwt.check_fits(65_536).unwrap();
}
