//! A server of an operator's, encrypted, is proven with credentials that are vouched for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::programs;
use mesh_auth::creds::{Credentials, VouchedKey};
use mesh_auth::jwt::{
    AccountClaims, JetStream, OperatorClaims, UserClaims, account_jwt, operator_jwt, user_jwt,
};
use mesh_auth::keys::{AccountKey, OperatorKey, UserKey};
use mesh_auth::tls::{Authority as Certificates, ca_client_config};
use mesh_bus::{BusError, ControllerBus};
use mesh_derive::proof::Extent;
use mesh_derive::render::jwt::user_claims;
use mesh_derive::{Bounds, Plan, derive};
use mesh_model::{BusFacts, Principal, Records};
use mesh_nats::proof::{ProveError, Proving, prove};
use mesh_nats::{
    Authority, ControllerSetup, Credential, Dialling, Endpoint, FirstAttempt, ManagedServer,
    NatsController, ServerSpec, SyncPolicy, TlsFiles,
};

use super::said;

/// An operator with the system's account and one with streams.
struct Operator {
    key: OperatorKey,
    system: AccountKey,
    mesh: AccountKey,
}

impl Operator {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            key: OperatorKey::generate()?,
            system: AccountKey::generate()?,
            mesh: AccountKey::generate()?,
        })
    }

    fn accounts(&self) -> anyhow::Result<String> {
        let claims = |name: &str, key: &AccountKey, jetstream| AccountClaims {
            name: name.to_owned(),
            subject: key.public(),
            jetstream,
            exports: vec![],
            imports: vec![],
            signing_keys: vec![],
            revoked: BTreeMap::new(),
            issued_at: ISSUED,
        };
        let operator = OperatorClaims {
            name: "mesh".to_owned(),
            system_account: Some(self.system.public()),
            issued_at: ISSUED,
        };
        let operator = operator_jwt(&operator, &self.key);
        let mut text = format!("operator: {operator}\nresolver: MEMORY\nresolver_preload {{\n");
        for claims in [
            claims("SYS", &self.system, JetStream::Off),
            claims("MESH", &self.mesh, JetStream::On),
        ] {
            let jwt = account_jwt(&claims, &self.key);
            writeln!(text, "  {}: {jwt}", claims.subject)?;
        }
        text.push_str("}\n");
        Ok(text)
    }

    /// A credential with exactly the grant of the plan.
    fn vouches_for(&self, who: &Principal, plan: &Plan) -> anyhow::Result<Credential> {
        let rights = user_claims(plan.grants.get(who).context("it has a grant")?);
        let key = UserKey::generate()?;
        let claims = UserClaims {
            name: who.to_string(),
            subject: key.public(),
            account: self.mesh.public(),
            publish: rights.publish.allow,
            subscribe: rights.subscribe.allow,
            issued_at: ISSUED,
            expires: None,
        };
        let vouched = VouchedKey::new(user_jwt(&claims, &self.mesh), key)?;
        let text = Credentials::Jwt(vouched).render().expose().to_owned();
        Ok(Credential::Creds(text))
    }

    fn facts(&self) -> BusFacts {
        BusFacts {
            domain: None,
            account: self.mesh.public().to_string(),
        }
    }
}

const ISSUED: u64 = 1_780_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_server_of_an_operators_is_proven_and_one_nobody_vouches_for_is_not()
-> anyhow::Result<()> {
    let Some(programs) = programs()? else {
        return Ok(());
    };
    let dir = tempfile::tempdir()?;
    let operator = Operator::new()?;
    let now = mesh_host::now().as_millis() / 1000;
    let names = ["127.0.0.1".to_owned()];
    let certificates = Certificates::generate(now)?;
    let certificate = certificates.issue(&names, now)?;
    let files = TlsFiles {
        cert: dir.path().join("cert.pem"),
        key: dir.path().join("key.pem"),
    };
    std::fs::write(&files.cert, &certificate.chain_pem)?;
    std::fs::write(&files.key, certificate.key_pem.expose())?;
    let spec = ServerSpec {
        name: "mesh-live".to_owned(),
        candidates: vec![programs],
        search_path: None,
        dir: dir.path().join("bus"),
        store_dir: dir.path().join("bus/jetstream"),
        listen: std::net::Ipv4Addr::LOCALHOST.into(),
        port: 0,
        max_payload: 1 << 20,
        sync: SyncPolicy::Every(Duration::from_secs(10)),
        tls: Some(files),
        accounts: operator.accounts()?,
        edge_users: "users: []\n".to_owned(),
    };
    let server = ManagedServer::start(spec).await?;
    let port = server.ready().port;
    let proven = is_proven(
        &operator,
        port,
        &certificates,
        &Certificates::generate(now)?,
    )
    .await;
    server.stop(0).await;
    proven
}

async fn is_proven(
    operator: &Operator,
    port: u16,
    certificates: &Certificates,
    others: &Certificates,
) -> anyhow::Result<()> {
    let plan = derive(
        &Records::new("live".parse()?, operator.facts()),
        &Bounds::default(),
    );
    let who = Principal::Controller;
    let credential = operator.vouches_for(&who, &plan)?;
    let endpoint = Endpoint {
        urls: vec![format!("tls://127.0.0.1:{port}")],
        tls: Some(ca_client_config(certificates.certificate_pem())?),
        name: "live test".to_owned(),
    };
    let controller = NatsController::connect(ControllerSetup {
        endpoint: endpoint.clone(),
        credential: credential.clone(),
        account: operator.facts().account,
        authority: Authority::None,
        replicas: 1,
        dialling: Dialling {
            first: FirstAttempt::MustSucceed,
            seed: 7,
        },
    })
    .await?;
    controller.assert(&plan).await?;
    let mut proving = Proving {
        endpoint,
        controller: credential.clone(),
        facts: operator.facts(),
        extent: Extent::Whole,
        at_a_time: 1,
        within: Duration::from_secs(90),
    };
    let keys = BTreeMap::from([(who.clone(), credential)]);
    let proof = prove(&proving, &plan, &keys).await?;
    // No panic: the server is to be stopped whatever comes of this.
    let differences = said(&proof.differences);
    ensure!(differences.is_empty(), "{differences:?}");
    let tried = proof.principals.get(&who);
    ensure!(tried.is_some_and(|tried| tried.allowed > 5), "{tried:?}");
    proving.endpoint.tls = Some(ca_client_config(others.certificate_pem())?);
    let untrusted = prove(&proving, &plan, &keys).await;
    ensure!(
        matches!(untrusted, Err(ProveError::Watching(BusError::Away(_)))),
        "{untrusted:?}"
    );
    proving.endpoint.tls = None;
    let in_the_clear = prove(&proving, &plan, &keys).await;
    ensure!(
        matches!(
            in_the_clear,
            Err(ProveError::Watching(BusError::Refused { .. }))
        ),
        "{in_the_clear:?}"
    );
    Ok(())
}
