//! What is asked of a broker: a model of one that holds the patterns answers as expected, and one that holds something wider
//! does not.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::proof::Extent;
use mesh_derive::topology::proof::{At, Attempt, Expected, Probe, attempt_of, expected, probes};
use mesh_derive::topology::{BrokerVersion, Exchange, ExchangeKind, Queue, Topology, topology};
use mesh_derive::{Bounds, Plan, derive, part, proof};
use mesh_model::{BusKind, Principal, Records};
use mesh_servers::rabbitmq::{Pattern, topic_allows};
use proptest::prelude::*;

use super::{broker, laid};
use crate::common::{add_module, add_node, add_seat, add_token, empty, manifest, names, records};

/// What a broker holds of one user, as text.
#[derive(Clone)]
struct Rows {
    configure: String,
    write: String,
    read: String,
    topics: BTreeMap<Exchange, String>,
}

impl Rows {
    fn of(topology: &Topology, who: &Principal) -> Self {
        let rights = &topology.users[who];
        Self {
            configure: mesh_derive::topology::NOTHING.to_owned(),
            write: rights.write_pattern(),
            read: rights.read_pattern(),
            topics: rights.topic_patterns().collect(),
        }
    }

    /// What a broker that holds these does otherwise than expected.
    fn differ(&self, probes: &[Probe], version: BrokerVersion) -> Vec<Attempt> {
        let pattern = |text: &String| Pattern::new(text).unwrap();
        let broker = Model {
            configure: pattern(&self.configure),
            write: pattern(&self.write),
            read: pattern(&self.read),
            topics: self
                .topics
                .iter()
                .map(|(at, text)| (*at, pattern(text)))
                .collect(),
            version,
        };
        let otherwise = probes.iter().filter(|probe| match probe.expected {
            Expected::Allowed => !broker.allows(&probe.attempt),
            Expected::Refused => broker.allows(&probe.attempt),
            Expected::Held => false,
        });
        otherwise.map(|probe| probe.attempt.clone()).collect()
    }
}

/// A broker, as far as it holds one user to its permissions.
struct Model {
    configure: Pattern,
    write: Pattern,
    read: Pattern,
    topics: BTreeMap<Exchange, Pattern>,
    version: BrokerVersion,
}

impl Model {
    fn allows(&self, attempt: &Attempt) -> bool {
        let publishes = |exchange: &str, keys: &[&str]| {
            let name = if exchange.is_empty() {
                "amq.default"
            } else {
                exchange
            };
            let topic = Exchange::named(exchange).filter(|it| it.kind() == ExchangeKind::Topic);
            let row = topic.and_then(|it| self.topics.get(&it));
            self.write.allows(name) && topic_allows(row, keys)
        };
        match attempt {
            Attempt::Connect => true,
            Attempt::Impersonate { .. } => false,
            Attempt::Copy { at, to } if self.version.proves_sender() => {
                publishes(&at.exchange, &[&at.key, to])
            }
            Attempt::Publish(at) | Attempt::Copy { at, .. } => publishes(&at.exchange, &[&at.key]),
            Attempt::Consume(queue) | Attempt::Get(queue) | Attempt::Purge(queue) => {
                self.read.allows(queue)
            }
            Attempt::DeclareQueue(name) if name.is_empty() => self.configure.allows("amq.gen-x"),
            Attempt::DeclareQueue(name)
            | Attempt::DeleteQueue(name)
            | Attempt::DeclareExchange(name)
            | Attempt::DeleteExchange(name) => self.configure.allows(name),
            Attempt::Bind(bond) | Attempt::Unbind(bond) | Attempt::BindExchange(bond) => {
                self.write.allows(&bond.to) && self.read.allows(&bond.from)
            }
        }
    }
}

fn asked(plan: &Plan, topology: &Topology, who: &Principal, extent: Extent) -> Vec<Probe> {
    probes(plan, topology, who, extent)
}

/// Each of these meshes is looked at as everybody in it.
fn a_quarter() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases / 4,
        ..usual
    }
}

/// A mesh in which each kind of principal has something.
fn some() -> Records {
    let mut records = empty();
    for node in ["node1", "node10", "w"] {
        add_node(&mut records, node);
    }
    add_seat(&mut records, "w", Some("w"));
    add_seat(&mut records, "spare", None);
    let shop = mesh_model::Manifest {
        emits: names(&["order.placed", "order.paid"]),
        sends_to: ["w".parse().unwrap()].into(),
        ..manifest("shop")
    };
    let w = mesh_model::Manifest {
        follows: ["shop.order.placed".parse().unwrap()].into(),
        can_hold: ["w".parse().unwrap()].into(),
        ..manifest("w")
    };
    add_module(&mut records, shop, &["node1"]);
    add_module(&mut records, w, &["w"]);
    add_token(&mut records, "t1");
    records
}

proptest! {
    #![proptest_config(a_quarter())]

    /// D49
    #[test]
    fn a_broker_with_the_derived_patterns_does_what_is_expected(records in records()) {
        let (plan, laid) = laid(&records);
        for who in laid.users.keys() {
            let asked = asked(&plan, &laid, who, Extent::Whole);
            let differ = Rows::of(&laid, who).differ(&asked, laid.broker.version);
            prop_assert_eq!(differ, vec![], "{}", who);
        }
    }

    /// D49
    #[test]
    fn everything_a_user_may_is_attempted_and_each_attempt_once(records in records()) {
        let (plan, laid) = laid(&records);
        for (who, rights) in &laid.users {
            let asked = asked(&plan, &laid, who, Extent::Whole);
            let attempts: BTreeSet<&Attempt> = asked.iter().map(|it| &it.attempt).collect();
            prop_assert_eq!(attempts.len(), asked.len());
            for queue in &rights.read {
                prop_assert!(attempts.contains(&Attempt::Consume(queue.name())), "{} {}", who, queue);
            }
            let written = asked.iter().filter_map(|probe| match &probe.attempt {
                Attempt::Publish(at) if probe.expected == Expected::Allowed => {
                    Exchange::named(&at.exchange)
                }
                _ => None,
            });
            prop_assert_eq!(written.collect::<BTreeSet<_>>(), rights.write.clone());
        }
    }

    /// D51
    #[test]
    fn what_could_do_something_comes_after_its_gate(records in records()) {
        let (plan, laid) = laid(&records);
        for who in laid.users.keys() {
            let asked = asked(&plan, &laid, who, Extent::Whole);
            let mut before = BTreeSet::new();
            for probe in &asked {
                let does = matches!(
                    probe.attempt,
                    Attempt::Get(_)
                        | Attempt::Purge(_)
                        | Attempt::DeleteQueue(_)
                        | Attempt::DeleteExchange(_)
                        | Attempt::Unbind(_)
                );
                let gate = probe.attempt.gate();
                prop_assert!(!does || gate.is_some(), "{}", probe.attempt);
                if let Some(gate) = gate {
                    prop_assert!(before.contains(&gate), "{} before {}", probe.attempt, gate);
                    prop_assert_eq!(expected(&laid, who, &gate), probe.expected);
                }
                before.insert(probe.attempt.clone());
            }
        }
    }

    /// D50
    #[test]
    fn each_of_anothers_entries_must_be_refused(records in records()) {
        let (plan, laid) = laid(&records);
        for (who, own) in &laid.users {
            let asked = asked(&plan, &laid, who, Extent::Whole);
            let refused = asked.iter().filter(|it| it.expected == Expected::Refused);
            let refused: BTreeSet<&Attempt> = refused.map(|it| &it.attempt).collect();
            for other in laid.users.values() {
                for queue in other.read.difference(&own.read) {
                    let consumes = Attempt::Consume(queue.name());
                    prop_assert!(refused.contains(&consumes), "{} {}", who, queue);
                }
                for exchange in other.write.difference(&own.write) {
                    let writes = |it: &&Attempt| matches!(it, Attempt::Publish(at) if at.exchange == exchange.as_str());
                    prop_assert!(refused.iter().copied().any(|it| writes(&it)), "{} {}", who, exchange);
                }
                for (exchange, keys) in &other.keys {
                    for key in keys.iter().map(ToString::to_string).filter(|it| !it.ends_with('#')) {
                        let at = At { exchange: exchange.to_string(), key };
                        let may = own.may_publish(&at.exchange, &at.key);
                        prop_assert_eq!(refused.contains(&Attempt::Publish(at)), !may, "{}", who);
                    }
                }
            }
        }
    }

    /// What is asked of a broker by `can` is answered as the grant says.
    #[test]
    fn an_act_with_a_place_on_a_broker_is_expected_as_the_grant_says(records in records()) {
        let (plan, laid) = laid(&records);
        for who in laid.users.keys() {
            let bus = mesh_model::BusFacts::default();
            for probe in proof::probes(&plan, who, &bus, Extent::Whole) {
                let Some(attempt) = attempt_of(&plan, &probe.act) else {
                    continue;
                };
                // A whole stream's subjects at once are no queue, and a direct exchange holds keys against nothing.
                let on_grant = matches!(probe.expected, proof::Expected::Allowed(_));
                let on_broker = expected(&laid, who, &attempt) == Expected::Allowed;
                prop_assert_eq!(on_broker, on_grant, "{} {}: {}", who, probe.act, attempt);
            }
        }
    }
}

/// D49, D76
#[test]
fn what_carrying_takes_is_asked_of_the_broker_of_a_mesh_of_two() {
    let records = some();
    let plan = derive(&records, &Bounds::default());
    let part = part(&plan, &records, BusKind::Amqp);
    let laid = topology(&part, &Bounds::default(), &broker());
    let who = Principal::Controller;
    let asked = asked(&part, &laid, &who, Extent::Whole);
    let rows = Rows::of(&laid, &who);
    assert_eq!(rows.differ(&asked, laid.broker.version), []);
    let allowed = asked.iter().filter(|it| it.expected == Expected::Allowed);
    let allowed: Vec<String> = allowed.map(|it| it.attempt.to_string()).collect();
    for what in [
        "publish mesh.carry \"mesh-probe\"",
        "publish mesh.seat \"mesh-probe\"",
        "consume mod.w",
    ] {
        assert!(allowed.iter().any(|it| it == what), "{what}: {allowed:?}");
    }
    let seats = allowed.iter().filter(|it| it.starts_with("consume seat."));
    assert_eq!(seats.count(), 1, "{allowed:?}");
    for narrower in ["mod\\.[a-z0-9-]+", "seat\\.[a-z0-9-]+"] {
        let mut rows = rows.clone();
        rows.read = rows.read.replace(narrower, "none");
        assert!(found(&laid, &asked, &rows), "{narrower}: {}", rows.read);
    }
}

/// Whether anything that is asked shows that a broker holds these rows and not the derived ones.
fn found(topology: &Topology, asked: &[Probe], rows: &Rows) -> bool {
    !rows.differ(asked, topology.broker.version).is_empty()
}

/// D50
#[test]
fn a_pattern_of_keys_that_is_wider_by_one_wildcard_is_found() {
    let (plan, laid) = laid(&some());
    for who in laid.users.keys() {
        let asked = asked(&plan, &laid, who, Extent::Nearest(2));
        let rows = Rows::of(&laid, who);
        for (exchange, pattern) in &rows.topics {
            let wider = [
                pattern.replace("\\z", ""),
                pattern.replacen('^', "", 1),
                pattern.replace("\\z", "$"),
                pattern.replace("\\.", "."),
                pattern.replace("\\z", "(\\..*)?\\z"),
                ".*".to_owned(),
            ];
            // Under a word everything goes already, whatever comes after it.
            let wider = wider
                .iter()
                .filter(|it| *it != pattern && !it.contains("parked"));
            for wider in wider {
                let mut rows = rows.clone();
                rows.topics.insert(*exchange, wider.clone());
                assert!(found(&laid, &asked, &rows), "{who}: {wider}");
            }
            let mut rows = rows.clone();
            rows.topics.remove(exchange);
            assert!(found(&laid, &asked, &rows), "{who}: no row for {exchange}");
        }
    }
}

/// D50
#[test]
fn a_pattern_of_names_that_is_wider_by_one_wildcard_is_found() {
    let (plan, laid) = laid(&some());
    for who in laid.users.keys() {
        let asked = asked(&plan, &laid, who, Extent::Nearest(2));
        let own = Rows::of(&laid, who);
        for wider in [".*", "^node", "^amq\\.gen", "^mesh\\.ev$"] {
            let rows = Rows {
                configure: wider.to_owned(),
                ..own.clone()
            };
            assert!(found(&laid, &asked, &rows), "{who} configures {wider}");
        }
        let without_end = |pattern: &str| pattern.replace("\\z", "");
        for wider in [".*".to_owned(), without_end(&own.read)] {
            let rows = Rows {
                read: wider.clone(),
                ..own.clone()
            };
            assert!(found(&laid, &asked, &rows), "{who} reads {wider}");
        }
        let default = format!("{}|amq\\.default", own.write);
        for wider in [".*".to_owned(), without_end(&own.write), default] {
            let rows = Rows {
                write: wider.clone(),
                ..own.clone()
            };
            assert!(found(&laid, &asked, &rows), "{who} writes {wider}");
        }
    }
}

/// D50
#[test]
fn a_second_key_is_the_brokers_to_refuse_and_before_4_0_3_its_readers() {
    let (plan, mut laid) = laid(&some());
    let node = "node/node1".parse().unwrap();
    for (version, expected) in [
        (BrokerVersion::new(4, 0, 2), Expected::Held),
        (BrokerVersion::PROVES_SENDER, Expected::Refused),
    ] {
        laid.broker.version = version;
        let asked = asked(&plan, &laid, &node, Extent::Whole);
        let copies = asked
            .iter()
            .filter(|probe| matches!(probe.attempt, Attempt::Copy { .. }));
        let found: BTreeSet<Expected> = copies.clone().map(|probe| probe.expected).collect();
        assert_eq!(found, [expected].into(), "{version}");
        let keys = copies.filter_map(|probe| match &probe.attempt {
            Attempt::Copy { to, .. } => Some(to.as_str()),
            _ => None,
        });
        let keys: BTreeSet<&str> = keys.collect();
        for key in ["report.node10", "enrol.t1", "mark"] {
            assert!(keys.contains(key), "{keys:?}");
        }
    }
}

/// D50
#[test]
fn of_each_method_something_is_refused() {
    let (plan, laid) = laid(&some());
    for (who, own, other) in [
        (
            "node/node1",
            Queue::Node("node1".parse().unwrap()),
            "node.node10",
        ),
        (
            "module/w@w",
            Queue::Module("w".parse().unwrap()),
            "ctl.report",
        ),
        (
            "joiner/t1",
            Queue::Answer("t1".parse().unwrap()),
            "ctl.enrol",
        ),
    ] {
        let who = who.parse().unwrap();
        let asked = asked(&plan, &laid, &who, Extent::Nearest(2));
        let refused = asked.iter().filter(|it| it.expected == Expected::Refused);
        let refused: Vec<String> = refused.map(|it| it.attempt.to_string()).collect();
        let source = own.name();
        for what in [
            format!("publish the default exchange \"{other}\""),
            "publish amq.topic \"mesh-probe\"".to_owned(),
            format!("consume {other}"),
            format!("get from {other}"),
            format!("purge {other}"),
            format!("declare queue {source}"),
            format!("delete queue {source}"),
            "declare exchange mesh.ctl".to_owned(),
            "delete exchange mesh-probe".to_owned(),
            format!("bind queue {source} and mesh.ev by \"#\""),
            "bind exchange mesh.ev and mesh.ctl by \"#\"".to_owned(),
        ] {
            assert!(refused.contains(&what), "{who}: {what} in {refused:#?}");
        }
        let unbound = refused.iter().any(|it| it.starts_with("unbind queue"));
        assert!(unbound, "{refused:#?}");
        // Whoever may read a queue could empty it, and that is nothing to try.
        assert!(!refused.contains(&format!("purge {source}")));
    }
}
