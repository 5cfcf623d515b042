//! A managed server knows a node by its nkey, behind the certificate authority that is made here.

use std::{
    io::{BufRead, BufReader},
    sync::Arc,
};

use mesh_auth::{
    creds::Credentials,
    keys::UserKey,
    tls::{Authority, ca_client_config, pinned_client_config},
};
use rustls::{
    ClientConnection, StreamOwned,
    pki_types::{ServerName, UnixTime},
};

use crate::server::{Client, Server, nats_server};

#[test]
fn a_managed_server_knows_a_node_by_its_nkey_behind_the_pinned_ca() {
    let Some(binary) = nats_server() else { return };
    let authority = Authority::generate(UnixTime::now().as_secs()).unwrap();
    let certificate = authority.issue(&[], UnixTime::now().as_secs()).unwrap();
    let [key, stranger] = [UserKey::generate().unwrap(), UserKey::generate().unwrap()];
    let config = format!(
        "tls {{ cert_file: \"chain.pem\", key_file: \"key.pem\" }}\nauthorization {{ users: [ {{ nkey: {} }} ] }}",
        key.public()
    );
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("chain.pem"), &certificate.chain_pem).unwrap();
    std::fs::write(path("key.pem"), certificate.key_pem.expose()).unwrap();
    let config = config
        .replace("chain.pem", &path("chain.pem"))
        .replace("key.pem", &path("key.pem"));
    let server = Server::start(binary, &config);

    let (pinned, ca) = pinned_client_config(authority.fingerprint()).unwrap();
    let meet = |config: &Arc<rustls::ClientConfig>, key: &UserKey| {
        let mut plain = BufReader::with_capacity(1, server.tcp());
        let mut info = String::new();
        plain.read_line(&mut info).unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut client = Client {
            stream: BufReader::new(StreamOwned::new(tls, plain.into_inner())),
        };
        client.introduce(&info, &Credentials::Nkey(key.clone()))
    };
    let pinned = Arc::new(pinned);
    assert_eq!(meet(&pinned, &key), "");
    assert!(meet(&pinned, &stranger).contains("Authorization Violation"));
    let known = Arc::new(ca_client_config(&ca.certificate_pem().unwrap()).unwrap());
    assert_eq!(meet(&known, &key), "");
}
