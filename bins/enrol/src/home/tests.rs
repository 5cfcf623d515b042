//! An interrupted attempt goes on with its keys; a node's directory, or somebody else's, is left alone.

use mesh_auth::keys::SigningKey;
use mesh_auth::tls::CaFingerprint;

use super::*;

fn found(exists: bool, occupied: bool, mode: u32, enrolled: bool) -> Found {
    Found {
        exists,
        occupied,
        mode,
        enrolled,
    }
}

#[test]
fn what_is_done_with_a_directory_depends_on_what_is_there() {
    for (found, decision) in [
        (found(false, false, 0, false), Decision::Make),
        (found(true, false, 0o700, false), Decision::Take),
        (found(true, true, 0o700, false), Decision::Take),
        (found(true, false, 0o755, false), Decision::Close),
        (found(true, true, 0o755, false), Decision::IsOpen),
        (found(true, true, 0o710, false), Decision::IsOpen),
        (found(true, true, 0o700, true), Decision::IsNode),
        (found(true, true, 0o755, true), Decision::IsNode),
    ] {
        assert_eq!(decide(found), decision, "{found:?}");
    }
}

fn token() -> Token {
    Token {
        mesh: "home".parse().unwrap(),
        urls: vec!["tls://bus.example:4222".to_owned()],
        ca: Some(CaFingerprint::from_bytes([0xab; 32])),
        id: "t1".parse().unwrap(),
        joiner: UserKey::generate().unwrap(),
        controller: SigningKey::generate().unwrap().public(),
        node: None,
        expires: 0,
    }
}

fn accepted() -> Accepted {
    Accepted {
        mesh: "home".parse().unwrap(),
        node: "web-1".parse().unwrap(),
        bus: BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        },
        jwt: None,
        ca_pem: Some("-----BEGIN CERTIFICATE-----\n".to_owned()),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_interrupted_attempt_goes_on_with_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mesh/agent");
    let first = Home::take(&path).unwrap().keys().unwrap();
    let home = Home::take(&path).unwrap();
    let second = home.keys().unwrap();
    assert_eq!(first.user.public(), second.user.public());
    assert_eq!(first.secrets.public(), second.secrets.public());
    assert_eq!(mode(&path), 0o700);
    assert_eq!(
        (mode(&home.credential()), mode(&home.box_key())),
        (0o600, 0o600)
    );
    // Interrupted between the two.
    fs::remove_file(home.box_key()).unwrap();
    drop(home);
    let third = Home::take(&path).unwrap().keys().unwrap();
    assert_eq!(first.user.public(), third.user.public());
    assert_ne!(first.secrets.public(), third.secrets.public());
}

#[test]
fn of_two_enrolments_in_one_directory_the_second_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent");
    let first = Home::take(&path).unwrap();
    let error = Home::take(&path).unwrap_err().to_string();
    assert!(error.contains("another `enrol`"), "{error}");
    drop(first);
    Home::take(&path).unwrap();
}

#[test]
fn a_host_that_was_accepted_is_a_node_and_is_not_enrolled_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent");
    let home = Home::take(&path).unwrap();
    let (token, keys) = (token(), home.keys().unwrap());
    // What is left of a node this host was before, whose configuration was removed.
    let left = ["bus.json", "bus.offered.json", "ca.amqp.pem", "ca.nats.pem"];
    for name in left {
        fs::write(path.join(name), "").unwrap();
    }
    home.settle(&token, &keys, accepted()).unwrap();
    for name in left {
        assert!(!path.join(name).exists(), "{name} leads elsewhere");
    }

    let config = AgentConfig::read(&home.config()).unwrap();
    assert_eq!(config.node.as_str(), "web-1");
    assert_eq!(config.controller, token.controller);
    assert_eq!(config.state_dir, path);
    let kept = Credentials::read(&config.credential).unwrap();
    assert_eq!(kept.key().public(), keys.user.public());
    let ca = fs::read_to_string(config.ca.unwrap()).unwrap();
    assert_eq!(Some(ca), accepted().ca_pem);

    let error = Home::take(&path).unwrap_err().to_string();
    assert!(error.contains("already belongs to a node"), "{error}");
}

#[test]
fn a_host_on_a_bus_without_an_authority_is_told_of_none() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::take(&dir.path().join("agent")).unwrap();
    let mut token = token();
    (token.urls, token.ca) = (vec!["amqp://127.0.0.1:5672/mesh".to_owned()], None);
    let accepted = Accepted {
        bus: BusFacts::default(),
        ca_pem: None,
        ..accepted()
    };
    home.settle(&token, &home.keys().unwrap(), accepted)
        .unwrap();
    let config = AgentConfig::read(&home.config()).unwrap();
    assert_eq!((config.ca, config.urls), (None, token.urls));
}

#[test]
fn a_credential_for_another_key_makes_no_node() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::take(&dir.path().join("agent")).unwrap();
    let keys = home.keys().unwrap();
    let accepted = Accepted {
        jwt: Some("e30.e30.e30".to_owned()),
        ..accepted()
    };
    assert!(home.settle(&token(), &keys, accepted).is_err());
    assert!(!home.config().exists());
}

#[test]
fn an_open_directory_is_closed_if_empty_and_refused_if_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.path().join("theirs"), "").unwrap();
    let error = Home::take(dir.path()).unwrap_err().to_string();
    assert!(error.contains("chmod 700"), "{error}");
    assert_eq!(mode(dir.path()), 0o755);

    fs::remove_file(dir.path().join("theirs")).unwrap();
    Home::take(dir.path()).unwrap();
    assert_eq!(mode(dir.path()), 0o700);
}
