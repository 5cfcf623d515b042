//! What an operator is told when a server is not as derived, on values.

use mesh_derive::render::nats_conf::edge_users;
use mesh_derive::{Bounds, derive};
use mesh_model::{BoxPublicKey, Labels, NodeRecord, PublicKey, Records, SeatName, Timestamp};
use serde_json::{Value, json};

use super::users::users;
use super::*;
use crate::api::StreamState;
use crate::definition::Fields;

fn facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

fn plan() -> Plan {
    let mut records = Records::new("home".parse().unwrap(), facts());
    for (n, node) in [(1, "a"), (2, "b")] {
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: PublicKey::from_raw([n; 32]),
            box_key: BoxPublicKey::from_raw([n; 32]),
            labels: Labels::new(),
            token: "t".parse().unwrap(),
            enrolled: Timestamp::from_millis(1),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node.parse().unwrap(), record);
    }
    let seat: SeatName = "mail".parse().unwrap();
    records.declared.seats.insert(seat, None.into());
    derive(&records, &Bounds::default())
}

fn as_derived(plan: &Plan) -> OnServer {
    let streams = plan.streams.values().map(|spec| FoundStream {
        config: stream_fields(spec, 1),
        created: String::new(),
        state: StreamState::default(),
        ts: String::new(),
    });
    let mut consumers: BTreeMap<StreamName, Vec<FoundConsumer>> = BTreeMap::new();
    for spec in plan.consumers.values() {
        let of = consumers.entry(spec.consumer.stream().clone()).or_default();
        of.push(FoundConsumer {
            name: spec.consumer.name().to_owned(),
            config: consumer_fields(spec),
            ..FoundConsumer::default()
        });
    }
    OnServer {
        streams: streams.collect(),
        consumers,
    }
}

fn edit(found: &mut OnServer, stream: &str, consumer: &str, field: &str, value: Value) {
    let stream = StreamName::new(stream).unwrap();
    let of = found.consumers.get_mut(&stream).unwrap();
    let one = of.iter_mut().find(|it| it.name == consumer).unwrap();
    one.config.insert(field.to_owned(), value);
}

fn said(edit: impl FnOnce(&mut OnServer)) -> Vec<String> {
    let plan = plan();
    let mut found = as_derived(&plan);
    edit(&mut found);
    let held = definitions(&plan, &facts(), 1, &found);
    held.iter().map(ToString::to_string).collect()
}

#[test]
fn a_server_as_derived_gives_nothing_to_say() {
    assert_eq!(said(|_| ()), Vec::<String>::new());
}

#[test]
fn each_edited_field_of_a_consumer_is_named() {
    for (field, value) in [
        ("filter_subjects", json!(["mesh.node.b.declare"])),
        ("deliver_subject", json!("mesh.deliver.node.b")),
        ("deliver_group", json!("g")),
        ("ack_policy", json!("none")),
        ("max_deliver", json!(3)),
        ("ack_wait", json!(1_000_000_000)),
        ("idle_heartbeat", json!(0)),
    ] {
        let said = said(|found| edit(found, "NODES", "a", field, value));
        let expected = format!("consumer NODES/a: {field} is ");
        assert!(
            said.iter().any(|text| text.starts_with(&expected)),
            "{field}: {said:?}"
        );
    }
}

#[test]
fn what_follows_of_an_edited_consumer_is_said() {
    let said = said(|found| {
        edit(
            found,
            "NODES",
            "a",
            "filter_subjects",
            json!(["mesh.node.b.declare"]),
        );
    });
    let follows = "selects mesh.node.b.declare, which node/a is not to read";
    assert!(said.iter().any(|text| text.contains(follows)), "{said:?}");
}

#[test]
fn a_consumer_nobody_derived_is_named_and_what_follows_of_it() {
    let said = said(|found| {
        let stream = StreamName::new("CONTROL").unwrap();
        let of = found.consumers.get_mut(&stream).unwrap();
        let config = json!({ "name": "spy", "durable_name": "spy", "ack_policy": "explicit",
            "ack_wait": 30_000_000_000_u64, "max_ack_pending": 10, "deliver_policy": "all",
            "filter_subject": "mesh.control.report.>" });
        let Value::Object(config) = config else {
            panic!()
        };
        of.push(FoundConsumer {
            name: "spy".to_owned(),
            config,
            ..FoundConsumer::default()
        });
    });
    assert!(
        said.iter()
            .any(|text| text.starts_with("consumer CONTROL/spy is nobody's"))
    );
    let follows = "a message there would have two readers";
    assert!(said.iter().any(|text| text.contains(follows)), "{said:?}");
}

#[test]
fn each_edited_field_of_a_stream_is_named_and_so_is_one_that_is_gone() {
    for (field, value) in [
        ("subjects", json!(["mesh.control.report.>"])),
        ("retention", json!("limits")),
        ("max_consumers", json!(-1)),
        ("discard", json!("old")),
    ] {
        let said = said(|found| {
            let is = |stream: &&mut FoundStream| stream.name() == Some("CONTROL");
            let stream = found.streams.iter_mut().find(is).unwrap();
            let config: &mut Fields = &mut stream.config;
            config.insert(field.to_owned(), value);
        });
        let expected = format!("stream CONTROL: {field} is ");
        assert!(
            said.iter().any(|text| text.starts_with(&expected)),
            "{field}: {said:?}"
        );
    }
    let said = said(|found| {
        found
            .streams
            .retain(|stream| stream.name() != Some("SEAT-mail"));
        found
            .consumers
            .remove(&StreamName::new("SEAT-mail").unwrap());
    });
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said.iter()
            .all(|text| text.contains("is not on the server"))
    );
}

#[test]
fn a_users_file_as_derived_and_as_read_gives_nothing_to_say() {
    let plan = plan();
    let text = edge_users(&plan);
    assert_eq!(users(&plan, Some(&text), Some(&text)), []);
    assert_eq!(users(&plan, Some(&text), None), []);
    assert_eq!(users(&plan, None, None), [Held::NoUsers]);
}

#[test]
fn each_entry_of_a_users_file_that_was_not_derived_is_named() {
    let plan = plan();
    let text = edge_users(&plan);
    let wider = text.replacen("\"mesh.deliver.node.a\"", "\"mesh.deliver.>\"", 1);
    assert_eq!(
        users(&plan, Some(&wider), Some(&text)),
        [
            Held::NotLoaded,
            Held::Widened(
                "node/a".to_owned(),
                ("subscribe", "mesh.deliver.>".to_owned())
            ),
            Held::Narrowed(
                "node/a".to_owned(),
                ("subscribe", "mesh.deliver.node.a".to_owned())
            ),
        ]
    );
    let key = PublicKey::from_raw([9; 32]);
    let user = format!(
        "users: [\n  {{ nkey: {key}, permissions: {{ publish: {{ allow: [\">\"] }} }} }}\n"
    );
    let more = text.replacen("users: [\n", &user, 1);
    assert_eq!(
        users(&plan, Some(&more), Some(&more)),
        [Held::ForeignUser(key.to_string())]
    );
}

/// What is told of a file of users in which something was put in the place of something else.
fn told(from: &str, to: &str) -> Vec<Held> {
    let plan = plan();
    let text = edge_users(&plan);
    let edited = text.replacen(from, to, 1);
    assert_ne!(text, edited, "{from}");
    users(&plan, Some(&edited), Some(&edited))
}

#[test]
fn an_entry_without_a_key_is_named_and_its_password_is_not() {
    for (entry, name) in [
        ("{ user: eve, password: geheim }", "eve"),
        ("{ user = eve; password = geheim }", "eve"),
        (
            "{\n \"username\": \"eve\"\n \"password\": \"geheim\"\n}",
            "eve",
        ),
        ("{ token: geheim }", "without a name"),
        ("geheim", "without a name"),
    ] {
        let told = told("users: [\n", &format!("users: [\n{entry}\n"));
        assert_eq!(told, [Held::Keyless(name.to_owned())], "{entry}");
        let said = told[0].to_string();
        assert!(
            said.contains("restart the controller") && !said.contains("geheim"),
            "{said}"
        );
    }
    // Beside another on one line, too.
    let told = told("users: [\n", "users: [ { user: eve, password: geheim }, \n");
    assert_eq!(told, [Held::Keyless("eve".to_owned())]);
}

#[test]
fn a_user_of_whom_nothing_is_said_may_do_everything() {
    let plan = plan();
    let key = plan.users.keys().next().unwrap();
    let bare = format!("users: [ {{ nkey: {key} }} ]");
    let told = users(&plan, Some(&bare), None);
    for side in ["publish", "subscribe"] {
        let widened = Held::Widened("node/a".to_owned(), (side, ">".to_owned()));
        assert!(told.contains(&widened), "{side}: {told:?}");
    }
    assert!(
        told.contains(&Held::NoUser("node/b".to_owned())),
        "{told:?}"
    );
}

#[test]
fn a_file_that_says_the_same_otherwise_or_nothing_known_is_told_of() {
    for (from, to) in [
        ("users: [", "users = ["),
        ("# Written", "# Not written"),
        ("users: [\n", "users: [ { \n"),
    ] {
        assert_eq!(told(from, to), [Held::Otherwise], "{to}");
    }
    assert_eq!(
        told("users: [", "include \"more.conf\"\nusers: ["),
        [Held::Beside("include".to_owned())]
    );
}

#[test]
fn a_stream_nobody_derived_is_named_with_what_it_has_of_the_mesh() {
    for (config, expected) in [
        (json!({ "subjects": ["own.>"] }), "was not derived;"),
        (json!({ "mirror": { "name": "EVENTS" } }), "keeps a copy"),
        (json!({ "sources": [{ "name": "EVENTS" }] }), "keeps a copy"),
        (json!({ "subjects": ["mesh.seat.x.>"] }), "below `mesh.`"),
    ] {
        let said = said(|found| {
            let mut config = config.as_object().unwrap().clone();
            config.insert("name".to_owned(), "SPY".into());
            found.streams.push(FoundStream {
                config,
                created: String::new(),
                state: StreamState::default(),
                ts: String::new(),
            });
        });
        let [said] = &said[..] else {
            panic!("{said:?}");
        };
        assert!(said.starts_with("stream SPY was not derived"), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
