//! Each mistake a server takes without a word, made by hand in a plan that holds, and what the check says of it.

mod definitions;
mod grants;
mod sharing;
mod writes;

use std::collections::BTreeSet;

use mesh_derive::{Bounds, Mismatch, Plan, check, derive};
use mesh_model::{ConsumerKind, Manifest, Records, Selects, StreamName};

use crate::short::{
    add_module, add_node, add_seat, add_token, consumer, empty, filter, manifest, names, principal,
    select, spec,
};

/// Two nodes, one module that emits and one that follows it, sends and holds, and a token.
fn records() -> Records {
    let mut records = empty();
    add_node(&mut records, "web-1");
    add_node(&mut records, "web-2");
    add_seat(&mut records, "mail", Some("mailer"));
    let shop = Manifest {
        emits: names(&["order.placed"]),
        sends_to: names(&["mail"]),
        ..manifest("shop")
    };
    let mailer = Manifest {
        follows: names(&["shop.order.placed"]),
        can_hold: names(&["mail"]),
        ..manifest("mailer")
    };
    add_module(&mut records, shop, &["web-1"]);
    add_module(&mut records, mailer, &["web-1", "web-2"]);
    add_token(&mut records, "t1");
    records
}

fn plan() -> Plan {
    derive(&records(), &Bounds::default())
}

/// What the check says of the plan with one thing done to it.
fn found(mistake: impl FnOnce(&mut Plan)) -> Vec<Mismatch> {
    let mut plan = plan();
    mistake(&mut plan);
    plan.check(&records().bus)
}

fn says(mistake: impl FnOnce(&mut Plan), expected: &[&str]) {
    let found: Vec<String> = found(mistake).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

/// D10
#[test]
fn a_consumer_named_otherwise_cannot_acknowledge() {
    let mut plan = plan();
    let mut wrong = spec(&mut plan, "NODES/web-1").clone();
    wrong.consumer = consumer("NODES/web-1-declare");
    let grant = &plan.grants[&principal("node/web-1")];
    assert_eq!(
        check(&wrong, grant, &records().bus),
        Err(Mismatch::CannotAck {
            consumer: consumer("NODES/web-1-declare"),
            owner: principal("node/web-1"),
            missing: filter("$JS.ACK.NODES.web-1-declare.>"),
        })
    );
}

/// D10
#[test]
fn a_grant_with_only_one_form_of_ack_is_not_enough() {
    for form in ["$JS.ACK.NODES.web-1.>", "$JS.ACK._.znJdjy7f.NODES.web-1.>"] {
        let mut plan = plan();
        let grant = plan.grants.get_mut(&principal("node/web-1")).unwrap();
        assert!(grant.publish.remove(&filter(form)));
        assert!(matches!(
            plan.check(&records().bus).as_slice(),
            [Mismatch::CannotAck { missing, .. }] if *missing == filter(form)
        ));
    }
}

/// D11
#[test]
fn a_consumer_that_selects_anothers_messages_is_refused() {
    for selects in [
        Selects::Everything,
        select(&["mesh.node.web-2.declare"]),
        select(&["mesh.node.*.declare"]),
        select(&["mesh.node.web-1.declare", "mesh.node.web-2.declare"]),
    ] {
        let mut plan = plan();
        let mut wrong = spec(&mut plan, "NODES/web-1").clone();
        wrong.selects = selects;
        let grant = &plan.grants[&principal("node/web-1")];
        assert!(
            matches!(
                check(&wrong, grant, &records().bus),
                Err(Mismatch::ReadsAnothers { .. })
            ),
            "{:?}",
            wrong.selects
        );
    }
}

/// D11
#[test]
fn a_module_that_selects_what_it_does_not_follow_is_refused() {
    says(
        |plan| {
            spec(plan, "EVENTS/mailer").selects =
                select(&["mesh.mod.shop.order.placed", "mesh.mod.shop.announced"]);
        },
        &[
            "consumer EVENTS/mailer: selects mesh.mod.shop.announced, which module/mailer is not to read; select what \
             was declared for module/mailer and nothing else",
        ],
    );
}

/// D11
#[test]
fn a_filter_that_misses_what_is_followed_is_refused() {
    says(
        |plan| spec(plan, "EVENTS/mailer").selects = select(&["mesh.mod.shop.order"]),
        &[
            "consumer EVENTS/mailer: selects mesh.mod.shop.order, which module/mailer is not to read; select what was \
             declared for module/mailer and nothing else",
            "module/mailer: no consumer of its own selects mesh.mod.shop.order.placed; add it to the filters of the one \
             it reads through",
        ],
    );
}

/// D12
#[test]
fn a_pull_consumer_cannot_be_bound_by_who_reaches_no_api() {
    for of in ["NODES/web-1", "EVENTS/mailer", "SEAT-mail/mail"] {
        let mut plan = plan();
        let mut wrong = spec(&mut plan, of).clone();
        wrong.kind = ConsumerKind::Pull;
        let owner = wrong.owner.clone().unwrap();
        let mut grant = plan.grants[&owner].clone();
        let expected = Err(Mismatch::PullCannotBind {
            consumer: consumer(of),
            owner: owner.clone(),
        });
        assert_eq!(check(&wrong, &grant, &records().bus), expected);
        // Nor by granting the API: there is none in its account.
        grant.publish.insert(filter("$JS.API.>"));
        assert_eq!(check(&wrong, &grant, &records().bus), expected);
    }
}

/// D13
#[test]
fn a_deliver_subject_its_owner_may_not_subscribe_is_refused() {
    says(
        |plan| {
            let ConsumerKind::Push { deliver, .. } = &mut spec(plan, "NODES/web-1").kind else {
                panic!("nodes are pushed to");
            };
            *deliver = "mesh.deliver.node.web-11".parse().unwrap();
        },
        &[
            "consumer NODES/web-1: delivers to mesh.deliver.node.web-11, which node/web-1 may not subscribe; grant it, \
             or deliver where node/web-1 listens",
            "node/web-1: may subscribe mesh.deliver.node.web-1, where nothing is delivered and nobody is answered; take it \
             out of the grant",
        ],
    );
}

fn regroup(plan: &mut Plan, of: &str, to: Option<&str>) {
    let ConsumerKind::Push { group, .. } = &mut spec(plan, of).kind else {
        panic!("{of} is pushed to");
    };
    *group = to.map(ToOwned::to_owned);
}

/// D14
#[test]
fn a_group_only_one_side_names_is_refused() {
    says(
        |plan| regroup(plan, "SEAT-mail/mail", None),
        &[
            "consumer SEAT-mail/mail: mesh.deliver.seat.mail is in no group and module/mailer may subscribe it in group \
             \"mail\"; give both the same group",
        ],
    );
    says(
        |plan| regroup(plan, "NODES/web-1", Some("web-1")),
        &[
            "consumer NODES/web-1: mesh.deliver.node.web-1 is in group \"web-1\" and node/web-1 may subscribe it in no \
             group; give both the same group",
            "consumer NODES/web-1: has an idle heartbeat and a group, whose members share it; leave it out, which takes \
             making it anew",
        ],
    );
}

/// D14
#[test]
fn groups_that_differ_are_refused() {
    says(
        |plan| regroup(plan, "SEAT-mail/mail", Some("post")),
        &[
            "consumer SEAT-mail/mail: delivers to group \"post\" and module/mailer may join \"mail\" only; give both \
             the same group",
        ],
    );
}

/// D15
#[test]
fn a_filter_outside_its_stream_is_refused_and_so_is_an_empty_list() {
    let outside = found(|plan| {
        spec(plan, "EVENTS/controller").selects = select(&["mesh.node.web-1.declare"]);
    });
    assert!(outside.contains(&Mismatch::FilterOutsideStream {
        consumer: consumer("EVENTS/controller"),
        filter: filter("mesh.node.web-1.declare"),
    }));
    let empty = found(|plan| spec(plan, "EVENTS/mailer").selects = select(&[]));
    assert!(empty.contains(&Mismatch::EmptyFilter {
        consumer: consumer("EVENTS/mailer"),
    }));
}

/// D15
#[test]
fn a_consumer_of_no_stream_is_refused() {
    says(
        |plan| drop(plan.streams.remove(&StreamName::new("SEAT-mail").unwrap())),
        &[
            "module/mailer: no consumer of its own selects mesh.seat.mail.>; add it to the filters of the one it reads \
             through",
            "consumer SEAT-mail/mail: there is no stream SEAT-mail; derive it, or leave the consumer out",
            "module/shop: may publish mesh.seat.mail.shop, and nobody hears it; derive the stream or consumer it is for, or \
             take it out of the grant",
        ],
    );
}

/// D16
#[test]
fn two_readers_of_one_work_queue_are_refused() {
    let found = found(|plan| {
        let mut second = spec(plan, "CONTROL/controller").clone();
        second.consumer = consumer("CONTROL/second");
        second.owner = None;
        second.selects = select(&["mesh.control.report.>"]);
        plan.consumers.insert(second.consumer.clone(), second);
    });
    assert_eq!(
        found,
        vec![Mismatch::OverlappingFilters {
            consumer: consumer("CONTROL/controller"),
            filter: filter("mesh.control.>"),
            with: consumer("CONTROL/second"),
            met: filter("mesh.control.report.>"),
        }]
    );
}

/// D16
#[test]
fn a_filter_inside_another_of_the_same_consumer_is_refused() {
    let found = found(|plan| {
        spec(plan, "EVENTS/mailer").selects =
            select(&["mesh.mod.shop.order.placed", "mesh.mod.shop.>"]);
    });
    assert!(found.contains(&Mismatch::OverlappingFilters {
        consumer: consumer("EVENTS/mailer"),
        filter: filter("mesh.mod.shop.order.placed"),
        with: consumer("EVENTS/mailer"),
        met: filter("mesh.mod.shop.>"),
    }));
}

/// D17
#[test]
fn streams_that_store_the_same_or_the_servers_own_subjects_are_refused() {
    for (subject, expected) in [
        (
            "mesh.mod.shop.>",
            "stream EVENTS: stores mesh.mod.>, and PARKED stores mesh.mod.shop.>",
        ),
        (
            "mesh.*.shop.>",
            "stream EVENTS: stores mesh.mod.>, and PARKED stores mesh.*.shop.>",
        ),
        (
            "$JS.>",
            "stream PARKED: $JS.> meets the server's own subjects",
        ),
        (
            "mesh.deliver.node.>",
            "consumer NODES/web-1: delivers to mesh.deliver.node.web-1, which stream PARKED stores",
        ),
    ] {
        let found = found(|plan| {
            let parked = plan.streams.get_mut(&StreamName::new("PARKED").unwrap());
            parked.unwrap().subjects.insert(filter(subject));
        });
        assert!(
            found.iter().any(|m| m.to_string().starts_with(expected)),
            "{subject}: {found:?}"
        );
    }
}

/// D09
#[test]
fn more_consumers_than_a_stream_may_have_are_refused() {
    says(
        |plan| {
            let nodes = plan.streams.get_mut(&StreamName::new("NODES").unwrap());
            nodes.unwrap().max_consumers = 1;
        },
        &["stream NODES: would have 2 consumers and may have 1; raise max_consumers"],
    );
}

/// D02
#[test]
fn the_plan_the_mistakes_are_made_in_holds() {
    assert_eq!(found(|_| ()), vec![]);
    assert!(!plan().consumers.is_empty());
    let owners: BTreeSet<_> = plan()
        .consumers
        .into_values()
        .map(|spec| spec.owner)
        .collect();
    assert_eq!(owners.len(), 4);
}
