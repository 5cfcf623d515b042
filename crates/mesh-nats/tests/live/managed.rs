//! The server of the mesh's own: started, adopted, started again, stopped.

use std::path::PathBuf;

use mesh_bus::BusError;
use mesh_model::Principal;
use mesh_nats::{
    Connection, Endpoint, FindServerError, ManagedServer, ServerState, StartServerError, Stopped,
    TlsFiles,
};
use nkeys::KeyPair;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{DIALLING, seed, server_dir, soon, spec, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_outlives_its_controller_and_is_adopted_by_the_next() {
    let Some(programs) = server_dir() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (controller, system) = (KeyPair::new_user(), KeyPair::new_user());
    let spec = || spec(programs.clone(), dir.path(), &controller, &system);

    let first = soon(ManagedServer::start(spec())).await.unwrap();
    let ready = first.ready().clone();
    assert!(!ready.adopted);
    // As when its controller is killed: nobody tells the server.
    drop(first);

    let second = soon(ManagedServer::start(spec())).await.unwrap();
    assert!(second.ready().adopted);
    assert_eq!(second.ready().pid, ready.pid);
    assert_eq!(second.ready().server_id, ready.server_id);
    assert_eq!(second.ready().port, ready.port);
    assert_eq!(soon(second.stop(0)).await, Stopped::Gracefully);

    let third = soon(ManagedServer::start(spec())).await.unwrap();
    assert!(!third.ready().adopted);
    assert_eq!(third.ready().port, ready.port);
    assert_eq!(soon(third.stop(0)).await, Stopped::Gracefully);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_started_otherwise_is_replaced() {
    let Some(programs) = server_dir() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (controller, system) = (KeyPair::new_user(), KeyPair::new_user());
    let mut spec = spec(programs, dir.path(), &controller, &system);
    let first = soon(ManagedServer::start(spec.clone())).await.unwrap();
    let ready = first.ready().clone();
    drop(first);
    spec.max_payload *= 2;
    let second = soon(ManagedServer::start(spec)).await.unwrap();
    assert!(!second.ready().adopted);
    assert_ne!(second.ready().pid, ready.pid);
    soon(second.stop(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_started_again() {
    let Some(programs) = server_dir() else { return };
    let dir = tempfile::tempdir().unwrap();
    let spec = spec(
        programs,
        dir.path(),
        &KeyPair::new_user(),
        &KeyPair::new_user(),
    );
    let server = soon(ManagedServer::start(spec)).await.unwrap();
    let pid = server.ready().pid;
    let mut state = server.state();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let again =
        |state: &ServerState| matches!(state, ServerState::Ready(ready) if ready.pid != pid);
    drop(within(30, state.wait_for(again)).await.unwrap());
    soon(server.stop(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_keeps_a_log_and_what_it_printed_when_it_crashed() {
    let Some(programs) = server_dir() else { return };
    let dir = tempfile::tempdir().unwrap();
    let keys = (KeyPair::new_user(), KeyPair::new_user());
    let spec = spec(programs, dir.path(), &keys.0, &keys.1);
    let file = |name: &str| std::fs::read_to_string(spec.dir.join(name)).unwrap();
    let server = soon(ManagedServer::start(spec.clone())).await.unwrap();
    assert!(file("nats-server.log").contains("Server is ready"));
    assert_eq!(file("nats-server.out"), "");

    let pid = server.ready().pid;
    let mut state = server.state();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::ABORT).unwrap();
    let again =
        |state: &ServerState| matches!(state, ServerState::Ready(ready) if ready.pid != pid);
    drop(within(30, state.wait_for(again)).await.unwrap());
    assert!(file("nats-server.out.1").contains("SIGABRT"));
    assert_eq!(file("nats-server.out"), "");
    soon(server.stop(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_the_server_refuses_is_told_in_its_words() {
    let Some(programs) = server_dir() else { return };
    let dir = tempfile::tempdir().unwrap();
    let keys = (KeyPair::new_user(), KeyPair::new_user());
    let mut spec = spec(programs, dir.path(), &keys.0, &keys.1);
    spec.accounts.push_str("no_such_option: 1\n");
    let error = soon(ManagedServer::start(spec)).await.unwrap_err();
    assert!(
        matches!(&error, StartServerError::Config { said, .. } if said.contains("no_such_option")),
        "{error}"
    );
}

#[tokio::test]
async fn an_old_server_is_refused_with_its_version() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("nats-server");
    std::fs::write(&program, "#!/bin/sh\necho 'nats-server: v2.9.10'\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let keys = (KeyPair::new_user(), KeyPair::new_user());
    let spec = |programs: PathBuf| spec(programs, dir.path(), &keys.0, &keys.1);
    let old = ManagedServer::start(spec(dir.path().to_owned())).await;
    assert!(
        matches!(
            &old,
            Err(StartServerError::Find(FindServerError::TooOld { found, .. })) if found == "2.9.10"
        ),
        "{old:?}"
    );
    let none = ManagedServer::start(spec(dir.path().join("empty"))).await;
    assert!(matches!(
        none,
        Err(StartServerError::Find(FindServerError::None { .. }))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_trusted_by_its_certificate_only() {
    let Some(programs) = server_dir() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (controller, system) = (KeyPair::new_user(), KeyPair::new_user());
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let files = TlsFiles {
        cert: dir.path().join("cert.pem"),
        key: dir.path().join("key.pem"),
    };
    std::fs::write(&files.cert, own.cert.pem()).unwrap();
    std::fs::write(&files.key, own.signing_key.serialize_pem()).unwrap();
    let mut spec = spec(programs, dir.path(), &controller, &system);
    spec.tls = Some(files);
    let server = soon(ManagedServer::start(spec)).await.unwrap();
    let connect = async |certificate: &rcgen::Certificate| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let tls = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let endpoint = Endpoint {
            urls: vec![format!("tls://127.0.0.1:{}", server.ready().port)],
            tls: Some(tls),
            name: "test".to_owned(),
        };
        let principal = Principal::Controller;
        let credential = seed(&controller);
        let open = Connection::open(&endpoint, &credential, &principal, DIALLING);
        soon(open).await
    };
    assert!(connect(&own.cert).await.is_ok());
    let refused = connect(&other.cert).await;
    assert!(matches!(refused, Err(BusError::Away(_))), "{refused:?}");
    soon(server.stop(0)).await;
}
