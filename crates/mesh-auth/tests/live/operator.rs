//! A server of an operator grants exactly what the JWTs say that are signed here.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use mesh_auth::{
    creds::{Credentials, VouchedKey},
    jwt::{
        AccountClaims, Export, Import, JetStream, OperatorClaims, Traffic, UserClaims, account_jwt,
        operator_jwt, user_jwt,
    },
    keys::{AccountKey, OperatorKey, UserKey, UserPublic},
};

use crate::server::{Server, nats_server};

/// An operator with the two accounts of a mesh, and the system's.
struct Bus {
    operator: OperatorKey,
    system: AccountKey,
    mesh: AccountKey,
    edge: AccountKey,
    signing: AccountKey,
}

const ISSUED: u64 = 1_780_000_000;

impl Bus {
    fn new() -> Self {
        let account = || AccountKey::generate().unwrap();
        let operator = OperatorKey::generate().unwrap();
        Self {
            operator,
            system: account(),
            mesh: account(),
            edge: account(),
            signing: account(),
        }
    }

    fn start(&self, binary: PathBuf, revoked: BTreeMap<UserPublic, u64>) -> Server {
        let claims = |name: &str, key: &AccountKey| AccountClaims {
            name: name.to_owned(),
            subject: key.public(),
            jetstream: JetStream::Off,
            exports: vec![],
            imports: vec![],
            signing_keys: vec![],
            revoked: BTreeMap::new(),
            issued_at: ISSUED,
        };
        let shared = [
            (Traffic::Service, "mesh.control.>"),
            (Traffic::Stream, "mesh.deliver.>"),
        ];
        let exports = shared.map(|(traffic, subject)| Export {
            traffic,
            subject: subject.to_owned(),
        });
        let from = self.mesh.public();
        let imports = shared.map(|(traffic, subject)| Import {
            traffic,
            from: from.clone(),
            subject: subject.to_owned(),
        });
        let accounts = [
            claims("SYS", &self.system),
            AccountClaims {
                jetstream: JetStream::On,
                exports: exports.to_vec(),
                ..claims("MESH", &self.mesh)
            },
            AccountClaims {
                imports: imports.to_vec(),
                signing_keys: vec![self.signing.public()],
                revoked,
                ..claims("EDGE", &self.edge)
            },
        ];
        let system_account = Some(self.system.public());
        let operator = OperatorClaims {
            name: "mesh".to_owned(),
            system_account,
            issued_at: ISSUED,
        };
        let mut config = format!(
            "operator: {}\nresolver: MEMORY\n",
            operator_jwt(&operator, &self.operator)
        );
        config.push_str("resolver_preload {\n");
        for claims in accounts {
            let jwt = account_jwt(&claims, &self.operator);
            writeln!(config, "  {}: {jwt}", claims.subject).unwrap();
        }
        config.push_str("}\n");
        Server::start(binary, &config)
    }

    fn credentials(
        account: &AccountKey,
        signer: &AccountKey,
        key: &UserKey,
        rights: [&[&str]; 2],
        at: u64,
    ) -> Credentials {
        let subjects =
            |subjects: &[&str]| subjects.iter().map(|&subject| subject.to_owned()).collect();
        let claims = UserClaims {
            name: "node/web-1".to_owned(),
            subject: key.public(),
            account: account.public(),
            publish: subjects(rights[0]),
            subscribe: subjects(rights[1]),
            issued_at: at,
            expires: None,
        };
        Credentials::Jwt(VouchedKey::new(user_jwt(&claims, signer), key.clone()).unwrap())
    }

    fn controller(&self) -> Credentials {
        let key = UserKey::generate().unwrap();
        Self::credentials(&self.mesh, &self.mesh, &key, [&[">"], &[">"]], ISSUED)
    }

    fn node(&self, key: &UserKey, at: u64) -> Credentials {
        let rights: [&[&str]; 2] = [
            &["mesh.control.report.web-1"],
            &["mesh.deliver.node.web-1", "mesh.deliver.seat.mail mail"],
        ];
        Self::credentials(&self.edge, &self.signing, key, rights, at)
    }
}

#[test]
fn a_server_of_an_operator_grants_exactly_what_the_jwts_say() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let server = bus.start(binary, BTreeMap::new());
    let (mut controller, answer) = server.meet(&bus.controller());
    assert_eq!(answer, "");
    let (mut node, answer) = server.meet(&bus.node(&UserKey::generate().unwrap(), ISSUED));
    assert_eq!(answer, "");

    for allowed in [
        "SUB mesh.deliver.node.web-1 1\r\n",
        "SUB mesh.deliver.seat.mail mail 2\r\n",
    ] {
        assert_eq!(node.ask(allowed), "", "{allowed}");
    }
    for refused in [
        "SUB mesh.deliver.node.* 3\r\n",
        "SUB > 4\r\n",
        "SUB mesh.deliver.seat.mail 5\r\n",
        "PUB mesh.control.report.web-2 0\r\n\r\n",
    ] {
        let said = node.ask(refused);
        assert!(said.contains("Permissions Violation"), "{refused}: {said}");
    }

    assert_eq!(controller.ask("SUB mesh.control.> 1\r\n"), "");
    assert_eq!(node.ask("PUB mesh.control.report.web-1 2\r\nhi\r\n"), "");
    let heard = controller.line();
    assert!(
        heard.contains("MSG mesh.control.report.web-1 1 "),
        "{heard}"
    );
    // Behind the header a service import puts before it.
    assert!((0..10).any(|_| controller.line() == "hi"));
    controller.send("PUB mesh.deliver.node.web-1 2\r\nok\r\n");
    assert_eq!(node.line(), "MSG mesh.deliver.node.web-1 1 2");
}

#[test]
fn streams_are_in_the_account_that_has_them_alone() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let server = bus.start(binary, BTreeMap::new());
    let everything: [&[&str]; 2] = [&[">"], &[">"]];
    let key = UserKey::generate().unwrap();
    let edge = Bus::credentials(&bus.edge, &bus.edge, &key, everything, ISSUED);
    for (credentials, expected) in [
        (bus.controller(), "\"max_storage\":-1"),
        (edge, "not enabled for account"),
    ] {
        let (mut client, answer) = server.meet(&credentials);
        assert_eq!(answer, "");
        client.send("SUB here 1\r\nPUB $JS.API.INFO here 0\r\n\r\n");
        let head = client.line();
        assert!(head.contains("MSG here 1 "), "{head}");
        let said = client.line();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_side_without_grants_is_closed_by_the_server() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let server = bus.start(binary, BTreeMap::new());
    let key = UserKey::generate().unwrap();
    let (mut nobody, answer) = server.meet(&Bus::credentials(
        &bus.edge,
        &bus.edge,
        &key,
        [&[], &[]],
        ISSUED,
    ));
    assert_eq!(answer, "");
    for refused in ["PUB anything 0\r\n\r\n", "SUB anything 1\r\n"] {
        let said = nobody.ask(refused);
        assert!(said.contains("Permissions Violation"), "{refused}: {said}");
    }
}

#[test]
fn a_revoked_user_returns_only_with_a_later_credential() {
    let Some(binary) = nats_server() else { return };
    let bus = Bus::new();
    let [revoked, other] = [UserKey::generate().unwrap(), UserKey::generate().unwrap()];
    let server = bus.start(binary, BTreeMap::from([(revoked.public(), ISSUED)]));
    for (key, at, is_let_in) in [
        (&revoked, ISSUED, false),
        (&revoked, ISSUED + 1, true),
        (&other, ISSUED, true),
    ] {
        let (_, answer) = server.meet(&bus.node(key, at));
        assert_eq!(answer.is_empty(), is_let_in, "issued at {at}: {answer}");
    }
}

#[test]
fn a_jwt_of_an_unknown_account_or_with_anothers_key_is_refused() {
    let Some(binary) = nats_server() else { return };
    let [bus, other] = [Bus::new(), Bus::new()];
    let server = bus.start(binary, BTreeMap::new());
    let key = UserKey::generate().unwrap();
    let rights: [&[&str]; 2] = [&[">"], &[">"]];
    for (account, signer) in [
        (&other.edge, &other.edge),
        (&bus.edge, &other.edge),
        (&bus.edge, &bus.mesh),
    ] {
        let (_, answer) = server.meet(&Bus::credentials(account, signer, &key, rights, ISSUED));
        assert!(answer.contains("Authorization Violation"), "{answer}");
    }
}
