//! What the check finds: each fault, made by hand in a topology that holds.

use std::collections::BTreeSet;

use mesh_derive::Bounds;
use mesh_derive::derive;
use mesh_derive::topology::{
    Binding, BrokerFacts, BrokerVersion, Exchange, Key, Queue, QueueClass, QueueKind, Rights,
    Topology, TopologyFault, topology,
};
use mesh_model::{Principal, Records};

use super::{broker, laid};
use crate::common::{add_module, add_node, add_seat, add_token, empty, manifest, names};

fn mesh() -> Records {
    let mut records = empty();
    for node in ["n1", "n2"] {
        add_node(&mut records, node);
    }
    add_seat(&mut records, "mail", Some("mailer"));
    let mailer = mesh_model::Manifest {
        can_hold: names(&["mail"]),
        follows: ["shop.placed".parse().unwrap()].into(),
        ..manifest("mailer")
    };
    let shop = mesh_model::Manifest {
        emits: names(&["placed"]),
        sends_to: names(&["mail"]),
        ..manifest("shop")
    };
    add_module(&mut records, mailer, &["n1", "n2"]);
    add_module(&mut records, shop, &["n1"]);
    add_token(&mut records, "t1");
    records
}

fn user<'a>(laid: &'a mut Topology, principal: &str) -> &'a mut Rights {
    let principal: Principal = principal.parse().unwrap();
    laid.users.get_mut(&principal).unwrap()
}

fn node(name: &str) -> Queue {
    Queue::Node(name.parse().unwrap())
}

/// What one change to a topology that holds is found to be.
fn found(change: impl FnOnce(&mut Topology)) -> Vec<String> {
    let mut laid = laid(&mesh()).1;
    assert_eq!(laid.check(), []);
    change(&mut laid);
    laid.check().iter().map(ToString::to_string).collect()
}

/// D41, D44
#[test]
fn a_queue_is_read_by_whom_it_is_for() {
    let read = |who: &'static str, queue: Queue| {
        found(|laid| {
            user(laid, who).read.insert(queue);
        })
    };
    for (who, queue, expected) in [
        (
            "node/n1",
            node("n2"),
            "node/n1: may read node.n2, which is not its own",
        ),
        (
            "node/n1",
            Queue::Reports,
            "node/n1: may read ctl.report, which is not its own",
        ),
        (
            "joiner/t1",
            node("n1"),
            "joiner/t1: may read node.n1, which is not its own",
        ),
        (
            "controller",
            node("n1"),
            "controller: may read node.n1, which is not its own",
        ),
        (
            "module/shop@n1",
            Queue::Module("mailer".parse().unwrap()),
            "module/shop@n1: may read mod.mailer",
        ),
        (
            "module/shop@n1",
            Queue::Seat("mail".parse().unwrap()),
            "queue seat.mail: both mailer and shop read it",
        ),
        (
            "node/n1",
            node("n3"),
            "node/n1: may read node.n3, which is not there",
        ),
    ] {
        let found = read(who, queue);
        assert!(found.iter().any(|it| it.starts_with(expected)), "{found:?}");
    }
}

/// D41
#[test]
fn every_queue_is_bound_to_its_own_and_to_nothing_else() {
    let unbound = |queue: Queue| found(|laid| laid.bindings.retain(|it| it.queue != queue));
    for queue in [
        node("n1"),
        Queue::Reports,
        Queue::Mark,
        Queue::Answer("t1".parse().unwrap()),
    ] {
        let found = unbound(queue.clone());
        let expected = format!("queue {queue}: no binding brings anything into it");
        assert!(
            found.iter().any(|it| it.starts_with(&expected)),
            "{found:?}"
        );
    }
    let bound = |exchange, key: &str, queue| {
        let key = key.to_owned();
        found(|laid| {
            laid.bindings.insert(Binding {
                exchange,
                key,
                queue,
            });
        })
    };
    for (exchange, key, queue, expected) in [
        (
            Exchange::Declarations,
            "n2",
            node("n1"),
            "queue node.n1: mesh.decl n2 is not for it",
        ),
        (
            Exchange::Control,
            "#",
            Queue::Reports,
            "queue ctl.report: mesh.ctl # is not for it",
        ),
        (
            Exchange::Events,
            "#",
            node("n1"),
            "queue node.n1: mesh.ev # is not for it",
        ),
        (
            Exchange::Declarations,
            "n3",
            node("n3"),
            "binding mesh.decl n3: there is no queue node.n3",
        ),
    ] {
        let found = bound(exchange, key, queue);
        assert!(found.iter().any(|it| it.starts_with(expected)), "{found:?}");
    }
}

/// D45
#[test]
fn nobody_speaks_as_another() {
    let says = |who: &'static str, exchange, key| {
        found(|laid| {
            let rights = user(laid, who);
            rights.write.insert(exchange);
            rights.keys.entry(exchange).or_default().insert(key);
        })
    };
    let is = |key: &str| Key::Is(key.to_owned());
    for (who, exchange, key) in [
        ("node/n1", Exchange::Control, is("report.n2")),
        ("node/n1", Exchange::Control, is("enrol.t1")),
        ("node/n1", Exchange::Control, is("mark")),
        (
            "node/n1",
            Exchange::Control,
            Key::Under("report".to_owned()),
        ),
        ("node/n1", Exchange::Heartbeats, is("n2")),
        ("module/shop@n1", Exchange::Events, is("mailer.sent")),
        ("module/shop@n1", Exchange::Seats, is("mail.mailer")),
        ("joiner/t1", Exchange::Control, is("enrol.t2")),
    ] {
        let found = says(who, exchange, key.clone());
        let expected =
            format!("{who}: may write {key} to {exchange}, and so speak as somebody else");
        assert!(
            found.iter().any(|it| it.starts_with(&expected)),
            "{found:?}"
        );
    }
    let found = found(|laid| {
        user(laid, "node/n1").write.insert(Exchange::Declarations);
    });
    assert!(
        found[0].starts_with("node/n1: may write to mesh.decl, where a broker"),
        "{found:?}"
    );
}

/// D45
#[test]
fn whoever_writes_to_a_topic_exchange_has_its_keys_listed() {
    let unlisted = found(|laid| {
        user(laid, "node/n1").keys.remove(&Exchange::Control);
    });
    let expected = "node/n1: may write to mesh.ctl and no keys are listed, so it may write every key; list its own";
    assert_eq!(unlisted, [expected]);
    let unwritten = found(|laid| {
        user(laid, "node/n1").write.remove(&Exchange::Control);
    });
    assert!(unwritten[0].starts_with("node/n1: has keys on mesh.ctl, where it may not write"));
}

/// D41
#[test]
fn what_is_written_goes_into_a_queue() {
    let found = found(|laid| {
        let seat = Queue::Seat("mail".parse().unwrap());
        laid.bindings.retain(|it| it.queue != seat);
    });
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("module/shop@n1: mail.shop on mesh.seat goes into no queue")),
        "{found:?}"
    );
}

/// D41
#[test]
fn what_only_the_controller_fills_it_may_write() {
    for (exchange, queue) in [
        (Exchange::Declarations, "node.n1"),
        (Exchange::Answers, "enrol.t1"),
        (Exchange::Control, "ctl.mark"),
        (Exchange::Control, "parked"),
    ] {
        let found = found(|laid| {
            user(laid, "controller").write.remove(&exchange);
        });
        let expected = format!("queue {queue}: the controller may not write to {exchange}");
        assert!(
            found.iter().any(|it| it.starts_with(&expected)),
            "{found:?}"
        );
    }
}

/// D46
#[test]
fn a_name_no_broker_carries_is_found() {
    for vhost in [String::new(), "v".repeat(256)] {
        let found = found(|laid| laid.broker.vhost = vhost);
        assert!(found[0].starts_with("virtual host "), "{found:?}");
    }
    assert_eq!(found(|laid| laid.broker.vhost = "v".repeat(255)), [""; 0]);
}

/// D46
#[test]
fn the_longest_names_make_no_key_too_long() {
    let long = |letter: &str| letter.repeat(63);
    let event = format!("{}.{}", long("e"), long("f"));
    let mut records = empty();
    add_node(&mut records, &long("n"));
    add_seat(&mut records, &long("s"), None);
    let module = mesh_model::Manifest {
        emits: names(&[&event]),
        follows: [format!("{}.{event}", long("m")).parse().unwrap()].into(),
        sends_to: names(&[&long("s")]),
        ..manifest(&long("m"))
    };
    add_module(&mut records, module, &[&long("n")]);
    assert_eq!(laid(&records).1.check(), []);
}

fn on(version: BrokerVersion, queues: QueueKind) -> Topology {
    let plan = derive(&mesh(), &Bounds::default());
    let broker = BrokerFacts {
        version,
        queues,
        ..broker()
    };
    topology(&plan, &Bounds::default(), &broker)
}

const OLD: BrokerVersion = BrokerVersion::new(3, 13, 7);
const NEW: BrokerVersion = BrokerVersion::new(4, 0, 3);

/// D48
#[test]
fn a_setting_is_written_only_for_a_broker_that_takes_it() {
    let written = |version, queues| -> BTreeSet<&str> {
        let policies = on(version, queues).policies;
        policies
            .values()
            .flat_map(|policy| policy.settings().into_keys())
            .collect()
    };
    assert!(!written(OLD, QueueKind::Quorum).contains("delivery-limit"));
    assert!(!written(OLD, QueueKind::Quorum).contains("consumer-timeout"));
    assert!(written(NEW, QueueKind::Quorum).contains("delivery-limit"));
    assert!(written(NEW, QueueKind::Classic).contains("consumer-timeout"));
    // A classic queue counts no deliveries.
    assert!(!written(NEW, QueueKind::Classic).contains("delivery-limit"));
}

/// D48
#[test]
fn a_setting_an_older_broker_refuses_is_found() {
    let mut laid = on(NEW, QueueKind::Quorum);
    laid.broker.version = OLD;
    let found = laid.check();
    let all = found
        .iter()
        .all(|it| matches!(it, TopologyFault::RefusedSetting { .. }));
    assert!(all && found.len() == QueueClass::ALL.len(), "{found:?}");
}

/// D48
#[test]
fn each_queue_has_the_limits_of_exactly_one_policy() {
    let laid = on(NEW, QueueKind::Quorum);
    for queue in laid.queues.keys() {
        let about: Vec<QueueClass> = laid
            .policies
            .keys()
            .filter(|class| {
                regex::Regex::new(&class.pattern())
                    .unwrap()
                    .is_match(&queue.name())
            })
            .copied()
            .collect();
        assert_eq!(about, [queue.class()], "{queue}");
        assert_eq!(
            laid.queues[queue] == QueueKind::Classic,
            *queue == Queue::Heartbeats
        );
    }
    let unlimited = found(|laid| {
        laid.policies.remove(&QueueClass::Seat);
    });
    assert_eq!(
        unlimited,
        ["queue seat.mail: no policy is about it, so nothing limits it; give its class one"]
    );
}
