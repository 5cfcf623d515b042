//! What is shown of one node, and of one module.

use serde_json::{Value, json};

use super::*;

fn status() -> Status {
    let generation = |counter: u64| json!({ "incarnation": 1, "counter": counter });
    let report = |state: &str, extra: Value| {
        let mut report = json!({
            "release": "2", "state": state, "pid": null, "restarts": 0, "reason": null,
            "image": null, "last_exit": null, "repairs": 0,
        });
        if let (Some(report), Some(extra)) = (report.as_object_mut(), extra.as_object()) {
            report.extend(extra.clone());
        }
        report
    };
    let node = |name: &str, extra: Value| {
        let mut node = json!({
            "node": name, "state": "ready", "labels": {}, "bus": "nats", "moving": null,
            "declared": generation(5), "applied": generation(4), "reported": [generation(5), 7],
            "heard_ago": 2_000, "deaf": false, "version": "1.2", "reason": null, "modules": {},
        });
        if let (Some(node), Some(extra)) = (node.as_object_mut(), extra.as_object()) {
            node.extend(extra.clone());
        }
        node
    };
    let web = node(
        "web-1",
        json!({
            "state": "converging", "reason": "working on 1.5: shop pulling",
            "labels": { "role": "web", "rack": "1" }, "scheduling": "cordoned",
            "session": 400_000, "rival": 380_000,
            "modules": {
                "shop": report("pulling", json!({ "reason": "the registry is not reached" })),
                "clerk": report("running", json!({
                    "pid": 77, "restarts": 3, "repairs": 1,
                    "image": format!("sha256:{}", "0123456789abcdef".repeat(4)),
                    "last_exit": { "at": 880_000, "how": "status 1" },
                })),
            },
            "doing": { "shop": "pulling 3 of 7 layers, 42.1 of 180.0 MB" },
        }),
    );
    let status = json!({
        "mesh": "home", "revision": 1, "at": 1_000_000, "buses": [],
        "nodes": [web, node("web-2", json!({})), node("db-1", json!({ "modules": { "shop": report("running", json!({})) } }))],
        "modules": [{
            "module": "shop", "release": "2", "nodes": ["web-1", "web-2"], "count": 3, "running": 1,
            "unplaced": "on 2 of 3; cordoned: db-1",
        }],
        "seats": [{ "seat": "till", "holder": "shop", "by_hand": false }],
        "window": { "held": 0, "peak": 0, "lets_go_in": null },
        "store_up": true, "settled": true, "waiting_for": [], "tally": mesh_control::Tally::default(),
    });
    serde_json::from_value(status).unwrap()
}

#[test]
fn a_node_is_shown_whole_with_what_it_is_doing_now() {
    let status = status();
    let text = node_text(&status.nodes[0], status.at);
    let expected = "\
node web-1
  state       converging: working on 1.5: shop pulling
  scheduling  cordoned
  labels      rack=1, role=web
  bus         nats
  declared    1.5
  applied     1.4
  reported    1.5, report 7
  heard       2s ago
  agent       1.2, started 10m ago
  rival       another agent speaks with its credential, started 10m ago, and is not listened to

MODULE  RELEASE  STATE    PID  RESTARTS  REPAIRS  IMAGE                LAST EXIT
clerk   2        running  77   3         1        sha256:0123456789ab  status 1, 2m ago
shop    2        pulling  -    0         0        -                    -

reasons
  shop: the registry is not reached

doing
  shop: pulling 3 of 7 layers, 42.1 of 180.0 MB
";
    assert_eq!(text, expected);
}

#[test]
fn a_node_of_which_nothing_is_known_is_shown_too() {
    let status = status();
    let mut node = status.nodes[1].clone();
    (node.heard_ago, node.version, node.applied, node.reported) = (None, None, None, None);
    node.deaf = true;
    let text = node_text(&node, status.at);
    for line in [
        "  heard       never\n",
        "  agent       -\n",
        "  reported    -\n",
        "  deaf        it misses",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(
        !text.contains("MODULE") && !text.contains("doing"),
        "{text}"
    );
}

#[test]
fn a_module_is_shown_on_each_node_it_is_on_and_each_it_is_placed_on() {
    let status = status();
    let name: ModuleName = "shop".parse().unwrap();
    let whole = Whole::of(&status, &name).unwrap();
    let expected = "\
module shop
  release     2
  running     1/3
  count       3
  not placed  on 2 of 3; cordoned: db-1
  holds       till

NODE            RELEASE  STATE         PID  RESTARTS  REPAIRS  IMAGE  LAST EXIT
web-1           2        pulling       -    0         0        -      -
web-2           -        not reported  -    -         -        -      -
db-1 (no more)  2        running       -    0         0        -      -

reasons
  web-1: the registry is not reached

doing
  web-1: pulling 3 of 7 layers, 42.1 of 180.0 MB
";
    assert_eq!(module_text(&whole, status.at), expected);
    assert!(Whole::of(&status, &"nobody".parse().unwrap()).is_none());
    let json = serde_json::to_value(&whole).unwrap();
    assert_eq!(json["count"], 3);
    assert_eq!(json["holds"], json!(["till"]));
    assert_eq!(json["instances"][0]["report"]["state"], "pulling");
    assert_eq!(json["instances"][1]["report"], Value::Null);
    assert_eq!(json["instances"][2]["placed"], false);
}

#[test]
fn what_there_is_not_is_not_found_and_the_next_step_is_said() {
    let error = anyhow::Error::from(unknown("node", &"web-9"));
    assert_eq!(crate::exit::code(&error), 3);
    assert!(error.to_string().contains("`meshctl node ls`"), "{error}");
}
