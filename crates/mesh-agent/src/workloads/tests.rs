//! Credentials are opened, handed over and forgotten; one that is not usable stops its module and no other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use mesh_auth::keys::UserKey;
use mesh_auth::seal::seal;
use mesh_model::{
    HandedSecret, ModuleName, ModuleState, PublicKey, Restart, Run, Sealed, Workload,
};
use mesh_runtime::{Desired, DryRun, HostConfig, HostRuntime, Pace};
use tempfile::TempDir;

use super::*;
use crate::{ContainerSettings, Engine};

struct Node {
    dir: TempDir,
    box_key: BoxKey,
    workloads: HostWorkloads,
    told: watch::Sender<Surroundings>,
}

fn node() -> Node {
    let dir = tempfile::tempdir().unwrap();
    node_over(Runtime::DryRun(DryRun::new()), dir)
}

/// One that runs processes, and does not wait long.
async fn running_node() -> Node {
    let dir = tempfile::tempdir().unwrap();
    let runtime = processes(dir.path()).await;
    node_over(runtime, dir)
}

async fn processes(dir: &Path) -> Runtime {
    let millis = std::time::Duration::from_millis;
    let processes = HostConfig {
        dir: dir.join("runtime"),
        base_env: mesh_host::base_env(),
        pace: Pace {
            first: millis(10),
            longest: millis(50),
            settle: millis(400),
            ..Pace::default()
        },
        seed: 7,
        now: mesh_host::now,
    };
    let containers = ContainerSettings {
        engine: Engine::Off,
        ..ContainerSettings::default()
    };
    let owner = "web-1.test".to_owned();
    let containers = containers.config(owner, dir.join("containers"), &processes);
    loop {
        match HostRuntime::open(processes.clone(), containers.clone()).await {
            Ok((runtime, _)) => return Runtime::Host(Box::new(runtime)),
            // The one before is about to let go.
            Err(RuntimeError::InUse { .. }) => tokio::time::sleep(millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

fn node_over(runtime: Runtime, dir: TempDir) -> Node {
    let box_key = BoxKey::generate().unwrap();
    let ca = dir.path().join("pinned.pem");
    fs::write(&ca, "certificate").unwrap();
    let surroundings = Surroundings {
        node: "web-1".parse().unwrap(),
        urls: vec![
            "tls://a.example:4222".to_owned(),
            "tls://b.example:4222".to_owned(),
        ],
        ca: Some(ca),
        bus: BusFacts {
            domain: Some("hub".to_owned()),
            account: "MESH".to_owned(),
        },
        box_key: box_key.clone(),
        handed: HandedFiles::of_state(dir.path()),
    };
    let (told, surroundings) = watch::channel(surroundings);
    Node {
        workloads: HostWorkloads::new(runtime, surroundings),
        told,
        dir,
        box_key,
    }
}

impl Node {
    fn handed(&self, module: &str) -> PathBuf {
        self.dir.path().join("handed").join(module)
    }

    fn creds(&self, module: &str) -> PathBuf {
        self.handed(module).join("creds")
    }

    fn desired(&self) -> Vec<Desired> {
        match &self.workloads.shown.runtime {
            Runtime::DryRun(dry_run) => dry_run.desired(),
            Runtime::Host(_) => panic!("a dry run was given"),
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
    let ca = node.handed("mailer").join("ca.pem");
    assert_eq!(fs::read_to_string(&ca).unwrap(), "certificate");
    let expected = [
        ("MESH_BUS_ACCOUNT", "MESH"),
        ("MESH_BUS_DOMAIN", "hub"),
        ("MESH_BUS_URL", "tls://a.example:4222,tls://b.example:4222"),
        ("MESH_CA", ca.to_str().unwrap()),
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
    let there = node.dir.path().join("ca.amqp.pem");
    fs::write(&there, "another certificate").unwrap();
    node.told.send_modify(|told| {
        told.urls = vec!["amqps://there.example/mesh".to_owned()];
        told.ca = Some(there.clone());
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
    let ca = node.handed("mailer").join("ca.pem");
    assert_eq!(env("MESH_CA"), ca.to_str());
    assert_eq!(fs::read_to_string(&ca).unwrap(), "another certificate");
    assert_eq!(
        (env("MESH_BUS_ACCOUNT"), env("MESH_BUS_DOMAIN")),
        (None, None)
    );
    assert_eq!(key_in(&node.creds("mailer")), key.public().as_str());
}

fn secret(to: &BoxKey, version: u64, value: &str) -> HandedSecret {
    let sealed = seal(&to.public(), value.as_bytes()).unwrap();
    HandedSecret {
        version,
        sealed: Sealed(sealed.into_bytes()),
    }
}

#[tokio::test]
async fn a_secret_is_handed_as_a_file_and_its_value_is_in_no_environment_and_nothing_printed() {
    let node = node();
    let mut mailer = sealed_to(&node.box_key, "mailer");
    let hunter = secret(&node.box_key, 1, "hunter2");
    mailer.secrets = [("SMTP_PASSWORD".parse().unwrap(), hunter)].into();
    mailer.pull_secret = Some(secret(&node.box_key, 1, "robot:hunter3"));
    node.carry_out(1, &[&mailer]).await;

    let [desired] = node.desired().try_into().unwrap();
    let path = node.handed("mailer").join("secrets/SMTP_PASSWORD");
    assert_eq!(fs::read_to_string(&path).unwrap(), "hunter2");
    let env = |env: &BTreeMap<String, String>, name: &str| env.get(name).cloned();
    for (env_of, root) in [
        (&desired.extra_env, desired.handed.to_str().unwrap()),
        (&desired.extra_env_in_container, "/run/mesh"),
    ] {
        for (name, file) in [
            ("MESH_CREDS", "creds"),
            ("MESH_CA", "ca.pem"),
            ("SMTP_PASSWORD_FILE", "secrets/SMTP_PASSWORD"),
            ("MESH_SECRETS", "secrets"),
        ] {
            assert_eq!(env(env_of, name), Some(format!("{root}/{file}")));
        }
        assert_eq!(env_of.len(), desired.extra_env.len());
    }
    let pull_secret = desired.pull_secret.as_ref().unwrap();
    assert_eq!(pull_secret.expose(), b"robot:hunter3");
    let (process, container) = (&desired.extra_env, &desired.extra_env_in_container);
    let printed = format!("{desired:?} {desired:#?} {process:?} {container:?}");
    assert!(!printed.contains("hunter"), "{printed}");

    // What does not open stops this module, and is not repeated.
    let foreign = secret(&BoxKey::generate().unwrap(), 2, "hunter4");
    mailer.secrets = [("SMTP_PASSWORD".parse().unwrap(), foreign)].into();
    let states = node.carry_out(2, &[&mailer]).await;
    let reason = states[&"mailer".parse().unwrap()].reason.clone().unwrap();
    assert!(
        reason.contains("its secret SMTP_PASSWORD cannot be opened") && !reason.contains("hunter"),
        "{reason}"
    );
}

#[tokio::test]
async fn what_comes_back_finds_the_secret_only_it_names_until_something_else_is_good() {
    let mut node = running_node().await;
    let release = |release: &str, script: &str| Workload {
        release: release.to_owned(),
        run: Run::command(["sh", "-c", script].map(str::to_owned)).unwrap(),
        ..sealed_to(&node.box_key, "mailer")
    };
    let mut first = release("1", r#"read -r value < "$TOKEN_FILE" && exec sleep 600"#);
    first.secrets = [(
        "TOKEN".parse().unwrap(),
        secret(&node.box_key, 1, "hunter2\n"),
    )]
    .into();
    let bad = release("2", "exit 3");
    let good = release("3", r#"test -z "$NEVER" && exec sleep 600"#);
    let path = node.handed("mailer").join("secrets/TOKEN");
    let mailer: ModuleName = "mailer".parse().unwrap();
    let runs = |states: &States, release: &str| {
        let it = &states[&mailer];
        let found = (it.state, it.release.as_str());
        assert_eq!(found, (ModuleState::Running, release), "{it:?}");
        it.reason.clone()
    };

    assert_eq!(runs(&node.carry_out(1, &[&first]).await, "1"), None);
    let why = runs(&node.carry_out(2, &[&bad]).await, "1");
    assert!(why.is_some_and(|why| why.starts_with("release 2: ")));
    assert!(path.exists());

    // The next agent, too, knows what may come back.
    node.workloads = HostWorkloads::new(Runtime::DryRun(DryRun::new()), node.told.subscribe());
    let runtime = processes(node.dir.path()).await;
    node.workloads = HostWorkloads::new(runtime, node.told.subscribe());
    runs(&node.carry_out(2, &[&bad]).await, "1");
    assert!(path.exists());
    let told = async |node: &Node| {
        let begun = node.workloads.newest.lock().await;
        let env = &begun.desired[&mailer].extra_env;
        ["TOKEN_FILE", "MESH_SECRETS"].map(|name| env.contains_key(name))
    };
    assert_eq!(told(&node).await, [true, true]);

    assert_eq!(runs(&node.carry_out(3, &[&good]).await, "3"), None);
    assert!(!path.exists());
    assert_eq!(told(&node).await, [false, false]);
    node.carry_out(4, &[]).await;
}

/// Nothing is masked, so that nothing is another word for what somebody's secret happens to be.
#[tokio::test]
async fn case_c_2f145c3_a_module_may_be_called_what_its_secret_says() {
    let node = node();
    let mut hello = sealed_to(&node.box_key, "hello");
    let word = secret(&node.box_key, 1, "hello");
    hello.secrets = [("WORD".parse().unwrap(), word)].into();
    hello.release = "hello".to_owned();
    let states = node.carry_out(1, &[&hello]).await;
    let of: Vec<_> = states
        .iter()
        .map(|(of, it)| (of.as_str(), it.state))
        .collect();
    assert_eq!(of, [("hello", ModuleState::Running)]);
    let [desired] = node.desired().try_into().unwrap();
    assert_eq!(desired.workload.release, "hello");
    assert_eq!(desired.extra_env["MESH_MODULE"], "hello");
    let path = node.handed("hello").join("secrets/WORD");
    assert_eq!(fs::read_to_string(path).unwrap(), "hello");
}

/// What stands in the way of every write, as a full disk does, and for root as for anybody.
fn obstruct(node: &Node, module: &str) -> PathBuf {
    let creds = node.creds(module);
    fs::rename(&creds, creds.with_extension("good")).unwrap();
    fs::create_dir_all(creds.join("in the way")).unwrap();
    creds
}

#[tokio::test]
async fn c_401998b_a_disk_that_takes_nothing_leaves_a_module_as_it_was_until_it_does() {
    let node = node();
    let (a, b) = (sealed_to(&node.box_key, "a"), sealed_to(&node.box_key, "b"));
    node.carry_out(1, &[&a]).await;
    let way = obstruct(&node, "a");
    let mut newer = sealed_to(&node.box_key, "a");
    newer.release = "2".to_owned();

    let refused = node
        .workloads
        .carry_out(declaration(2, &[&newer, &b]))
        .await;
    let why = refused.unwrap_err();
    assert!(
        why.starts_with("module a: the files it is handed cannot be written: "),
        "{why}"
    );
    // It is not stopped, nor told anything new; the other one is not concerned.
    let releases = |node: &Node| {
        let desired = node.desired().into_iter();
        let of = desired.map(|d| (d.module().to_string(), d.workload.release));
        of.collect::<BTreeMap<_, _>>()
    };
    let release = |module: &str, release: &str| (module.to_owned(), release.to_owned());
    assert_eq!(
        releases(&node),
        [release("a", "1"), release("b", "1")].into()
    );

    fs::remove_dir_all(&way).unwrap();
    node.carry_out(2, &[&newer, &b]).await;
    assert_eq!(
        releases(&node),
        [release("a", "2"), release("b", "1")].into()
    );
    assert_eq!(key_in(&node.creds("a")), newer.key.as_str());
}

#[tokio::test]
async fn c_401998b_an_agent_that_cannot_tell_what_runs_orders_nothing_while_the_disk_is_full() {
    let mut node = node();
    let a = sealed_to(&node.box_key, "a");
    node.carry_out(1, &[&a]).await;
    let before = node.desired();
    let newer = sealed_to(&node.box_key, "a");
    let way = obstruct(&node, "a");
    // As after a restart: what was ordered before is forgotten.
    *node.workloads.newest.get_mut() = Begun::default();
    let refused = node.workloads.carry_out(declaration(2, &[&newer])).await;
    assert!(refused.is_err() && node.desired() == before);
    fs::remove_dir_all(&way).unwrap();
    node.carry_out(2, &[&newer]).await;
    assert_eq!(node.desired()[0].workload.key, newer.key);
}
