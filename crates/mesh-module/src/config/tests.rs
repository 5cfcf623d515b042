//! What a module is handed, read from variables and files of a test's own.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use mesh_auth::creds::Credentials;
use mesh_auth::keys::UserKey;
use tempfile::TempDir;

use super::*;

struct Handed {
    dir: TempDir,
    variables: BTreeMap<&'static str, String>,
}

impl Handed {
    fn new() -> Self {
        let mut handed = Self {
            dir: tempfile::tempdir().unwrap(),
            variables: BTreeMap::from([
                (MODULE, "shop".to_owned()),
                (NODE, "web-1".to_owned()),
                (BUS_URL, "nats://a:4222, nats://b:4222,".to_owned()),
            ]),
        };
        let key = UserKey::generate().unwrap();
        let text = Credentials::Nkey(key).render();
        handed.file(CREDS, "shop.creds", text.expose());
        handed
    }

    fn file(&mut self, name: &'static str, file: &str, text: &str) {
        let path = self.dir.path().join(file);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        self.variables.insert(name, path.display().to_string());
    }

    fn read(&self) -> Result<ModuleConfig, ConfigError> {
        ModuleConfig::read(|name| self.variables.get(name).cloned())
    }

    fn refused(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

#[test]
fn what_the_agent_hands_over_is_understood() {
    let mut handed = Handed::new();
    let config = handed.read().unwrap();
    assert_eq!(config.instance.to_string(), "shop@web-1");
    let BusConfig::Nats {
        endpoint,
        credential,
        facts,
    } = config.bus
    else {
        panic!("{config:?}");
    };
    assert_eq!(endpoint.urls, ["nats://a:4222", "nats://b:4222"]);
    assert_eq!(endpoint.name, "module/shop@web-1");
    assert!(endpoint.tls.is_none());
    assert!(matches!(credential, Credential::NKeySeed(seed) if seed.starts_with("SU")));
    assert_eq!(facts.domain, None);
    assert_eq!(facts.account, "MESH");

    handed.variables.insert(BUS_DOMAIN, "hub".to_owned());
    handed.variables.insert(BUS_ACCOUNT, "AABC".to_owned());
    let inbox = "mesh.inbox.module.shop.web-1".to_owned();
    handed.variables.insert(INBOX, inbox);
    let config = handed.read().unwrap();
    let BusConfig::Nats { facts, .. } = config.bus else {
        panic!("{config:?}");
    };
    assert_eq!(facts.domain.as_deref(), Some("hub"));
    assert_eq!(facts.account, "AABC");
}

#[test]
fn the_scheme_of_its_urls_says_that_a_bus_is_a_broker() {
    let mut handed = Handed::new();
    let url = "amqp://127.0.0.1:5672/mesh?users=home.".to_owned();
    handed.variables.insert(BUS_URL, url);
    let BusConfig::Amqp { endpoint, .. } = handed.read().unwrap().bus else {
        panic!("it is no broker");
    };
    assert_eq!(endpoint.servers, [("127.0.0.1".to_owned(), 5672)]);
    assert_eq!(
        (endpoint.vhost.as_str(), endpoint.users.as_str()),
        ("mesh", "home.")
    );
    assert_eq!(endpoint.name, "module/shop@web-1");
    for (url, said) in [
        ("amqps://bus.example/mesh", "does not say whom to trust"),
        ("amqp://bus.example/mesh", "names no broker"),
        ("nats://a:4222,amqp://127.0.0.1/mesh", "names no broker"),
    ] {
        handed.variables.insert(BUS_URL, url.to_owned());
        let why = handed.refused();
        assert!(why.contains(said), "{url}: {why}");
    }
}

#[test]
fn what_is_missing_is_named() {
    for name in [MODULE, NODE, BUS_URL, CREDS] {
        let mut handed = Handed::new();
        handed.variables.remove(name);
        let why = handed.refused();
        assert!(why.starts_with(&format!("{name} is not set")), "{why}");
    }
}

#[test]
fn what_is_wrong_is_refused_saying_where() {
    let with = |name, value: &str| {
        let mut handed = Handed::new();
        handed.variables.insert(name, value.to_owned());
        handed.refused()
    };
    assert_eq!(with(MODULE, "Shop"), "MESH_MODULE holds no name");
    assert!(with(BUS_URL, " , ").starts_with("MESH_BUS_URL is not set"));
    assert!(with(BUS_URL, "tls://a:4222").contains("does not say whom to trust"));
    assert!(with(INBOX, "_INBOX").contains("mesh.inbox.module.shop.web-1"));
    assert!(with(CREDS, "/nowhere").contains("/nowhere, which MESH_CREDS names"));
    assert!(with(CA, "/nowhere").contains("/nowhere, which MESH_CA names"));

    for text in ["", "UABC", "SUABC\nSUDEF"] {
        let mut handed = Handed::new();
        handed.file(CREDS, "bad.creds", text);
        let why = handed.refused();
        assert!(why.contains("holds no credential"), "{text:?}: {why}");
    }
    let mut handed = Handed::new();
    handed.file(CA, "ca.pem", "no certificate");
    assert!(handed.refused().contains("there is none in PEM"));
}

#[test]
fn a_vouched_credential_is_taken_whole() {
    let mut handed = Handed::new();
    let text = "-----BEGIN NATS USER JWT-----\neyJ\n------END NATS USER JWT------\n\n\
                -----BEGIN USER NKEY SEED-----\nSUA\n------END USER NKEY SEED------\n";
    handed.file(CREDS, "shop.creds", text);
    let BusConfig::Nats { credential, .. } = handed.read().unwrap().bus else {
        panic!("it is no NATS");
    };
    assert!(matches!(credential, Credential::Creds(found) if found == text));
}
