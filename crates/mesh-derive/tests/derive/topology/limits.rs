//! Limits: of names, and of queues on each version of a broker.

use std::collections::BTreeSet;

use mesh_derive::topology::{
    BrokerFacts, BrokerVersion, LONGEST_HELD, Queue, QueueClass, QueueKind, Topology,
    TopologyFault, topology,
};
use mesh_derive::{Bounds, derive};
use mesh_model::TokenRecord;
use mesh_servers::rabbitmq::{MAX_KEY, Pattern};

use super::faults::{found, mesh};
use super::{broker, laid};
use crate::common::{add_module, add_node, add_seat, empty, manifest, names};

/// D46
#[test]
fn a_user_is_measured_by_the_name_it_logs_in_with() {
    // The longest is module.mailer.n1, with 16 bytes; a controller has an epoch after its own.
    let longest = MAX_KEY - "controller.0123456789abcdef".len();
    let found = |bytes: usize| found(|laid| laid.broker.users = "u".repeat(bytes));
    assert_eq!(found(longest), [""; 0]);
    let one = found(longest + 1);
    assert_eq!(one.len(), 1, "{one:?}");
    assert!(
        one[0].starts_with("user \"uuu") && one[0].contains("controller.0"),
        "{one:?}"
    );
    let longer = found(MAX_KEY - "module.mailer.n1".len() + 1);
    assert!(
        longer
            .iter()
            .any(|it| it.contains("umodule.mailer.n1\" has 256 bytes")),
        "{longer:?}"
    );
}

/// D46
#[test]
fn a_name_no_broker_carries_is_found() {
    for vhost in [String::new(), "v".repeat(MAX_KEY + 1)] {
        let found = found(|laid| laid.broker.vhost = vhost);
        assert!(found[0].starts_with("virtual host "), "{found:?}");
    }
    assert_eq!(
        found(|laid| laid.broker.vhost = "v".repeat(MAX_KEY)),
        [""; 0]
    );
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
    // What is named is the first that takes it.
    let said = found[0].to_string();
    assert!(said.ends_with("or use 4.0.0 or newer"), "{said}");
    assert_eq!(
        on(BrokerVersion::new(4, 0, 0), QueueKind::Quorum).check(),
        []
    );
}

/// D48
#[test]
fn an_answer_waits_for_as_long_as_its_token_may_be_used() {
    let policies = on(NEW, QueueKind::Classic).policies;
    let expires = policies[&QueueClass::Answer].settings()["expires"]
        .as_u64()
        .unwrap();
    assert!(expires > TokenRecord::LONGEST_SECS * 1000);
    // More than a broker counts up to in milliseconds it refuses.
    assert!(expires < u64::from(u32::MAX));
}

/// D48
#[test]
fn a_report_may_be_held_for_less_time_than_any_broker_allows() {
    // What a broker allows that is told nothing: half an hour.
    let untold = 1_800_000;
    for version in [OLD, NEW] {
        let policies = on(version, QueueKind::Classic).policies;
        let told = policies[&QueueClass::Reports].settings();
        let allowed = told
            .get("consumer-timeout")
            .map_or(untold, |it| it.as_u64().unwrap());
        assert!(LONGEST_HELD.as_millis() < u128::from(allowed), "{version}");
    }
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
                let pattern = Pattern::new(&class.pattern()).unwrap();
                assert!(!pattern.allows(&format!("{queue}\n")), "{queue}");
                pattern.allows(&queue.name())
            })
            .copied()
            .collect();
        assert_eq!(about, [queue.class()], "{queue}");
        assert_eq!(
            laid.queues[queue] == QueueKind::Classic,
            matches!(queue, Queue::Heartbeats | Queue::Ask(_) | Queue::Logs)
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
