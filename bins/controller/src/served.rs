//! A bus somebody else runs: the controller writes the file of users, and asks the server to read it again.

use anyhow::Context;
use mesh_auth::tls::{ca_client_config, fingerprint};
use mesh_derive::{Plan, render::nats_conf};
use mesh_nats::Endpoint;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::Server;
use crate::keys::{Keys, public};
use crate::managed::{NatsBus, Reach, Vouching, connect, facts};
use crate::state::Layout;

/// Connects to the server. What it has to be configured with is written beside the store first, so that the error of a
/// server that does not know this controller can name the files.
pub(crate) async fn open(
    server: &Server,
    layout: &Layout,
    keys: &Keys,
    plan: &Plan,
) -> anyhow::Result<NatsBus> {
    let accounts = nats_conf::accounts(plan, &public(&keys.controller)?, &public(&keys.system)?);
    crate::keys::private_dir(&layout.bus())?;
    let file = layout.bus().join("accounts.conf");
    mesh_auth::keyfile::write_public(&file, &accounts)?;
    if !server.users_file.exists() {
        mesh_auth::keyfile::write_public(&server.users_file, &nats_conf::edge_users(plan))?;
    }
    let pem = std::fs::read_to_string(&server.ca)
        .with_context(|| format!("bus.nats.ca: {} cannot be read", server.ca.display()))?;
    let endpoint = Endpoint {
        urls: server.urls.clone(),
        tls: Some(ca_client_config(&pem)?),
        name: "controller".to_owned(),
    };
    let bus = connect(endpoint, keys, server.users_file.clone(), server.replicas)
        .await
        .with_context(|| {
            format!(
                "is {} included by the server's configuration, beside {}, and the server reloaded?",
                file.display(),
                server.users_file.display()
            )
        })?;
    Ok(NatsBus {
        bus,
        server: None,
        reach: Reach {
            urls: server.urls.clone(),
            ca: Some(vouching("bus.nats.ca", pem)?),
            facts: facts(),
        },
    })
}

/// The authority in a file that this key of the configuration names.
pub(crate) fn vouching(key: &str, pem: String) -> anyhow::Result<Vouching> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| anyhow::anyhow!("{key} holds no certificate: {error}"))?;
    let fingerprint = fingerprint(&certificate);
    Ok(Vouching { pem, fingerprint })
}
