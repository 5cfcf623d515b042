//! Cases about what consumers select, and how they are settled.

use std::collections::BTreeSet;

use mesh_derive::Mismatch;
use mesh_model::{AckPolicy, DeliverPolicy, Manifest, Principal, Retention, Selects};

use crate::stage::{
    add_module, consumer, filter, finds, found, manifest, named, plan, plan_of, publishes, records,
    select, spec, stream,
};

/// A consumer's filter grows on an update until it meets another's, on a work queue, and nothing says so.
/// <https://github.com/nats-io/nats-server/issues/4653>
#[test]
fn case_b_f9de940_filters_that_meet_after_a_change_are_found_in_the_whole_that_results() {
    let second = |plan: &mut mesh_derive::Plan, selects| {
        let mut second = spec(plan, "CONTROL/controller").clone();
        second.consumer = consumer("CONTROL/second");
        second.owner = None;
        second.selects = selects;
        plan.consumers.insert(second.consumer.clone(), second);
    };
    let apart = found(|plan| {
        spec(plan, "CONTROL/controller").selects = select(&["mesh.control.report.*"]);
        second(plan, select(&["mesh.control.enrol.*"]));
    });
    let overlaps = |m: &&Mismatch| matches!(m, Mismatch::OverlappingFilters { .. });
    assert_eq!(apart.iter().find(overlaps), None);
    // The same two after one of them was widened.
    let said = "CONTROL/controller: mesh.control.*.* meets mesh.control.enrol.* of CONTROL/second";
    finds(said, |plan| {
        spec(plan, "CONTROL/controller").selects = select(&["mesh.control.*.*"]);
        second(plan, select(&["mesh.control.enrol.*"]));
    });
}

/// Two modules that each want everything of one work queue: the second is refused by the server.
/// <https://github.com/nats-io/nats.c/issues/549>
#[test]
fn case_b_de14aaa_every_follower_has_a_consumer_of_its_own_and_no_work_queue_has_two() {
    let mut records = records();
    for module in ["audit", "copy"] {
        let follows = Manifest {
            follows: [named("shop.sold")].into(),
            ..manifest(module)
        };
        add_module(&mut records, follows, &["node1"]);
    }
    let plan = plan_of(&records);
    assert_eq!(plan.check(&records.bus), vec![]);
    let readers = plan.consumers.values().filter(|spec| {
        let mut selected = spec.selects.filters();
        selected.any(|selects| *selects == filter("mesh.mod.shop.sold"))
    });
    let readers: BTreeSet<_> = readers.map(|spec| spec.consumer.to_string()).collect();
    let expected = ["EVENTS/audit", "EVENTS/clerk", "EVENTS/copy"];
    assert_eq!(readers, expected.map(str::to_owned).into());
    for stream in plan.streams.values() {
        let of = |spec: &&mesh_model::ConsumerSpec| *spec.consumer.stream() == stream.name;
        let readers = plan.consumers.values().filter(of).count();
        assert!(
            stream.retention != Retention::WorkQueue || readers == 1,
            "{}",
            stream.name
        );
    }
    finds(
        "mesh.seat.mail.> meets mesh.seat.mail.> of SEAT-mail/mail",
        |plan| {
            let mut second = spec(plan, "SEAT-mail/mail").clone();
            second.consumer = consumer("SEAT-mail/another");
            plan.consumers.insert(second.consumer.clone(), second);
        },
    );
}

/// A filter with wildcards stands in the create subject, which the grant does not cover.
/// <https://github.com/nats-io/nack/issues/245>
#[test]
fn case_b_595873b_a_filter_with_wildcards_is_covered_as_it_is_written() {
    let plan = plan();
    let controller = &plan.grants[&Principal::Controller];
    let create = "$JS.API.CONSUMER.CREATE.EVENTS.clerk.mesh.*.*.done";
    assert!(publishes(controller, create));
    assert!(publishes(
        controller,
        "$JS.API.CONSUMER.CREATE.NODES.c.mesh.node.*.declare"
    ));
    // What is made of equal records is equal, so making it again changes nothing.
    assert!(plan.diff(&plan_of(&records())).is_empty());
}

/// What is said of the controller's consumer of events, when it selects this, about lying outside its stream.
fn outside(stores: &str, selects: &str) -> Vec<String> {
    let found = found(|plan| {
        stream(plan, "EVENTS").subjects = [filter(stores)].into();
        spec(plan, "EVENTS/controller").selects = select(&[selects]);
    });
    let said = found.iter().map(ToString::to_string);
    let begins = format!("consumer EVENTS/controller: selects {selects}, ");
    said.filter(|said| said.starts_with(&begins) && said.ends_with("select within its subjects"))
        .collect()
}

/// A filter wider than its stream is taken when the consumer is made, and the consumer is gone after a restart.
/// <https://github.com/nats-io/nats-server/issues/2551>
#[test]
fn case_b_621feb0_a_filter_wider_than_its_stream_is_refused() {
    for wider in ["mesh.>", ">", "mesh.*.shop.sold", "mesh.mod.shop.sold.>"] {
        assert_eq!(outside("mesh.mod.shop.sold", wider).len(), 1, "{wider}");
    }
    assert_eq!(outside("mesh.mod.>", "mesh.>").len(), 1);
    assert_eq!(outside("mesh.mod.>", "mesh.mod.shop.>"), [""; 0]);
}

/// A filter that meets its stream's subjects without lying inside them behaves as nobody expects.
/// <https://github.com/nats-io/nats-server/issues/4401>
#[test]
fn case_b_b972096_inside_beside_and_apart_are_told_from_one_another_and_only_inside_is_taken() {
    let (narrow, wide) = (filter("mesh.a.x"), filter("mesh.a.*"));
    let (beside, apart) = (filter("mesh.*.x"), filter("mesh.b.*"));
    assert!(narrow.is_subset_of(&wide) && narrow.overlaps(&wide));
    assert!(!beside.is_subset_of(&wide) && beside.overlaps(&wide));
    assert!(!apart.is_subset_of(&wide) && !apart.overlaps(&wide));
    for (selects, said) in [
        ("mesh.mod.shop.announced", None),
        (
            "mesh.mod.*.announced",
            Some("EVENTS stores only part of that"),
        ),
        ("mesh.mod.clerk.announced", Some("EVENTS does not store")),
    ] {
        let found = outside("mesh.mod.shop.*", selects);
        assert_eq!(found.len(), said.iter().count(), "{selects}: {found:?}");
        let says = |said| found.iter().all(|found| found.contains(said));
        assert!(said.is_none_or(says), "{selects}: {found:?}");
    }
}

/// A consumer that was lost is made again to deliver what is new: what waited meanwhile is skipped.
/// <https://github.com/kyma-project/kyma/issues/14371>
///
/// Held wherever the mesh itself would lose something: declarations, reports, enrolments and work. A module's consumer
/// of events begins with what is new, as a follower that was just declared has to; somebody who deletes it with an
/// operator's tool takes what waited in it along.
#[test]
fn case_b_216f21d_what_reads_a_queue_reads_all_of_it_when_it_is_made_again() {
    let plan = plan();
    for spec in plan.consumers.values() {
        let events = spec.consumer.stream().as_str() == "EVENTS";
        if !events {
            assert_eq!(spec.deliver_policy, DeliverPolicy::All, "{}", spec.consumer);
        }
    }
    let queues = |of: &str| plan.consumers[&consumer(of)].selects == Selects::Everything;
    assert!(queues("CONTROL/controller") && queues("SEAT-mail/mail"));
    // A change of what is declared makes none of them anew: the definition is the same but for its filters.
    let mut records = records();
    let clerk = records.declared.modules.get_mut(&named("clerk")).unwrap();
    clerk.follows.insert(named("shop.announced"));
    let mut changed = plan_of(&records);
    spec(&mut changed, "EVENTS/clerk").selects = select(&["mesh.mod.shop.sold"]);
    assert_eq!(changed.consumers, plan.consumers);
}

/// A worker that crashed with a message in hand: it comes again only after ten minutes.
/// <https://github.com/nats-io/nats-server/issues/4627>
///
/// A node's declaration has five minutes, since carrying one out takes long; one that is lost with its agent is told
/// again within twenty seconds of a heartbeat that lacks it, which the test of the same name in `mesh-control` holds.
#[test]
fn case_b_35543ad_what_a_crashed_reader_held_comes_again_within_a_minute() {
    for spec in plan().consumers.values() {
        let limit = match spec.owner {
            Some(Principal::Node(_)) => 300,
            _ => 60,
        };
        let wait = spec.ack_wait_secs;
        assert!((1..=limit).contains(&wait), "{}: {wait}", spec.consumer);
    }
}

/// Nothing was said of how messages are acknowledged, and 31 s of work was delivered four times in a minute.
/// <https://www.tiarebalbi.com/en/blog/nats-jetstream-ackwait-redelivery-contract-go>
///
/// What the server is told of each is read back from a real one by the test of the same name in `live-tests`.
#[test]
fn case_b_94fb0f8_a_manifest_that_says_nothing_of_acks_gets_all_of_it_stated() {
    let plan = plan();
    for of in [
        "EVENTS/clerk",
        "SEAT-mail/mail",
        "NODES/node1",
        "CONTROL/controller",
    ] {
        let spec = &plan.consumers[&consumer(of)];
        assert_eq!(spec.ack, AckPolicy::Explicit, "{of}");
        assert!(
            spec.ack_wait_secs >= 30,
            "{of}: three times ten seconds, at which work is shown"
        );
        assert!((1..=1000).contains(&spec.max_ack_pending), "{of}");
    }
}

/// An idle consumer stops in silence, and a restart mends it.
/// <https://github.com/nats-io/nats-server/issues/2488>
///
/// The case asks it of pulls; those of the controller have both. A node's consumer is pushed to and says that it is
/// there, and the agent listens again when it does not: `mesh-control` has the test of that.
#[test]
fn case_b_73f2854_a_consumer_that_may_be_idle_says_that_it_is_there() {
    let plan = plan();
    for of in ["NODES/node1", "NODES/node10"] {
        let mesh_model::ConsumerKind::Push {
            idle_heartbeat_secs,
            ..
        } = &plan.consumers[&consumer(of)].kind
        else {
            panic!("{of} pushes");
        };
        assert!(
            idle_heartbeat_secs.is_some_and(|secs| (1..=60).contains(&secs)),
            "{of}"
        );
    }
}

/// After an upgrade, "consumer is already bound to a subscription", for ever.
/// <https://github.com/kyma-project/kyma/issues/15215>
///
/// What the old controller does once the new one is there is held by the test of the same name in `mesh-bus`.
#[test]
fn case_b_2cf2856_what_a_controller_reads_two_may_read_at_once() {
    let plan = plan();
    let own: Vec<_> = plan
        .consumers
        .values()
        .filter(|spec| spec.owner == Some(Principal::Controller))
        .collect();
    assert_eq!(own.len(), 2);
    for spec in own {
        assert_eq!(
            spec.kind,
            mesh_model::ConsumerKind::Pull,
            "{}",
            spec.consumer
        );
    }
}
