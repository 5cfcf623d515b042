//! A server of one test: started for it, and ended with it, however it ends.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use mesh_auth::keys::UserKey;
use mesh_derive::render::nats_conf::{
    EDGE_USERS_FILE, MESH_ACCOUNT, SYSTEM_ACCOUNT, accounts, edge_users,
};
use mesh_derive::{Bounds, Plan, derive};
use mesh_model::{BusFacts, Principal, Records};
use mesh_nats::{
    Authority, ControllerSetup, Credential, Dialling, Endpoint, FirstAttempt, ManagedServer,
    NatsController, ServerSpec, ServerState, SyncPolicy, SysConnection,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::keys::{credential, public};
use crate::rogue::Rogue;
use crate::tool::Tool;

/// What accounts a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Those that are derived.
    Derived,
    /// The derived ones, but the controller may not settle what comes from `EVENTS`.
    WithoutEventAcks,
    /// The derived ones, but the controller may publish on this as well.
    ControllerMay(&'static str),
    /// One account for everybody, as without the derivation one would write it; each user's lists are the derived ones.
    OneAccount,
}

/// A server with keys of its own for the controller and for the system account.
#[derive(Debug)]
pub struct Server {
    /// Let go before the process is ended: it would start it again.
    managed: Option<ManagedServer>,
    dir: tempfile::TempDir,
    port: u16,
    shape: Shape,
    controller: UserKey,
    system: UserKey,
}

impl Server {
    /// Starts one; nothing when nobody says where the program is, which is said aloud and in CI an error.
    pub async fn start(shape: Shape) -> anyhow::Result<Option<Self>> {
        let Some(programs) = programs()? else {
            return Ok(None);
        };
        let dir = tempfile::tempdir()?;
        let (controller, system) = (UserKey::generate()?, UserKey::generate()?);
        let plan = derive(
            &Records::new("live".parse()?, Self::facts()),
            &Bounds::default(),
        );
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
            tls: None,
            accounts: shaped(shape, plan, &controller, &system)?,
            edge_users: "users: []\n".to_owned(),
        };
        let managed = ManagedServer::start(spec).await?;
        Ok(Some(Self {
            port: managed.ready().port,
            managed: Some(managed),
            shape,
            dir,
            controller,
            system,
        }))
    }

    /// What of such a server stands in subjects.
    pub fn facts() -> BusFacts {
        BusFacts {
            domain: None,
            account: MESH_ACCOUNT.to_owned(),
        }
    }

    /// Where it is.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            urls: vec![format!("nats://127.0.0.1:{}", self.port)],
            tls: None,
            name: "live test".to_owned(),
        }
    }

    /// What the controller connects with.
    pub fn controller_credential(&self) -> Credential {
        credential(&self.controller)
    }

    /// A controller's side, connected; nothing is asserted and nobody has taken over.
    pub async fn controller(&self) -> Result<NatsController, mesh_bus::BusError> {
        let system = credential(&self.system);
        let authority = match self.shape {
            Shape::Derived | Shape::WithoutEventAcks | Shape::ControllerMay(_) => {
                Authority::Files {
                    users_file: self.users_file(),
                    reload: Box::new(
                        SysConnection::open(&self.endpoint(), &system, DIALLING).await?,
                    ),
                }
            }
            // The file names the controller as well, which is not the authority's to write.
            Shape::OneAccount => Authority::None,
        };
        let setup = ControllerSetup {
            endpoint: self.endpoint(),
            credential: credential(&self.controller),
            account: MESH_ACCOUNT.to_owned(),
            authority,
            replicas: 1,
            dialling: DIALLING,
        };
        NatsController::connect(setup).await
    }

    /// An operator's tool, with the controller's credential on a connection of its own.
    pub async fn tool(&self) -> anyhow::Result<Tool> {
        let client = self.rogue(&self.controller, &Principal::Controller).await?;
        Ok(Tool::new(client.client().clone()))
    }

    /// A bare client with somebody's key.
    pub async fn rogue(&self, key: &UserKey, as_: &Principal) -> anyhow::Result<Rogue> {
        let url = format!("nats://127.0.0.1:{}", self.port);
        Rogue::connect(&url, key.seed().expose(), as_).await
    }

    /// The users, as the server reads them.
    pub fn users_file(&self) -> PathBuf {
        self.dir.path().join("bus").join(EDGE_USERS_FILE)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(managed) = self.managed.take() else {
            return;
        };
        let ServerState::Ready(ready) = managed.state().borrow().clone() else {
            return;
        };
        drop(managed);
        let Some(pid) = Pid::from_raw(ready.pid) else {
            return;
        };
        // It may be dead already, and somebody else may have waited for it.
        let _dead = kill_process(pid, Signal::KILL);
        let _waited = waitpid(Some(pid), WaitOptions::empty());
    }
}

/// The directory of the server's program.
pub fn programs() -> anyhow::Result<Option<PathBuf>> {
    let Some(program) = named("MESH_TEST_NATS")? else {
        return Ok(None);
    };
    let dir = program.parent().context("MESH_TEST_NATS is no path")?;
    Ok(Some(dir.to_owned()))
}

/// The path this variable names; nothing when it names none, which is said aloud and in CI an error.
#[expect(
    clippy::print_stderr,
    reason = "a live test that does not run says so aloud"
)]
pub fn named(variable: &str) -> anyhow::Result<Option<PathBuf>> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(Some(PathBuf::from(path)));
    }
    if mesh_testkit::in_ci() {
        bail!("{variable} is not set, and in CI every live test runs");
    }
    eprintln!("did not run: {variable} is not set");
    Ok(None)
}

fn shaped(
    shape: Shape,
    mut plan: Plan,
    controller: &UserKey,
    system: &UserKey,
) -> anyhow::Result<String> {
    let (controller, system) = (public(controller)?, public(system)?);
    match shape {
        Shape::Derived => {}
        Shape::WithoutEventAcks => {
            let grant = plan.grants.get_mut(&Principal::Controller);
            let publish = &mut grant.context("the controller has a grant")?.publish;
            publish.retain(|filter| {
                let text = filter.as_str();
                !(text.starts_with("$JS.ACK.") && text.contains(".EVENTS."))
            });
        }
        Shape::ControllerMay(publish) => {
            let grant = plan.grants.get_mut(&Principal::Controller);
            let grant = grant.context("the controller has a grant")?;
            grant.publish.insert(publish.parse()?);
        }
        Shape::OneAccount => {
            return Ok(format!(
                "accounts {{\n  {MESH_ACCOUNT} {{\n    jetstream: enabled\n    include \"{EDGE_USERS_FILE}\"\n  }}\n  \
                 {SYSTEM_ACCOUNT} {{ users: [ {{ nkey: {system} }} ] }}\n}}\nsystem_account: {SYSTEM_ACCOUNT}\n"
            ));
        }
    }
    Ok(accounts(&plan, &controller, &system))
}

impl Server {
    /// Tells a server of one account whom it serves: the plan's users and the controller.
    pub async fn serve_all_in_one_account(&self, plan: &Plan) -> anyhow::Result<()> {
        let controller = format!("users: [\n  {{ nkey: {} }}\n", public(&self.controller)?);
        let users = edge_users(plan).replacen("users: [\n", &controller, 1);
        std::fs::write(self.users_file(), users)?;
        let system = self.rogue(&self.system, &Principal::Controller).await?;
        let id = system.client().server_info().server_id;
        let subject = format!("$SYS.REQ.SERVER.{id}.RELOAD");
        system.client().request(subject, "".into()).await?;
        Ok(())
    }
}

/// How a test connects.
pub(crate) const DIALLING: Dialling = Dialling {
    first: FirstAttempt::MustSucceed,
    seed: 7,
};
