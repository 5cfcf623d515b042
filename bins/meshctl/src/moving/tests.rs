//! How far a node is, and what a command comes to.

use clap::{CommandFactory, FromArgMatches};
use mesh_model::BusKind::{Amqp, Nats};
use serde_json::Value;

use super::*;

fn name(node: &str) -> NodeName {
    node.parse().unwrap()
}

/// A mesh of these nodes: name, bus, how it moves, what it was told last, what it reported on.
fn mesh(nodes: &[(&str, BusKind, Value, u64, u64)]) -> Status {
    let nodes = nodes.iter().map(|(node, bus, moving, declared, reported)| {
        let generation = |number: &u64| json!({ "incarnation": 1, "counter": number });
        json!({
            "node": node, "state": "ready", "labels": {}, "bus": bus, "moving": moving,
            "declared": generation(declared), "applied": null,
            "reported": [generation(reported), 1], "heard_ago": 1, "deaf": false, "version": null,
            "reason": null, "modules": {},
        })
    });
    let nodes: Vec<Value> = nodes.collect();
    let status = json!({
        "mesh": "home", "revision": 1, "at": 70_000, "buses": ["nats", "amqp"], "nodes": nodes,
        "modules": [], "seats": [], "window": { "held": 0, "peak": 0, "lets_go_in": null },
        "store_up": true, "settled": true, "waiting_for": [], "tally": mesh_control::Tally::default(),
    });
    serde_json::from_value(status).unwrap()
}

fn proving() -> Value {
    json!({ "step": "proving", "to": "amqp", "since": 10_000 })
}

fn leaving() -> Value {
    json!({ "step": "leaving", "from": "nats" })
}

#[test]
fn what_is_asked_of_the_controller_follows_from_where_a_node_is() {
    for (bus, moving, to, expected) in [
        (Nats, Value::Null, Amqp, Begin::Offer),
        (Nats, Value::Null, Nats, Begin::There),
        (Nats, proving(), Amqp, Begin::OnItsWay),
        (Nats, proving(), Nats, Begin::Stay),
        (Amqp, leaving(), Amqp, Begin::OnItsWay),
        (Amqp, leaving(), Nats, Begin::Offer),
    ] {
        let status = mesh(&[("a", bus, moving.clone(), 1, 1)]);
        assert_eq!(
            begin(&status, &name("a"), to),
            expected,
            "{bus} {moving} {to}"
        );
    }
    assert_eq!(begin(&mesh(&[]), &name("a"), Amqp), Begin::Unknown);
}

#[test]
fn a_node_has_arrived_once_it_reported_there_on_the_newest_it_was_told() {
    let way = |bus, moving, declared, reported| {
        let status = mesh(&[("a", bus, moving, declared, reported)]);
        way(&status, &name("a"), Amqp)
    };
    assert_eq!(way(Amqp, Value::Null, 3, 3), Way::Arrived);
    let going = |way| match way {
        Way::Going(how) => how,
        other => panic!("{other:?}"),
    };
    assert!(going(way(Nats, proving(), 2, 2)).contains("not heard there yet"));
    assert!(going(way(Amqp, leaving(), 2, 2)).contains("leaving nats"));
    assert!(going(way(Amqp, Value::Null, 3, 2)).contains("has not reported on"));
    let Way::Stays(why) = way(Nats, Value::Null, 2, 2) else {
        panic!("it is not there, and nobody offers it to be");
    };
    assert!(
        why.contains("withdrawn") && why.contains("stays on nats"),
        "{why}"
    );
    let Way::Stays(why) = super::way(&mesh(&[]), &name("a"), Amqp) else {
        panic!("it is gone");
    };
    assert_eq!(why, "a is a node no more");
}

#[test]
fn those_on_their_way_are_waited_for_first_and_those_there_not_at_all() {
    let status = mesh(&[
        ("a", Nats, Value::Null, 1, 1),
        ("b", Amqp, Value::Null, 1, 1),
        ("c", Nats, proving(), 1, 1),
        ("d", Amqp, leaving(), 1, 1),
    ]);
    assert_eq!(to_go(&status, Amqp), ["c", "d", "a"].map(name));
}

fn typed(line: &str) -> Result<Cli, String> {
    let words = std::iter::once("meshctl").chain(line.split(' '));
    let matches = Cli::command().try_get_matches_from(words);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.map_err(|error| error.to_string())
}

#[test]
fn how_it_ends_is_told_apart_by_the_kind_of_error() {
    let cli = typed("node move --all --to amqp").unwrap();
    let (arrived, going) = (Way::Arrived, Way::Going("slow".to_owned()));
    let stays = |why: &str| Way::Stays(why.to_owned());
    let close = |ways: &[&Way]| {
        let ways = ways.iter().enumerate();
        let ways = ways.map(|(nth, way)| (name(&format!("n{nth}")), (*way).clone()));
        close(&cli, Amqp, &ways.collect())
    };
    assert!(close(&[&arrived, &arrived]).is_ok());
    let error = close(&[&arrived, &going, &stays("no")]).unwrap_err();
    assert!(error.is::<TimedOut>(), "{error}");
    // Why the wave failed, not that others were not asked.
    let unasked = stays("node n0 was not asked to go");
    let error = close(&[&unasked, &stays("not heard"), &arrived]).unwrap_err();
    assert!(!error.is::<TimedOut>());
    assert_eq!(error.to_string(), "not heard");
}

#[test]
fn one_node_or_all_of_them_is_said_and_a_wave_is_of_all() {
    for line in [
        "node move a --to amqp",
        "node move --all --to nats",
        "node move --all --to nats --wave 1",
        "token create --bus amqp",
        "node rejoin a --bus nats",
    ] {
        typed(line).unwrap();
    }
    for (line, said) in [
        ("node move --to amqp", "required"),
        ("node move a --all --to amqp", "cannot be used with"),
        ("node move a --to amqp --wave 3", "cannot be used with"),
        ("node move --all --to amqp --wave 0", "invalid value"),
        ("node move a", "--to"),
        ("node move a --to rabbitmq", "write \"nats\" or \"amqp\""),
    ] {
        let Err(error) = typed(line) else {
            panic!("{line}")
        };
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn an_account_names_who_is_where() {
    let ways = BTreeMap::from([
        (name("a"), Way::Arrived),
        (name("b"), Way::Stays("no".to_owned())),
        (name("c"), Way::Arrived),
    ]);
    assert_eq!(account(Amqp, &ways), "on amqp: a, c\nstay: b\n");
}
