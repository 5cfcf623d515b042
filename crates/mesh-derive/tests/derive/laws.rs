//! The laws: equal bytes whatever the order, monotone, minimal, closed, disjoint.

use std::collections::BTreeSet;

use mesh_derive::{Bounds, Plan, ack_filters, derive, render};
use mesh_model::{ConsumerKind, Filter, Grant, Manifest, Principal, Records};
use proptest::prelude::*;

use crate::common::{add_module, add_node, add_seat, empty, manifest, names, records, user_key};
use crate::operations::operations;

fn plan(records: &Records) -> Plan {
    derive(records, &Bounds::default())
}

fn bytes(plan: &Plan) -> [String; 4] {
    [
        render::nats_conf::edge_users(plan),
        render::nats_conf::accounts(plan, &user_key("controller"), &user_key("system")),
        render::json(plan).to_string(),
        render::table(plan),
    ]
}

/// The same records, put together from the last to the first.
fn backwards(records: &Records) -> Records {
    fn turned<K: Ord + Clone, V: Clone>(
        map: &std::collections::BTreeMap<K, V>,
    ) -> std::collections::BTreeMap<K, V> {
        let mut new = std::collections::BTreeMap::new();
        for (key, value) in map.iter().rev() {
            new.insert(key.clone(), value.clone());
        }
        new
    }
    let mut new = records.clone();
    new.nodes = turned(&records.nodes);
    new.tokens = turned(&records.tokens);
    new.instances = turned(&records.instances);
    new.declared.modules = turned(&records.declared.modules);
    new.declared.seats = turned(&records.declared.seats);
    new
}

/// A grant without one of its entries, for each of them.
fn without_one(grant: &Grant) -> Vec<(String, Grant)> {
    let mut all = Vec::new();
    for entry in &grant.publish {
        let mut less = grant.clone();
        less.publish.remove(entry);
        all.push((format!("publish {entry}"), less));
    }
    for entry in &grant.subscribe {
        let mut less = grant.clone();
        less.subscribe.remove(entry);
        all.push((format!("subscribe {entry}"), less));
    }
    for entry in &grant.queues {
        let mut less = grant.clone();
        less.queues.remove(entry);
        all.push((format!("join {entry:?}"), less));
    }
    all
}

fn module_of(principal: &Principal) -> Option<&mesh_model::ModuleName> {
    match principal {
        Principal::Module(module) => Some(module),
        Principal::Instance(of) => Some(&of.module),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// D01
    #[test]
    fn equal_records_give_equal_bytes_in_whatever_order_they_came(records in records()) {
        let (plan, turned) = (plan(&records), plan(&backwards(&records)));
        prop_assert_eq!(bytes(&plan), bytes(&turned));
        prop_assert!(plan.diff(&turned).is_empty());
    }

    /// D02
    #[test]
    fn whatever_is_declared_gives_a_plan_that_holds(records in records()) {
        prop_assert_eq!(plan(&records).check(&records.bus), vec![]);
    }

    /// D03
    #[test]
    fn every_grant_allows_all_its_owner_does(records in records()) {
        for (principal, grant) in &plan(&records).grants {
            for operation in operations(&records, principal) {
                prop_assert!(operation.is_allowed(grant), "{principal}: {operation:?}");
            }
        }
    }

    /// D04
    #[test]
    fn without_any_one_entry_its_owner_fails_at_something(records in records()) {
        for (principal, grant) in &plan(&records).grants {
            let does = operations(&records, principal);
            for (entry, less) in without_one(grant) {
                prop_assert!(
                    does.iter().any(|operation| !operation.is_allowed(&less)),
                    "{principal} does not need {entry}"
                );
            }
        }
    }

    /// D05
    #[test]
    fn another_module_never_changes_what_others_may(
        records in records(),
        emits in any::<bool>(),
        holds in any::<bool>(),
    ) {
        let before = plan(&records);
        let mut more = records.clone();
        add_seat(&mut more, "new-seat", holds.then_some("new"));
        let new = Manifest {
            emits: if emits { names(&["made"]) } else { BTreeSet::new() },
            can_hold: more.declared.seats.keys().cloned().collect(),
            sends_to: more.declared.seats.keys().cloned().collect(),
            ..manifest("new")
        };
        let on: Vec<&str> = records.nodes.keys().map(mesh_model::NodeName::as_str).collect();
        add_module(&mut more, new, &on);
        let after = plan(&more);
        for (principal, grant) in &before.grants {
            prop_assert_eq!(Some(grant), after.grants.get(principal), "{}", principal);
        }
    }

    /// D06
    #[test]
    fn nobody_reaches_what_is_anothers_alone(records in records()) {
        let plan = plan(&records);
        for spec in plan.consumers.values() {
            let acks = ack_filters(&spec.consumer, &records.bus);
            let ConsumerKind::Push { deliver, .. } = &spec.kind else { continue };
            let deliver: Filter = deliver.into();
            for (principal, grant) in &plan.grants {
                for by in &grant.publish {
                    prop_assert!(!by.overlaps(&deliver), "{principal} may deliver {deliver}");
                }
                let same_module = spec.owner.as_ref().and_then(module_of);
                if Some(principal) == spec.owner.as_ref()
                    || (same_module.is_some() && module_of(principal) == same_module)
                {
                    continue;
                }
                for ack in &acks {
                    let met = grant.publish.iter().any(|by| by.overlaps(ack));
                    prop_assert!(!met, "{principal} may settle {}", spec.consumer);
                }
                let hears = grant.subscribe.iter().chain(grant.queues.iter().map(|q| &q.filter));
                for by in hears {
                    prop_assert!(!by.overlaps(&deliver), "{principal} may read {}", spec.consumer);
                }
            }
        }
    }

    /// D07
    #[test]
    fn an_inbox_is_its_owners_alone(records in records()) {
        let plan = plan(&records);
        for of in plan.users.values() {
            let inbox = mesh_derive::subject::inbox(of);
            for (principal, grant) in plan.grants.iter().filter(|(principal, _)| *principal != of) {
                let hears = grant.subscribe.iter().chain(grant.queues.iter().map(|q| &q.filter));
                for by in hears {
                    prop_assert!(!by.overlaps(&inbox), "{principal} may hear {of}");
                }
                if *principal != Principal::Controller {
                    let met = grant.publish.iter().any(|by| by.overlaps(&inbox));
                    prop_assert!(!met, "{principal} may answer {of}");
                }
            }
        }
    }

    /// D08
    #[test]
    fn nobody_but_the_controller_reaches_the_api(records in records()) {
        let server: [Filter; 2] = ["$JS.API.>", "$SYS.>"].map(|text| text.parse().unwrap());
        for (principal, grant) in &plan(&records).grants {
            if *principal != Principal::Controller {
                for by in &grant.publish {
                    prop_assert!(!server.iter().any(|s| s.overlaps(by)), "{principal}: {by}");
                }
            }
        }
    }

    /// D09
    #[test]
    fn every_stream_says_how_many_consumers_it_may_have(records in records()) {
        for stream in plan(&records).streams.values() {
            prop_assert!(stream.max_consumers > 0, "{}", stream.name);
        }
    }
}

/// D06
#[test]
fn a_node_named_like_a_sequence_or_the_start_of_another_is_only_itself() {
    let mut records = empty();
    for node in ["5", "node1", "node10"] {
        add_node(&mut records, node);
    }
    add_seat(&mut records, "w", None);
    let plan = plan(&records);
    let of = |node: &str| &plan.grants[&Principal::Node(node.parse().unwrap())];
    for (node, subject, allowed) in [
        ("5", "$JS.ACK.NODES.5.1.4.3.0.0", true),
        ("5", "$JS.ACK._.znJdjy7f.NODES.5.1.4.3.0.0", true),
        ("5", "$JS.ACK.SEAT-w.w.NODES.5.5.0.0", false),
        ("5", "$JS.ACK.SEAT.w.NODES.5.5.0.0", false),
        ("node1", "$JS.ACK.NODES.node10.1.4.3.0.0", false),
        ("node1", "mesh.control.report.node10", false),
        ("node10", "mesh.control.report.node1", false),
    ] {
        let subject = subject.parse().unwrap();
        assert_eq!(of(node).publishes(&subject), allowed, "{node} {subject}");
    }
    for (node, filter, allowed) in [
        ("node1", "mesh.deliver.node.node1", true),
        ("node1", "mesh.deliver.node.node10", false),
        ("node1", "mesh.deliver.node.*", false),
        ("node1", "mesh.inbox.node.node10.x.*", false),
        ("node1", ">", false),
    ] {
        let filter = filter.parse().unwrap();
        assert_eq!(
            of(node).subscribes(&filter, None),
            allowed,
            "{node} {filter}"
        );
    }
}
