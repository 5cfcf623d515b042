//! A plan over AMQP: that it says what the plan says, that no pattern lets anybody do more, and what its check finds.

mod addresses;
mod faults;
mod limits;
mod patterns;
mod proof;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mesh_derive::render::rabbitmq::{PasswordHash, Secrets, definitions};
use mesh_derive::topology::{
    BrokerFacts, BrokerVersion, Exchange, ExchangeKind, Key, Queue, QueueKind, Rights, Topology,
    principal_of, topology, user_name,
};
use mesh_derive::{Bounds, Plan, derive};
use mesh_model::{ConsumerKind, Filter, Grant, Principal, Records};
use mesh_servers::rabbitmq::Pattern;
use proptest::prelude::*;

use crate::common::records;
use crate::golden;
use addresses::on_amqp;

/// The broker of most tests: one that takes every setting.
fn broker() -> BrokerFacts {
    BrokerFacts {
        vhost: "mesh".to_owned(),
        version: BrokerVersion::PROVES_SENDER,
        queues: QueueKind::Classic,
        users: String::new(),
    }
}

fn laid(records: &Records) -> (Plan, Topology) {
    let plan = derive(records, &Bounds::default());
    let laid = topology(&plan, &Bounds::default(), &broker());
    (plan, laid)
}

/// What a grant lets its owner publish, where that is a thing on AMQP, too.
fn said(grant: &Grant) -> BTreeSet<(&'static str, String)> {
    let subjects = grant.publish.iter().map(Filter::as_str);
    let literal = subjects.filter(|it| !it.split('.').any(|word| matches!(word, "*" | ">")));
    literal.filter_map(on_amqp).collect()
}

/// The keys a user may write, each with its exchange.
fn keys(rights: &Rights) -> BTreeSet<(&'static str, String)> {
    let all = rights.keys.iter();
    all.flat_map(|(exchange, keys)| keys.iter().map(move |key| (exchange.as_str(), key)))
        .filter_map(|(exchange, key)| match key {
            Key::Is(key) => Some((exchange, key.clone())),
            Key::Under(_) | Key::Any => None,
        })
        .collect()
}

/// What a grant lets its owner hear, as the consumers that deliver there.
fn heard(plan: &Plan, grant: &Grant) -> BTreeSet<String> {
    let consumers = plan.consumers.values().filter(|consumer| {
        let ConsumerKind::Push { deliver, group, .. } = &consumer.kind else {
            return false;
        };
        grant.subscribes(&Filter::from(deliver), group.as_deref())
    });
    consumers
        .map(|it| match it.consumer.stream().as_str() {
            "NODES" => format!("node.{}", it.consumer.name()),
            "EVENTS" => format!("mod.{}", it.consumer.name()),
            _ => format!("seat.{}", it.consumer.name()),
        })
        .collect()
}

proptest! {
    /// D40
    #[test]
    fn a_user_says_and_hears_what_its_grant_says(records in records()) {
        let (plan, laid) = laid(&records);
        let with_keys: BTreeSet<&Principal> =
            plan.users.values().chain([&Principal::Controller]).collect();
        prop_assert_eq!(laid.users.keys().collect::<BTreeSet<_>>(), with_keys);
        for (principal, rights) in &laid.users {
            let grant = &plan.grants[principal];
            prop_assert_eq!(keys(rights), said(grant), "{}", principal);
            if *principal == Principal::Controller {
                // What it says is said in wildcards, but for the mark; it emits nothing, works nothing and sends none.
                let written: BTreeSet<Exchange> =
                    [Exchange::Declarations, Exchange::Control, Exchange::Answers].into();
                prop_assert_eq!(&rights.write, &written);
                continue;
            }
            let mut read: BTreeSet<String> = rights.read.iter().map(Queue::name).collect();
            if let Principal::Joiner(token) = principal {
                let waited = read.remove(&format!("enrol.{token}"));
                prop_assert!(waited);
            }
            if let Principal::Node(node) = principal {
                let asked = read.remove(&format!("ask.{node}"));
                prop_assert!(asked);
            }
            prop_assert_eq!(read, heard(&plan, grant), "{}", principal);
        }
    }

    /// D40
    #[test]
    fn a_module_is_bound_to_what_it_was_declared_to_follow(records in records()) {
        let (plan, laid) = laid(&records);
        let mut bound: BTreeMap<Queue, BTreeSet<String>> = BTreeMap::new();
        for binding in &laid.bindings {
            if binding.exchange == Exchange::Events {
                bound.entry(binding.queue.clone()).or_default().insert(binding.key.clone());
            }
        }
        let mut declared = BTreeMap::new();
        for (principal, reads) in &plan.reads {
            let queue = match principal {
                Principal::Module(module) => Queue::Module(module.clone()),
                Principal::Controller => Queue::Announcements,
                _ => continue,
            };
            let events: BTreeSet<String> = reads
                .iter()
                .filter_map(|filter| filter.as_str().strip_prefix("mesh.mod."))
                .map(str::to_owned)
                .collect();
            if !events.is_empty() {
                declared.insert(queue, events);
            }
        }
        prop_assert_eq!(bound, declared);
    }

    /// D41
    #[test]
    fn what_can_be_declared_gives_a_topology_that_holds(records in records(), newer: bool, quorum: bool) {
        let plan = derive(&records, &Bounds::default());
        let version = if newer { BrokerVersion::PROVES_SENDER } else { BrokerVersion::new(3, 10, 8) };
        let queues = if quorum { QueueKind::Quorum } else { QueueKind::Classic };
        let broker = BrokerFacts { version, queues, ..broker() };
        let laid = topology(&plan, &Bounds::default(), &broker);
        prop_assert_eq!(laid.check(), vec![]);
    }

    /// D42, D44, D45
    #[test]
    fn no_pattern_lets_anybody_be_somebody_else(records in records()) {
        let (_, laid) = laid(&records);
        let all = Patterns::of(&laid);
        for (principal, rights) in &laid.users {
            let own = &all.0[principal];
            for other in ["amq.default", "amq.topic", "", "mesh.ctl\n", "meshXctl", "mesh.decl2"] {
                prop_assert!(!own.write.allows(other), "{} {:?}", principal, other);
            }
            for exchange in Exchange::ALL {
                let may = rights.write.contains(&exchange);
                prop_assert_eq!(own.write.allows(exchange.as_str()), may, "{} {}", principal, exchange);
                // A topic exchange with no row would take every key.
                let listed = own.keys.contains_key(&exchange);
                prop_assert_eq!(listed, may && exchange.kind() == ExchangeKind::Topic);
            }
            for queue in laid.queues.keys() {
                prop_assert_eq!(own.read.allows(&queue.name()), rights.read.contains(queue));
                let longer = format!("{queue}zz");
                prop_assert!(!own.read.allows(&longer));
            }
            for (other, theirs) in &laid.users {
                let same = |a: &Principal, b: &Principal| match (a, b) {
                    (Principal::Instance(a), Principal::Instance(b)) => a.module == b.module,
                    (a, b) => a == b,
                };
                if same(principal, other) {
                    continue;
                }
                for (exchange, key) in keys(theirs) {
                    let exchange = Exchange::named(exchange).unwrap();
                    let passes = own.keys.get(&exchange).is_some_and(|own| own.allows(&key));
                    prop_assert!(!passes, "{} may say {} of {}", principal, key, other);
                }
            }
        }
    }

    /// D47
    #[test]
    fn definitions_do_not_tell_how_the_records_came_to_be(earlier in records(), records in records()) {
        let bounds = Bounds::default();
        let mut plan = derive(&earlier, &bounds);
        plan.rederive(&earlier, &records, &bounds);
        let changed = topology(&plan, &bounds, &broker());
        prop_assert_eq!(rendered(&changed), rendered(&laid(&records).1));
    }
}

/// The patterns of everybody, as a broker would read them.
struct Patterns(BTreeMap<Principal, Own>);

struct Own {
    write: Pattern,
    read: Pattern,
    keys: BTreeMap<Exchange, Pattern>,
}

impl Patterns {
    fn of(laid: &Topology) -> Self {
        let read = |pattern: String| Pattern::new(&pattern).unwrap();
        let own = |rights: &Rights| Own {
            write: read(rights.write_pattern()),
            read: read(rights.read_pattern()),
            keys: rights
                .topic_patterns()
                .map(|(exchange, pattern)| (exchange, read(pattern)))
                .collect(),
        };
        let users = laid.users.iter();
        Self(
            users
                .map(|(it, rights)| (it.clone(), own(rights)))
                .collect(),
        )
    }
}

fn secrets(laid: &Topology) -> Secrets {
    let hash = |it: &Principal| {
        let salt = it
            .to_string()
            .bytes()
            .fold([0; 4], |[a, b, c, d], byte| [b, c, d, a ^ byte]);
        (it.clone(), PasswordHash::new(salt, &format!("of {it}")))
    };
    // The holder of a token comes with a certificate here.
    let with_password = laid
        .users
        .keys()
        .filter(|it| !matches!(it, Principal::Joiner(_)));
    with_password.map(hash).collect()
}

fn rendered(laid: &Topology) -> String {
    format!("{:#}\n", definitions(laid, &secrets(laid)))
}

/// D47
#[test]
fn the_definitions_are_what_is_committed() {
    for case in golden::CASES {
        let (_, laid) = laid(&golden::records(case));
        let name = format!("tests/cases/{case}.out.definitions.json");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = rendered(&laid);
        if std::env::var_os("MESH_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expected, "{}", path.display());
    }
}

/// D42, D47
#[test]
fn the_definitions_let_nobody_configure_and_nobody_without_a_secret_log_in() {
    let (_, laid) = laid(&golden::records("mailer"));
    let text = definitions(&laid, &Secrets::new());
    let of = |list: &str, field: &str| -> BTreeSet<String> {
        let all = text[list].as_array().unwrap().iter();
        all.map(|it| it[field].as_str().unwrap().to_owned())
            .collect()
    };
    let only = |value: &str| BTreeSet::from([value.to_owned()]);
    assert_eq!(of("permissions", "configure"), only("^\\z"));
    assert_eq!(of("topic_permissions", "read"), only("^\\z"));
    assert_eq!(of("users", "password_hash"), only(""));
    assert_eq!(of("users", "tags"), only(""));
    assert_eq!(of("users", "name"), of("permissions", "user"));
}

/// D46
#[test]
fn users_and_queues_read_back_as_they_are_written() {
    let (_, laid) = laid(&golden::records("names"));
    for principal in laid.users.keys() {
        assert_eq!(
            principal_of(&user_name(principal)).as_ref(),
            Some(principal)
        );
    }
    for queue in laid.queues.keys() {
        assert_eq!(Queue::named(&queue.name()).as_ref(), Some(queue));
    }
    for name in [
        "",
        "controller.",
        "node.",
        "node.a.b",
        "module.a.b.c",
        "seat.a",
        "x",
    ] {
        assert_eq!(principal_of(name), None, "{name:?}");
    }
    for name in [
        "",
        "node",
        "node.",
        "node.a.b",
        "ctl",
        "ctl.reports",
        "parked.a",
        "amq.gen-x",
    ] {
        assert_eq!(Queue::named(name), None, "{name:?}");
    }
}
