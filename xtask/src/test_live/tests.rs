//! Which targets are live, what each needs, and what becomes of those that do not have it.

use serde_json::json;

use super::*;

fn targets(only: Option<Bus>, faults: bool) -> Vec<(String, Vec<String>)> {
    let target = |name: &str| json!({"name": name, "kind": ["test"], "src_path": name});
    let package = |name: &str, targets: &[&str]| {
        json!({
            "id": name, "name": name, "manifest_path": "Cargo.toml", "dependencies": [],
            "targets": targets.iter().map(|name| target(name)).collect::<Vec<_>>(),
        })
    };
    let metadata = json!({
        "packages": [
            package("live-tests", &["loopback_flow", "enrolment", "amqp_flow", "bus_amqp", "bus_both", "leaving", "faults_of_the_store", "containers_pull"]),
            package("mesh-nats", &["live_bus", "reads_the_variable", "offline"]),
            package("mesh-runtime", &["containers"]),
            package("mesh-amqp", &["live_broker"]),
            package("mesh-wire", &["bytes"]),
        ],
        "workspace_members": ["live-tests", "mesh-nats", "mesh-runtime", "mesh-amqp", "mesh-wire"],
        "resolve": {"nodes": []},
    });
    let metadata: Metadata = serde_json::from_value(metadata).unwrap();
    let read = |path: &Path| {
        let reads = match path.to_str() {
            Some("reads_the_variable") => "MESH_TEST_NATS",
            Some("containers") => "MESH_TEST_DOCKER",
            Some("live_broker") => "MESH_TEST_AMQP",
            Some("leaving") => "Site::on_both",
            _ => "",
        };
        reads.to_owned()
    };
    let options = Options { only, faults };
    live(&metadata, &|need| options.wants(need), &read)
}

#[test]
fn without_a_broker_the_targets_that_need_one_fail_and_say_what_to_do() {
    let metadata = json!({
        "packages": [{
            "id": "live-tests", "name": "live-tests", "manifest_path": "Cargo.toml", "dependencies": [],
            "targets": [
                {"name": "amqp_flow", "kind": ["test"], "src_path": "amqp_flow"},
                {"name": "enrolment", "kind": ["test"], "src_path": "enrolment"},
            ],
        }],
        "workspace_members": ["live-tests"],
        "resolve": {"nodes": []},
    });
    let metadata: Metadata = serde_json::from_value(metadata).unwrap();
    let targets = live(&metadata, &needs_broker, &|_| String::new());
    let mut tally = Tally::default();
    let none = Err(anyhow::anyhow!("run `cargo xtask setup`"));
    let error = over_amqp(&targets, none, &Variables::new(), &mut tally).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "these have no broker: amqp_flow: run `cargo xtask setup`"
    );
    assert_eq!((tally.passed, tally.failed), (0, 1));
}

fn of(package: &str, targets: &[&str]) -> (String, Vec<String>) {
    let targets = targets.iter().map(|&name| name.to_owned());
    (package.to_owned(), targets.collect())
}

#[test]
fn a_live_target_is_known_by_its_place_its_name_or_the_variable() {
    let of_nats = of("mesh-nats", &["live_bus", "reads_the_variable"]);
    assert_eq!(
        targets(None, false),
        [
            of(
                "live-tests",
                &[
                    "loopback_flow",
                    "enrolment",
                    "amqp_flow",
                    "bus_amqp",
                    "bus_both",
                    "leaving",
                    "containers_pull"
                ]
            ),
            of_nats.clone(),
            of("mesh-runtime", &["containers"]),
            of("mesh-amqp", &["live_broker"]),
        ],
    );
    assert_eq!(
        targets(Some(Bus::Containers), false),
        [
            of("live-tests", &["containers_pull"]),
            of("mesh-runtime", &["containers"]),
        ],
    );
    assert_eq!(
        targets(Some(Bus::Nats), false),
        [of("live-tests", &["enrolment"]), of_nats],
    );
    assert_eq!(
        targets(Some(Bus::Amqp), true),
        [
            of("live-tests", &["amqp_flow", "bus_amqp"]),
            of("mesh-amqp", &["live_broker"]),
        ],
    );
}

#[test]
fn without_container_engines_the_targets_that_need_them_fail_and_say_what_to_do() {
    let targets = [of("live-tests", &["containers_pull", "containers_rig"])];
    let mut tally = Tally::default();
    let none = Err(anyhow::anyhow!("run `cargo xtask setup`"));
    let error = of_engines(&targets, none, &Variables::new(), &mut tally).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "these have no container engine: containers_pull, containers_rig: run `cargo xtask setup`"
    );
    assert_eq!((tally.passed, tally.failed), (0, 2));
}

#[test]
fn the_source_of_a_target_in_a_folder_is_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("main.rs", "mod server;"), ("server.rs", "MESH_TEST_NATS")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    assert!(read(&folder.path().join("main.rs")).contains("MESH_TEST_NATS"));
    assert_eq!(read(&folder.path().join("nothing.rs")), "");
}

#[test]
fn faults_run_only_when_asked_for_and_never_without_a_server() {
    let (_, all) = targets(None, true).swap_remove(0);
    let every = [
        "loopback_flow",
        "enrolment",
        "amqp_flow",
        "bus_amqp",
        "bus_both",
        "leaving",
        "faults_of_the_store",
        "containers_pull",
    ];
    assert_eq!(all, every);
    assert_eq!(
        targets(Some(Bus::Loopback), true),
        [of("live-tests", &["loopback_flow"])],
    );
}
