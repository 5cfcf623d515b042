//! Cases about a RabbitMQ broker: what the definitions for one say of who may do what, and of queues.

use std::collections::BTreeSet;

use mesh_derive::Bounds;
use mesh_derive::render::rabbitmq::definitions;
use mesh_derive::topology::{
    BrokerFacts, BrokerVersion, Exchange, Queue, QueueKind, Rights, Topology, TopologyFault,
    topology, user_name,
};
use mesh_model::{Manifest, Principal};
use mesh_servers::rabbitmq::Pattern;
use serde_json::Value;

use crate::stage::{add_module, manifest, named, plan, plan_of, principal, records};

fn broker(version: &str, queues: QueueKind) -> BrokerFacts {
    BrokerFacts {
        vhost: "mesh".to_owned(),
        version: version.parse().unwrap(),
        queues,
        users: String::new(),
    }
}

fn laid_for(version: &str, queues: QueueKind) -> Topology {
    let laid = topology(&plan(), &Bounds::default(), &broker(version, queues));
    assert_eq!(laid.check(), vec![]);
    laid
}

fn laid() -> Topology {
    laid_for("4.0.5", QueueKind::Classic)
}

fn rendered(laid: &Topology) -> Value {
    definitions(laid, &[].into())
}

/// One list of the definitions.
fn list<'a>(all: &'a Value, name: &str) -> &'a Vec<Value> {
    all[name].as_array().unwrap()
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap()
}

/// As a broker reads a pattern: anywhere in the text, unless it is anchored.
fn allows(pattern: &str, name: &str) -> bool {
    Pattern::new(pattern).unwrap().allows(name)
}

/// An empty permission: any declaration is refused, and the client connects again and again.
/// <https://github.com/mosquito/aio-pika/issues/525>
#[test]
fn case_b_245f47b_a_right_to_nothing_is_written_as_a_pattern_that_matches_nothing() {
    let all = rendered(&laid());
    let names: Vec<&str> = ["exchanges", "queues"]
        .iter()
        .flat_map(|kind| list(&all, kind).iter().map(|it| text(it, "name")))
        .collect();
    for permission in list(&all, "permissions") {
        for right in ["configure", "write", "read"] {
            assert!(text(permission, right).starts_with('^'), "{permission}");
        }
        for name in &names {
            assert!(!allows(text(permission, "configure"), name), "{permission}");
        }
    }
    // Somebody who may do nothing.
    let nothing = Rights::default();
    for pattern in [
        nothing.write_pattern(),
        nothing.read_pattern(),
        Rights::CONFIGURE.to_owned(),
    ] {
        assert_eq!(pattern, r"^\z");
        for name in names.iter().chain(&["\n", "amq.gen-x"]) {
            assert!(!allows(&pattern, name), "{name:?}");
        }
    }
}

/// A reply queue the broker names: declaring it takes a right over every such queue.
/// <https://github.com/wso2/product-ei/issues/4251>
#[test]
fn case_b_d9fff20_answers_go_to_a_queue_that_is_named_and_read_by_one() {
    let laid = laid();
    let all = rendered(&laid);
    for permission in list(&all, "permissions") {
        for server_named in ["amq.gen-JzTY20BRgKO", "amq.rabbitmq.reply-to"] {
            for right in ["configure", "write", "read"] {
                assert!(
                    !allows(text(permission, right), server_named),
                    "{permission}"
                );
            }
        }
    }
    let answer = Queue::Answer(named("t1"));
    assert!(laid.queues.contains_key(&answer));
    let readers: Vec<_> = laid
        .users
        .iter()
        .filter(|(_, rights)| allows(&rights.read_pattern(), &answer.name()))
        .map(|(principal, _)| principal)
        .collect();
    assert_eq!(readers, [&principal("joiner/t1")]);
}

/// Who only configures cannot bind: that reads the source and writes the destination.
/// <https://github.com/rabbitmq/rabbitmq-management/issues/773>
///
/// Nobody binds: bindings are among the definitions, so the controller needs none of the three rights for it.
#[test]
fn case_b_42c2283_every_binding_is_defined_and_nobody_has_to_make_one() {
    let laid = laid();
    let all = rendered(&laid);
    let bound: BTreeSet<&str> = list(&all, "bindings")
        .iter()
        .map(|binding| text(binding, "destination"))
        .collect();
    let queues: BTreeSet<&str> = list(&all, "queues")
        .iter()
        .map(|it| text(it, "name"))
        .collect();
    assert_eq!(bound, queues);
    for permission in list(&all, "permissions") {
        for exchange in Exchange::ALL {
            assert!(
                !allows(text(permission, "read"), exchange.as_str()),
                "{permission}"
            );
        }
        for queue in &queues {
            assert!(!allows(text(permission, "write"), queue), "{permission}");
        }
    }
    let without = {
        let mut laid = laid;
        laid.bindings
            .retain(|binding| binding.queue != Queue::Node(named("node1")));
        laid.check()
    };
    let queue = Queue::Node(named("node1"));
    assert_eq!(without, [TopologyFault::Unbound { queue }]);
}

/// Topic permissions do not apply to the default exchange, which reaches every queue by its name.
/// <https://github.com/rabbitmq/rabbitmq-server/issues/3848>
#[test]
fn case_b_3c3e51a_nobody_writes_to_the_default_exchange_nor_where_keys_prove_nothing() {
    let laid = laid();
    for (who, rights) in &laid.users {
        for default in ["amq.default", "amq.direct", "amq.topic", "amq.fanout"] {
            assert!(!allows(&rights.write_pattern(), default), "{who} {default}");
        }
        for exchange in Exchange::ALL {
            let pattern = rights.write_pattern();
            let topics: BTreeSet<_> = rights.topic_patterns().map(|(of, _)| of).collect();
            let may = allows(&pattern, exchange.as_str());
            let direct = matches!(exchange, Exchange::Declarations | Exchange::Answers);
            assert!(
                !may || topics.contains(&exchange) || direct,
                "{who} {exchange}"
            );
            assert!(
                !(may && direct) || *who == Principal::Controller,
                "{who} {exchange}"
            );
        }
    }
    let mut wrong = laid;
    let who = principal("module/shop@node1");
    let shop = wrong.users.get_mut(&who).unwrap();
    shop.write.insert(Exchange::Declarations);
    let (principal, exchange) = (who, Exchange::Declarations);
    let expected = TopologyFault::SpeaksAsController {
        principal,
        exchange,
    };
    assert_eq!(wrong.check(), [expected]);
}

/// A topic pattern whose dots match anything, or that is not anchored, allows what nobody meant.
/// <https://github.com/rabbitmq/rabbitmq-server/issues/2370>
#[test]
fn case_b_ecdb1db_a_pattern_allows_exactly_the_names_it_was_made_of() {
    let mut records = records();
    for module in ["a", "a-b", "ab", "shop-2"] {
        let emits = Manifest {
            emits: ["orders.eu", "orders.e", "orders"].map(named).into(),
            ..manifest(module)
        };
        add_module(&mut records, emits, &["node1"]);
    }
    let laid = topology(
        &plan_of(&records),
        &Bounds::default(),
        &broker("4.0.5", QueueKind::Classic),
    );
    let of = |who: &str| {
        let rights = &laid.users[&principal(who)];
        let mut topics = rights.topic_patterns();
        let (_, events) = topics.find(|(of, _)| *of == Exchange::Events).unwrap();
        events
    };
    let allowed = ["a.announced", "a.orders", "a.orders.e", "a.orders.eu"];
    for key in allowed {
        assert!(allows(&of("module/a@node1"), key), "{key}");
        for stranger in ["module/a-b@node1", "module/ab@node1", "module/shop-2@node1"] {
            assert!(!allows(&of(stranger), key), "{stranger} {key}");
        }
        for wrong in [
            format!("{key}x"),
            format!("x{key}"),
            format!("{key}\n"),
            format!("{key}.x"),
            key.replace('.', "x"),
            key.replace('.', "/"),
        ] {
            let meant = allowed.contains(&wrong.as_str());
            assert_eq!(allows(&of("module/a@node1"), &wrong), meant, "{wrong:?}");
        }
    }
    // Queues: node1 is the beginning of node10.
    let read = |who: &str| laid.users[&principal(who)].read_pattern();
    for (who, queue, may) in [
        ("node/node1", "node.node1", true),
        ("node/node1", "node.node10", false),
        ("node/node1", "nodeXnode1", false),
        ("node/node1", "xnode.node1", false),
        ("node/node10", "node.node1", false),
    ] {
        assert_eq!(allows(&read(who), queue), may, "{who} {queue}");
    }
}

/// A backslash is lost between what was derived and what the broker reads.
/// <https://github.com/DataDog/integrations-core/pull/8372>
///
/// That a broker gives back what it was handed is for the adapter to hold, which is not built yet.
#[test]
fn case_b_f967283_what_is_written_is_read_back_byte_for_byte() {
    let laid = laid();
    for written in [
        serde_json::to_string(&rendered(&laid)).unwrap(),
        serde_json::to_string_pretty(&rendered(&laid)).unwrap(),
    ] {
        let read: Value = serde_json::from_str(&written).unwrap();
        let mut backslashes = 0;
        for (who, rights) in &laid.users {
            let name = user_name(who);
            let mut permissions = list(&read, "permissions").iter();
            let its = permissions.find(|it| text(it, "user") == name).unwrap();
            assert_eq!(text(its, "write"), rights.write_pattern(), "{who}");
            assert_eq!(text(its, "read"), rights.read_pattern(), "{who}");
            backslashes += text(its, "read").matches('\\').count();
            for (exchange, pattern) in rights.topic_patterns() {
                let mut topics = list(&read, "topic_permissions").iter();
                let of = |it: &&Value| {
                    text(it, "user") == name && text(it, "exchange") == exchange.as_str()
                };
                assert_eq!(text(topics.find(of).unwrap(), "write"), pattern, "{who}");
            }
        }
        assert!(backslashes > 0);
    }
}

/// A binding to the default exchange is refused, and with it all that comes after.
/// <https://github.com/wagslane/go-rabbitmq/issues/3>
#[test]
fn case_b_303b5ac_no_binding_is_from_the_default_exchange() {
    let all = rendered(&laid());
    let exchanges: BTreeSet<&str> = list(&all, "exchanges")
        .iter()
        .map(|it| text(it, "name"))
        .collect();
    assert!(!exchanges.contains(""));
    let bindings = list(&all, "bindings");
    assert!(!bindings.is_empty());
    for binding in bindings {
        assert!(exchanges.contains(text(binding, "source")), "{binding}");
    }
    assert_eq!(Exchange::named(""), None);
    assert_eq!(Exchange::named("amq.default"), None);
}

/// A limit of deliveries without a dead-letter exchange: what reaches it is dropped without a word.
/// <https://github.com/getAlby/lndhub.go/issues/376>
///
/// The case pairs each limit with such an exchange; here no queue has a limit, and one that would get one by default
/// says that it has none. What is given up is parked by the controller.
#[test]
fn case_b_d7599ce_no_queue_gives_up_a_message_by_itself() {
    for (version, queues) in [
        ("3.10.8", QueueKind::Classic),
        ("3.10.8", QueueKind::Quorum),
        ("4.0.5", QueueKind::Classic),
        ("4.0.5", QueueKind::Quorum),
        ("4.3.0", QueueKind::Quorum),
    ] {
        let laid = laid_for(version, queues);
        let limited_by_default = version.starts_with('4');
        for (queue, kind) in &laid.queues {
            let settings = laid.policies[&queue.class()].settings();
            let limit = settings.get("delivery-limit").and_then(Value::as_i64);
            let expected = (limited_by_default && *kind == QueueKind::Quorum).then_some(-1);
            assert_eq!(limit, expected, "{queue} on {version}");
        }
        for queue in list(&rendered(&laid), "queues") {
            let arguments = queue["arguments"].as_object().unwrap();
            assert_eq!(
                arguments.keys().collect::<Vec<_>>(),
                ["x-queue-type"],
                "{queue}"
            );
        }
    }
}

/// An argument on the wrong thing, or of another version, silently does nothing.
/// <https://github.com/eandersson/amqpstorm/issues/126>
#[test]
fn case_b_181ca2b_a_setting_is_written_only_for_a_version_that_takes_it() {
    for (version, taken) in [
        ("3.10.8", false),
        ("3.13.7", false),
        ("4.0.5", true),
        ("4.3.0", true),
    ] {
        let laid = laid_for(version, QueueKind::Quorum);
        for policy in laid.policies.values() {
            assert_eq!(
                policy.settings().contains_key("consumer-timeout"),
                taken,
                "{version}"
            );
        }
    }
    // Written for a newer one and brought to an older, it is named instead of ignored.
    let mut laid = laid_for("4.0.5", QueueKind::Quorum);
    laid.broker.version = BrokerVersion::new(3, 13, 7);
    let refused = |fault: &TopologyFault| matches!(fault, TopologyFault::RefusedSetting { .. });
    assert!(laid.check().iter().all(refused));
    assert_eq!(laid.check().len(), laid.policies.len());
}

/// A queue is declared with other arguments than it has: refused, for ever.
/// <https://github.com/mosquito/aio-pika/issues/667>
#[test]
fn case_b_21b2dee_a_changed_limit_changes_no_argument_of_a_queue() {
    let changed = Bounds {
        seat_bytes: 1,
        events_bytes: 2,
        events_age_secs: 3,
        control_bytes: 4,
        parked_bytes: 5,
        parked_age_secs: 6,
        ..Bounds::default()
    };
    let facts = broker("4.0.5", QueueKind::Classic);
    let (before, after) = (
        rendered(&topology(&plan(), &Bounds::default(), &facts)),
        rendered(&topology(&plan(), &changed, &facts)),
    );
    for same in ["queues", "exchanges", "bindings", "permissions"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    assert_ne!(before["policies"], after["policies"]);
    // Nor does a broker's newer version, which another setting comes with.
    let newer = rendered(&laid_for("4.3.0", QueueKind::Classic));
    let older = rendered(&laid_for("3.10.8", QueueKind::Classic));
    assert_eq!(newer["queues"], older["queues"]);
}
