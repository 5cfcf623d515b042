//! Credentials are opened, handed over and forgotten; one that is not usable stops its module and no other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use mesh_auth::keys::UserKey;
use mesh_auth::seal::seal;
use mesh_model::{ModuleName, ModuleState, PublicKey, Restart, Run, Sealed, Workload};
use mesh_runtime::{Desired, DryRun};
use tempfile::TempDir;

use super::*;

struct Node {
    dir: TempDir,
    box_key: BoxKey,
    workloads: HostWorkloads,
    told: watch::Sender<Surroundings>,
}

fn node() -> Node {
    let dir = tempfile::tempdir().unwrap();
    let box_key = BoxKey::generate().unwrap();
    let surroundings = Surroundings {
        node: "web-1".parse().unwrap(),
        urls: vec![
            "tls://a.example:4222".to_owned(),
            "tls://b.example:4222".to_owned(),
        ],
        ca: Some("/etc/mesh/ca.pem".into()),
        bus: BusFacts {
            domain: Some("hub".to_owned()),
            account: "MESH".to_owned(),
        },
        box_key: box_key.clone(),
        credentials: dir.path().join("credentials"),
    };
    let (told, surroundings) = watch::channel(surroundings);
    Node {
        workloads: HostWorkloads::new(Runtime::DryRun(DryRun::new()), surroundings),
        told,
        dir,
        box_key,
    }
}

impl Node {
    fn creds(&self, module: &str) -> PathBuf {
        self.dir.path().join(format!("credentials/{module}.creds"))
    }

    fn desired(&self) -> Vec<Desired> {
        match &self.workloads.shown.runtime {
            Runtime::DryRun(dry_run) => dry_run.desired(),
            Runtime::Process(_) => panic!("a dry run was given"),
        }
    }

    async fn carry_out(&self, counter: u64, workloads: &[&Workload]) -> States {
        let declaration = declaration(counter, workloads);
        self.workloads.carry_out(declaration).await.unwrap()
    }
}

fn declaration(counter: u64, workloads: &[&Workload]) -> Declaration {
    Declaration {
        home: mesh_model::Home::Here,
        node: "web-1".parse().unwrap(),
        generation: Generation {
            incarnation: 1,
            counter,
        },
        workloads: workloads.iter().map(|w| (*w).clone()).collect(),
    }
}

fn sealed_to(to: &BoxKey, module: &str) -> Workload {
    let key = UserKey::generate().unwrap();
    let sealed = seal(&to.public(), key.seed().expose().as_bytes()).unwrap();
    Workload {
        module: module.parse().unwrap(),
        release: "1".to_owned(),
        run: Run::command(["absent".to_owned()]).unwrap(),
        after: [].into(),
        env: [].into(),
        restart: Restart::Always,
        key: PublicKey::new(key.public().as_str()).unwrap(),
        credential: Sealed(sealed.into_bytes()),
        health: None,
        secrets: [].into(),
        pull_secret: None,
        accepts: [].into(),
    }
}

fn key_in(path: &Path) -> String {
    let credentials = mesh_auth::creds::Credentials::read(path).unwrap();
    credentials.key().public().to_string()
}

#[tokio::test]
async fn a_module_is_handed_its_opened_credential_and_where_it_is() {
    let node = node();
    let mailer = sealed_to(&node.box_key, "mailer");
    let states = node.carry_out(1, &[&mailer]).await;
    assert_eq!(
        states[&"mailer".parse().unwrap()].state,
        ModuleState::Running
    );

    let path = node.creds("mailer");
    assert_eq!(key_in(&path), mailer.key.as_str());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let [desired] = node.desired().try_into().unwrap();
    let expected = [
        ("MESH_BUS_ACCOUNT", "MESH"),
        ("MESH_BUS_DOMAIN", "hub"),
        ("MESH_BUS_URL", "tls://a.example:4222,tls://b.example:4222"),
        ("MESH_CA", "/etc/mesh/ca.pem"),
        ("MESH_CREDS", path.to_str().unwrap()),
        ("MESH_INBOX", "mesh.inbox.module.mailer.web-1"),
        ("MESH_MODULE", "mailer"),
        ("MESH_NODE", "web-1"),
    ];
    assert_eq!(
        desired.extra_env,
        expected
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    );
}

#[tokio::test]
async fn a_credential_that_does_not_open_fails_its_module_and_no_other() {
    let node = node();
    let good = sealed_to(&node.box_key, "good");
    let foreign = sealed_to(&BoxKey::generate().unwrap(), "foreign");
    let mut swapped = sealed_to(&node.box_key, "swapped");
    swapped.credential = good.credential.clone();
    let mut seen = node.workloads.states();

    let states = node.carry_out(1, &[&foreign, &good, &swapped]).await;
    let of = |module: &str| &states[&module.parse().unwrap()];
    assert_eq!(of("good").state, ModuleState::Running);
    for (module, said) in [
        ("foreign", "cannot be opened"),
        ("swapped", "its credential is for the key"),
    ] {
        assert_eq!(of(module).state, ModuleState::Failed);
        let reason = of(module).reason.as_deref().unwrap();
        assert!(reason.contains(said), "{reason}");
        assert!(!node.creds(module).exists());
    }
    assert_eq!(node.desired().len(), 1);
    assert_eq!(*seen.borrow_and_update(), states);

    // Sealed anew, to the right key.
    let foreign = sealed_to(&node.box_key, "foreign");
    let states = node.carry_out(2, &[&foreign, &good]).await;
    assert!(states.values().all(|r| r.state == ModuleState::Running));
    assert_eq!(states.len(), 2);
}

#[tokio::test]
async fn credentials_follow_the_declaration() {
    let node = node();
    let (a, b) = (sealed_to(&node.box_key, "a"), sealed_to(&node.box_key, "b"));
    node.carry_out(1, &[&a, &b]).await;
    let before = fs::metadata(node.creds("a")).unwrap().ino();
    let new_b = sealed_to(&node.box_key, "b");
    node.carry_out(2, &[&a, &new_b]).await;
    assert_eq!(fs::metadata(node.creds("a")).unwrap().ino(), before);
    assert_eq!(key_in(&node.creds("b")), new_b.key.as_str());

    node.carry_out(3, &[&a]).await;
    assert!(node.creds("a").exists() && !node.creds("b").exists());
}

#[tokio::test]
async fn an_older_call_that_begins_later_changes_nothing() {
    let node = node();
    let (a, b) = (sealed_to(&node.box_key, "a"), sealed_to(&node.box_key, "b"));
    node.carry_out(2, &[&b]).await;
    let states = node.carry_out(1, &[&a]).await;
    assert_eq!(
        states.keys().map(ModuleName::as_str).collect::<Vec<_>>(),
        ["b"]
    );
    assert!(!node.creds("a").exists() && node.creds("b").exists());
    // Once more, as after an error: carried out again.
    node.carry_out(2, &[&b]).await;
    assert_eq!(node.desired().len(), 1);
}

#[tokio::test]
async fn on_another_bus_a_module_has_another_credential_and_is_told_where_it_is() {
    let node = node();
    let before = sealed_to(&node.box_key, "mailer");
    node.carry_out(1, &[&before]).await;
    let mut after = sealed_to(&node.box_key, "mailer");
    let key = {
        let opened = mesh_auth::seal::Sealed::from_bytes(after.credential.0.clone());
        let opened = mesh_auth::seal::open(&node.box_key, &opened).unwrap();
        UserKey::from_seed(std::str::from_utf8(opened.expose()).unwrap()).unwrap()
    };
    after.key = crate::public_on(mesh_model::BusKind::Amqp, &key).unwrap();
    assert!(!before.runs_as(&after), "it is restarted, once");

    // A credential of the other bus is none of this one.
    let states = node.carry_out(2, &[&after]).await;
    assert_eq!(
        states[&"mailer".parse().unwrap()].state,
        ModuleState::Failed
    );
    node.told.send_modify(|told| {
        told.urls = vec!["amqps://there.example/mesh".to_owned()];
        told.ca = Some("/srv/mesh/ca.amqp.pem".into());
        told.bus = BusFacts::default();
    });
    let states = node.carry_out(3, &[&after]).await;
    assert_eq!(
        states[&"mailer".parse().unwrap()].state,
        ModuleState::Running
    );
    let [desired] = node.desired().try_into().unwrap();
    let env = |name: &str| desired.extra_env.get(name).map(String::as_str);
    assert_eq!(env("MESH_BUS_URL"), Some("amqps://there.example/mesh"));
    assert_eq!(env("MESH_CA"), Some("/srv/mesh/ca.amqp.pem"));
    assert_eq!(
        (env("MESH_BUS_ACCOUNT"), env("MESH_BUS_DOMAIN")),
        (None, None)
    );
    assert_eq!(key_in(&node.creds("mailer")), key.public().as_str());
}
