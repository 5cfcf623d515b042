//! The bus this controller brings along: a NATS server of its own, with accounts, keys and certificates made here.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use mesh_auth::tls::{CaFingerprint, ca_client_config};
use mesh_derive::{Plan, render::nats_conf};
use mesh_model::{BusFacts, BusPlace};
use mesh_nats::{
    Authority, ControllerSetup, Credential, Dialling, Endpoint, FirstAttempt, ManagedServer,
    NatsController, ServerSpec, SyncPolicy, SysConnection, TlsFiles,
};

use crate::config::Managed;
use crate::keys::{Certificates, Keys, public};
use crate::state::{Begun, Layout};

/// A bus that is there, and how hosts reach it.
#[derive(Debug)]
pub(crate) struct NatsBus {
    /// The controller's side.
    pub(crate) bus: NatsController,
    /// The server, if it is ours.
    pub(crate) server: Option<ManagedServer>,
    /// What hosts are told.
    pub(crate) reach: Reach,
}

/// How hosts reach the bus.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// Where.
    pub(crate) urls: Vec<String>,
    /// Who vouches for it; nothing for one on loopback that has nobody.
    pub(crate) ca: Option<Vouching>,
    /// What of it stands in subjects.
    pub(crate) facts: BusFacts,
}

/// Who vouches for a bus.
#[derive(Debug, Clone)]
pub(crate) struct Vouching {
    /// Its certificate, as text.
    pub(crate) pem: String,
    /// What a token pins of it.
    pub(crate) fingerprint: CaFingerprint,
}

impl Vouching {
    /// By an authority of the mesh's own.
    fn by(authority: &mesh_auth::tls::Authority) -> Self {
        Self {
            pem: authority.certificate_pem().to_owned(),
            fingerprint: authority.fingerprint(),
        }
    }
}

impl Reach {
    /// The same, as nodes are told that are to move there.
    pub(crate) fn place(&self) -> BusPlace {
        BusPlace {
            urls: self.urls.clone(),
            ca: self.ca.as_ref().map(|ca| ca.pem.clone()),
            facts: self.facts.clone(),
        }
    }
}

/// What of a bus of ours stands in subjects.
pub(crate) fn facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: nats_conf::MESH_ACCOUNT.to_owned(),
    }
}

/// Starts the server, or adopts the one that runs, and connects.
pub(crate) async fn start(
    managed: &Managed,
    layout: &Layout,
    keys: &Keys,
    plan: &Plan,
    begun: Begun,
) -> anyhow::Result<NatsBus> {
    let names = names(managed);
    let certificates = Certificates::open(&layout.tls(), &names, begun)?;
    let accounts = nats_conf::accounts(plan, &public(&keys.controller)?, &public(&keys.system)?);
    let spec = ServerSpec {
        name: "mesh".to_owned(),
        candidates: candidates(managed),
        search_path: mesh_host::search_path(),
        dir: layout.bus(),
        store_dir: layout.bus().join("jetstream"),
        listen: managed.listen,
        port: managed.port,
        max_payload: 1 << 20,
        sync: managed.sync.map_or(SyncPolicy::Always, SyncPolicy::Every),
        tls: Some(TlsFiles {
            cert: certificates.chain.clone(),
            key: certificates.key.clone(),
        }),
        accounts,
        edge_users: nats_conf::edge_users(plan),
    };
    crate::keys::private_dir(&layout.bus())?;
    let server = ManagedServer::start(spec)
        .await
        .context("the bus cannot be started")?;
    let ready = server.ready();
    let (port, adopted) = (ready.port, ready.adopted);
    tracing::info!(
        port,
        adopted,
        version = ready.version,
        pid = ready.pid,
        "nats-server runs"
    );
    let endpoint = Endpoint {
        urls: vec![url(&here(managed.listen), port)],
        tls: Some(ca_client_config(certificates.authority.certificate_pem())?),
        name: "controller".to_owned(),
    };
    let users_file = layout.bus().join(nats_conf::EDGE_USERS_FILE);
    let bus = match connect(endpoint, keys, users_file, 1).await {
        Ok(bus) => bus,
        Err(error) => {
            // A start that fails leaves no server it started.
            if !adopted {
                let _stopped = server.stop(0).await;
            }
            return Err(error);
        }
    };
    let urls = names.iter().map(|name| url(name, port)).collect();
    Ok(NatsBus {
        bus,
        server: Some(server),
        reach: Reach {
            urls,
            ca: Some(Vouching::by(&certificates.authority)),
            facts: facts(),
        },
    })
}

/// Connects as the controller, and in the system account.
pub(crate) async fn connect(
    endpoint: Endpoint,
    keys: &Keys,
    users_file: PathBuf,
    replicas: u8,
) -> anyhow::Result<NatsController> {
    let dialling = Dialling {
        first: FirstAttempt::MustSucceed,
        seed: mesh_host::seed(),
    };
    let credential =
        |key: &mesh_auth::keys::UserKey| Credential::NKeySeed(key.seed().expose().to_owned());
    let system = SysConnection::open(&endpoint, &credential(&keys.system), dialling)
        .await
        .context("the bus's system account")?;
    let setup = ControllerSetup {
        endpoint,
        credential: credential(&keys.controller),
        account: nats_conf::MESH_ACCOUNT.to_owned(),
        authority: Authority::Files {
            users_file,
            reload: Box::new(system),
        },
        replicas,
        dialling,
    };
    NatsController::connect(setup).await.context("the bus")
}

fn url(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("tls://[{host}]:{port}")
    } else {
        format!("tls://{host}:{port}")
    }
}

/// What hosts call the server: the names the operator gave, else the address it listens on.
fn names(managed: &Managed) -> Vec<String> {
    if managed.names.is_empty() {
        vec![here(managed.listen)]
    } else {
        managed.names.clone()
    }
}

/// How this machine reaches a server that listens there: one that listens everywhere, on loopback.
fn here(listen: IpAddr) -> String {
    match listen {
        IpAddr::V4(address) if address.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(address) if address.is_unspecified() => "::1".to_owned(),
        address => address.to_string(),
    }
}

/// Where `nats-server` is looked for before `PATH`: where the configuration says, and the project's own folder.
fn candidates(managed: &Managed) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = managed.server_dir.iter().cloned().collect();
    if let Ok(here) = std::env::current_dir() {
        dirs.extend(here.ancestors().map(|dir| dir.join(".mesh/bin")));
    }
    dirs
}
