//! What is said of logs: a node says its own, the controller alone asks and hears.

use std::collections::BTreeSet;

use mesh_derive::topology::{
    BrokerFacts, BrokerVersion, Queue, QueueKind, Topology, TopologyFault, topology,
};
use mesh_derive::{Bounds, Plan, derive, subject};
use mesh_model::{Filter, Principal, Records};
use proptest::prelude::*;

use crate::common::records;

fn on_both(records: &Records) -> (Plan, Topology) {
    let plan = derive(records, &Bounds::default());
    let broker = BrokerFacts {
        vhost: "mesh".to_owned(),
        version: BrokerVersion::PROVES_SENDER,
        queues: QueueKind::Quorum,
        users: String::new(),
    };
    let laid = topology(&plan, &Bounds::default(), &broker);
    (plan, laid)
}

proptest! {
    /// D80
    #[test]
    fn what_of_a_log_a_node_says_is_its_own_and_the_controller_alone_hears_it(records in records()) {
        let (plan, laid) = on_both(&records);
        for (who, grant) in &plan.grants {
            for node in records.nodes.keys() {
                let log = subject::log(node);
                let may = grant.publishes(&log);
                prop_assert_eq!(may, *who == Principal::Node(node.clone()), "{} {}", who, log);
                let hears = grant.subscribes(&Filter::from(log), None);
                prop_assert_eq!(hears, *who == Principal::Controller, "{}", who);
            }
        }
        for (who, rights) in &laid.users {
            prop_assert_eq!(rights.may_read("ctl.log"), *who == Principal::Controller, "{}", who);
            for node in records.nodes.keys() {
                let may = rights.may_publish("mesh.beat", &format!("log.{node}"));
                prop_assert_eq!(may, *who == Principal::Node(node.clone()), "{} {}", who, node);
            }
        }
    }

    /// D81
    #[test]
    fn what_a_node_is_asked_the_controller_alone_says_and_the_node_alone_hears(records in records()) {
        let (plan, laid) = on_both(&records);
        for node in records.nodes.keys() {
            let (ask, itself) = (subject::ask(node), Principal::Node(node.clone()));
            for (who, grant) in &plan.grants {
                prop_assert_eq!(grant.publishes(&ask), *who == Principal::Controller, "{}", who);
                let hears = grant.subscribes(&Filter::from(ask.clone()), None);
                prop_assert_eq!(hears, *who == itself, "{} {}", who, ask);
            }
            let (queue, key) = (format!("ask.{node}"), format!("ask.{node}"));
            for (who, rights) in &laid.users {
                prop_assert_eq!(rights.may_read(&queue), *who == itself, "{} {}", who, queue);
                let says = rights.may_publish("mesh.decl", &key);
                prop_assert_eq!(says, *who == Principal::Controller, "{} {}", who, key);
            }
        }
        let asked: BTreeSet<&Queue> =
            laid.queues.keys().filter(|queue| matches!(queue, Queue::Ask(_))).collect();
        prop_assert_eq!(asked.len(), records.nodes.len(), "one queue for each node there is");
    }
}

/// D81
#[test]
fn whoever_reads_what_another_node_is_asked_is_found() {
    let mut records = crate::common::empty();
    crate::common::add_node(&mut records, "n1");
    crate::common::add_node(&mut records, "n2");
    let (_, mut laid) = on_both(&records);
    let (reader, other) = (
        Principal::Node("n1".parse().unwrap()),
        Queue::Ask("n2".parse().unwrap()),
    );
    let rights = laid.users.get_mut(&reader).unwrap();
    rights.read.insert(other.clone());
    let expected = TopologyFault::ReadsAnothers {
        principal: reader,
        queue: other,
    };
    assert_eq!(laid.check(), [expected]);
}

/// D80
#[test]
fn what_is_said_for_now_waits_for_nobody_for_long_and_in_little_room() {
    let (_, laid) = on_both(&crate::common::empty());
    for (queue, what) in [(Queue::Logs, "max-length-bytes"), (ask(), "max-length")] {
        let settings = laid.policies[&queue.class()].settings();
        assert_eq!(settings["message-ttl"], 10_000, "{queue}");
        assert_eq!(settings["overflow"], "drop-head", "{queue}");
        assert!(settings.contains_key(what), "{queue}");
        assert!(!settings.contains_key("expires"), "{queue}");
    }
}

fn ask() -> Queue {
    Queue::Ask("n1".parse().unwrap())
}
