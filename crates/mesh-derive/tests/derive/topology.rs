//! A plan over AMQP: that it says what the plan says, that no pattern lets anybody do more, and what its check finds.

mod faults;
mod patterns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mesh_derive::render::rabbitmq::{PasswordHash, Secrets, definitions};
use mesh_derive::topology::{
    Address, BrokerFacts, BrokerVersion, Exchange, ExchangeKind, Key, Queue, QueueKind, Rights,
    Topology, principal_of, topology, user_name,
};
use mesh_derive::{Bounds, Plan, derive, subject};
use mesh_model::{ConsumerKind, Filter, Grant, InstanceRef, Principal, Records, Subject};
use proptest::prelude::*;
use regex::Regex;

use crate::common::{empty, records};
use crate::golden;

/// The broker of most tests: one that takes every setting.
fn broker() -> BrokerFacts {
    BrokerFacts {
        vhost: "mesh".to_owned(),
        version: BrokerVersion::PROVES_SENDER,
        queues: QueueKind::Classic,
    }
}

fn laid(records: &Records) -> (Plan, Topology) {
    let plan = derive(records, &Bounds::default());
    let laid = topology(&plan, &Bounds::default(), &broker());
    (plan, laid)
}

/// What a grant lets its owner publish, where that is a thing on AMQP, too.
fn said(grant: &Grant) -> BTreeSet<Address> {
    let subjects = grant.publish.iter();
    subjects
        .filter_map(|filter| Address::of(&Subject::new(filter.as_str()).ok()?))
        .collect()
}

/// The keys a user may write, each as an address.
fn keys(rights: &Rights) -> BTreeSet<Address> {
    let all = rights.keys.iter();
    all.flat_map(|(exchange, keys)| keys.iter().map(move |key| (*exchange, key)))
        .filter_map(|(exchange, key)| match key {
            Key::Is(key) => Some(Address {
                exchange,
                key: key.clone(),
            }),
            Key::Under(_) => None,
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
            prop_assert_eq!(read, heard(&plan, grant), "{}", principal);
        }
    }

    /// D40
    #[test]
    fn a_module_is_bound_to_what_it_was_declared_to_follow(records in records()) {
        let (plan, laid) = laid(&records);
        let mut bound: BTreeMap<&Queue, BTreeSet<Subject>> = BTreeMap::new();
        for binding in &laid.bindings {
            if binding.exchange == Exchange::Events {
                let at = Address { exchange: binding.exchange, key: binding.key.clone() };
                bound.entry(&binding.queue).or_default().insert(at.subject().unwrap());
            }
        }
        let mut declared = BTreeMap::new();
        for (principal, reads) in &plan.reads {
            let queue = match principal {
                Principal::Module(module) => Queue::Module(module.clone()),
                Principal::Controller => Queue::Announcements,
                _ => continue,
            };
            let events: BTreeSet<Subject> = reads
                .iter()
                .filter(|filter| filter.is_subset_of(&subject::events()))
                .map(|filter| Subject::new(filter.as_str()).unwrap())
                .collect();
            if !events.is_empty() {
                declared.insert(queue, events);
            }
        }
        let declared: BTreeMap<&Queue, BTreeSet<Subject>> =
            declared.iter().map(|(queue, events)| (queue, events.clone())).collect();
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
        let all = Regexes::of(&laid);
        for (principal, rights) in &laid.users {
            let own = &all.0[principal];
            for other in ["amq.default", "amq.topic", "", "mesh.ctl\n", "meshXctl", "mesh.decl2"] {
                prop_assert!(!own.write.is_match(other), "{} {:?}", principal, other);
            }
            for exchange in Exchange::ALL {
                let may = rights.write.contains(&exchange);
                prop_assert_eq!(own.write.is_match(exchange.as_str()), may, "{} {}", principal, exchange);
                // A topic exchange with no row would take every key.
                let listed = own.keys.contains_key(&exchange);
                prop_assert_eq!(listed, may && exchange.kind() == ExchangeKind::Topic);
            }
            for queue in laid.queues.keys() {
                prop_assert_eq!(own.read.is_match(&queue.name()), rights.read.contains(queue));
                let longer = format!("{queue}zz");
                prop_assert!(!own.read.is_match(&longer));
            }
            for (other, theirs) in &laid.users {
                let same = |a: &Principal, b: &Principal| match (a, b) {
                    (Principal::Instance(a), Principal::Instance(b)) => a.module == b.module,
                    (a, b) => a == b,
                };
                if same(principal, other) {
                    continue;
                }
                for at in keys(theirs) {
                    let passes = own.keys.get(&at.exchange).is_some_and(|own| own.is_match(&at.key));
                    prop_assert!(!passes, "{} may say {} of {}", principal, at, other);
                }
            }
        }
    }

    /// D47
    #[test]
    fn equal_records_give_equal_definitions(records in records()) {
        prop_assert_eq!(rendered(&laid(&records).1), rendered(&laid(&records).1));
    }
}

/// The patterns of everybody, as a broker would read them.
struct Regexes(BTreeMap<Principal, Own>);

struct Own {
    write: Regex,
    read: Regex,
    keys: BTreeMap<Exchange, Regex>,
}

impl Regexes {
    fn of(laid: &Topology) -> Self {
        let regex = |pattern: String| Regex::new(&pattern).unwrap();
        let own = |rights: &Rights| Own {
            write: regex(rights.write_pattern()),
            read: regex(rights.read_pattern()),
            keys: rights
                .topic_patterns()
                .map(|(exchange, pattern)| (exchange, regex(pattern)))
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
    assert_eq!(of("permissions", "configure"), only("^$"));
    assert_eq!(of("topic_permissions", "read"), only("^$"));
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

/// D46
#[test]
fn an_address_and_a_subject_say_the_same() {
    let instance = InstanceRef {
        module: "shop".parse().unwrap(),
        node: "n1".parse().unwrap(),
    };
    let subjects = [
        subject::declare(&instance.node),
        subject::report(&instance.node),
        subject::heartbeat(&instance.node),
        subject::enrol(&"t1".parse().unwrap()),
        subject::enrolment_answer(&"t1".parse().unwrap()),
        subject::mark(),
        subject::event(&"shop.order.placed".parse().unwrap()),
        subject::work(&"mail".parse().unwrap(), &instance.module),
        subject::parked(&subject::report(&instance.node)),
    ];
    for subject in subjects {
        let address = Address::of(&subject).unwrap();
        assert_eq!(address.subject().as_ref(), Some(&subject), "{address}");
    }
    for subject in [
        "mesh.ctl.epoch",
        "$JS.ACK.NODES.n1.1",
        "mesh.deliver.node.n1",
        "other.control.x",
    ] {
        assert_eq!(Address::of(&subject.parse().unwrap()), None, "{subject}");
    }
    let nothing = laid(&empty()).1;
    assert!(nothing.users.contains_key(&Principal::Controller));
}
