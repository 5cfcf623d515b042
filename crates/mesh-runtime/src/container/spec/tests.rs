//! What an engine is told.

use mesh_model::Run;
use serde_json::{Value, json};

use super::*;
use crate::container::label::tests::whole;

fn desired() -> Desired {
    let extra = [("MESH_CREDS", "/run/mesh/creds"), ("MESH_NODE", "web-1")];
    Desired {
        workload: whole(),
        extra_env: [(
            "MESH_CREDS".to_owned(),
            "/state/handed/shop/creds".to_owned(),
        )]
        .into(),
        extra_env_in_container: extra
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        handed: "/state/handed/shop".into(),
        pull_secret: Some(crate::PullSecret::new(b"user:hunter2".to_vec())),
    }
}

fn rendered(desired: &Desired) -> Value {
    let body = body("me", desired, 10, &Abilities::default()).unwrap();
    serde_json::to_value(body).unwrap()
}

fn change(desired: &mut Desired, change: impl FnOnce(&mut Container)) {
    let Run::Image(container) = &mut desired.workload.run else {
        panic!("a container");
    };
    change(container);
}

#[test]
fn a_container_is_told_what_was_declared() {
    let body = rendered(&desired());
    assert_eq!(body["Image"], "registry.example:5000/team/shop:1.4");
    assert_eq!(body["Cmd"], json!(["serve", "two words"]));
    assert_eq!(body["Entrypoint"], Value::Null);
    assert_eq!(body["StopTimeout"], 10);
    assert_eq!(body["ExposedPorts"], json!({"80/tcp": {}, "53/udp": {}}));
    let host = &body["HostConfig"];
    assert_eq!(
        host["PortBindings"],
        json!({
            "80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}],
            "53/udp": [{"HostPort": "5353"}],
        })
    );
    assert_eq!(host["NetworkMode"], "bridge");
    assert_eq!(
        host["ExtraHosts"],
        json!(["host.docker.internal:host-gateway"])
    );
    assert_eq!(
        (&host["Memory"], &host["MemorySwap"]),
        (&json!(268_435_456), &json!(268_435_456))
    );
    assert_eq!(host["NanoCpus"], 1_500_000_000);
    assert_eq!(host["Init"], true);
    let labels = json!({"mesh.owner": "me", "mesh.module": "shop"});
    assert_eq!(
        host["Mounts"],
        json!([
            {"Type": "bind", "Source": "/state/handed/shop", "Target": "/run/mesh", "ReadOnly": true},
            {"Type": "bind", "Source": "/srv/files", "Target": "/files", "ReadOnly": true},
            {"Type": "volume", "Source": "data", "Target": "/var/lib/shop", "ReadOnly": false,
             "VolumeOptions": {"Labels": labels}},
        ])
    );
}

/// Containers come back by themselves after a reboot, under other names and as what is declared no more.
/// <https://github.com/moby/moby/issues/9815>
#[test]
fn case_c_0a7f90a_an_engine_starts_no_container_again_by_itself() {
    for restart in [
        mesh_model::Restart::Always,
        mesh_model::Restart::OnFailure,
        mesh_model::Restart::Never,
    ] {
        let mut desired = desired();
        desired.workload.restart = restart;
        let policy = &rendered(&desired)["HostConfig"]["RestartPolicy"];
        assert_eq!(policy["Name"], "no");
    }
}

/// A log without rotation grew to 116 GB.
/// <https://github.com/hashicorp/nomad/issues/5782>
#[test]
fn case_c_f6cbc7b_a_log_always_has_a_limit() {
    let log = &rendered(&desired())["HostConfig"]["LogConfig"];
    let config = json!({"max-size": "10m", "max-file": "3"});
    assert_eq!(*log, json!({"Type": "json-file", "Config": config}));
}

#[test]
fn an_environment_is_what_was_declared_and_what_the_mesh_says_byte_for_byte() {
    let mut desired = desired();
    desired.workload.env = [
        ("DOLLAR", "abc$def ${HOME} $$"),
        ("LINES", "-----BEGIN\nline2\n\n-----END\n"),
        ("SPACES", " foo bar "),
        ("EMPTY", ""),
        ("EQUALS", "a=b=c"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert_eq!(
        rendered(&desired)["Env"],
        json!([
            "DOLLAR=abc$def ${HOME} $$",
            "EMPTY=",
            "EQUALS=a=b=c",
            "LINES=-----BEGIN\nline2\n\n-----END\n",
            "MESH_CREDS=/run/mesh/creds",
            "MESH_NODE=web-1",
            "SPACES= foo bar ",
        ])
    );
}

#[test]
fn no_secret_stands_in_what_an_engine_is_told() {
    let mut desired = desired();
    desired.workload.credential = mesh_model::Sealed(b"sealed".to_vec());
    let text = rendered(&desired).to_string();
    for secret in ["hunter2", "sealed", "115,101,97,108"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_container_in_the_hosts_network_maps_nothing() {
    let mut desired = desired();
    change(&mut desired, |container| {
        container.network = Network::Host;
        container.ports.clear();
        container.args.clear();
        container.resources = mesh_model::Resources::default();
    });
    let body = rendered(&desired);
    let host = &body["HostConfig"];
    assert_eq!(host["NetworkMode"], "host");
    for absent in [
        &body["Cmd"],
        &body["ExposedPorts"],
        &host["ExtraHosts"],
        &host["PortBindings"],
        &host["Memory"],
        &host["NanoCpus"],
    ] {
        assert_eq!(*absent, Value::Null);
    }
}

#[test]
fn an_image_is_asked_for_by_its_digest_where_it_has_one() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    for (written, asked, at) in [
        ("shop", "shop:latest", None),
        ("team/shop:1", "team/shop:1", None),
        ("localhost/shop:1", "localhost/shop:1", Some("localhost")),
        (
            "registry.example:5000/shop:1",
            "registry.example:5000/shop:1",
            Some("registry.example:5000"),
        ),
        (
            &format!("r.example/shop:1@{digest}"),
            &format!("r.example/shop@{digest}"),
            Some("r.example"),
        ),
    ] {
        let image: Image = written.parse().unwrap();
        assert_eq!(reference(&image), asked);
        assert_eq!(registry(&image), at, "{written}");
    }
}

#[test]
fn an_engine_is_asked_for_no_more_than_it_has() {
    let all = Abilities::default();
    let refused = "fork/exec /usr/bin/docker-init: no such file or directory";
    let some = all.without(refused).unwrap();
    assert_eq!((some.init, some.host.is_some()), (false, true));
    assert_eq!(some.without(refused), None);
    let refused = "unable to derive the IP value for host-gateway";
    assert_eq!(some.without(refused).unwrap().host, None);
    let known = Abilities {
        host: Some("10.88.0.1".to_owned()),
        ..some
    };
    assert_eq!(known.without(refused), None);
    assert_eq!(all.without("No such image"), None);
    let body = body("me", &desired(), 10, &known).unwrap();
    let host = body.host_config.unwrap();
    assert_eq!(host.init, None);
    let hosts = vec!["host.docker.internal:10.88.0.1".to_owned()];
    assert_eq!(host.extra_hosts, Some(hosts));
}
