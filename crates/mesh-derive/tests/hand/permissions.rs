//! Cases about who may publish and subscribe what.

use mesh_derive::{ApiCall, Share, ack_filters, subject};
use mesh_model::{Principal, Subject};

use crate::stage::{
    consumer, filter, finds, grant, named, others, plan, principal, publishes, push, reaches,
    records, select, spec,
};

/// A grant names the documented API subject, the client uses another, and creating hangs until the deadline.
/// <https://github.com/nats-io/terraform-provider-jetstream/issues/148>
#[test]
fn case_b_493aff5_who_makes_consumers_may_in_either_form_and_what_is_missing_is_named() {
    let plan = plan();
    let controller = &plan.grants[&Principal::Controller];
    for spec in plan.consumers.values() {
        let (stream, name) = (spec.consumer.stream(), spec.consumer.name());
        let create = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}");
        assert!(publishes(controller, &create), "{create}");
        assert!(publishes(controller, &format!("{create}.mesh.mod.a")));
        for one in spec.selects.filters() {
            assert!(publishes(controller, &format!("{create}.{one}")), "{one}");
        }
    }
    let said = "consumer CONTROL/controller: is pull, and controller reaches no API";
    finds(said, |plan| {
        let controller = grant(plan, "controller");
        assert!(controller.publish.remove(&filter("$JS.API.>")));
        let old = filter("$JS.API.CONSUMER.DURABLE.CREATE.CONTROL.controller");
        controller.publish.insert(old);
    });
    // The call that was granted under its old name alone, and how it is asked now.
    let said = "controller: may not use $JS.API.CONSUMER.CREATE.*.*, which it needs";
    finds(said, |plan| {
        let controller = grant(plan, "controller");
        assert!(controller.publish.remove(&filter("$JS.API.>")));
        let others = ApiCall::ALL.map(|call| match call {
            ApiCall::ConsumerCreate => filter("$JS.API.CONSUMER.DURABLE.CREATE.*.*"),
            other => filter(&other.subject("*", "*")),
        });
        controller.publish.extend(others);
    });
    let said = "module/clerk may not publish $JS.ACK.EVENTS.clerk.>";
    finds(said, |plan| {
        let clerk = grant(plan, "module/clerk");
        assert!(clerk.publish.remove(&filter("$JS.ACK.EVENTS.clerk.>")));
    });
}

/// The inbox is missing from a subscribe list, so nothing arrives; with it, the whole stream can be read all the same.
/// <https://github.com/nats-io/nats-server/issues/3819>
#[test]
fn case_b_45a6b67_everybody_hears_their_own_inbox_and_reads_what_their_consumer_selects() {
    let plan = plan();
    for who in plan.users.values() {
        let theirs = &plan.grants[who];
        assert!(theirs.subscribes(&subject::inbox(who), None), "{who}");
        let elsewhere = filter("mesh.inbox.>");
        assert!(!theirs.subscribes(&elsewhere, None), "{who}");
    }
    // No subscription reads a stream: what is read is what a consumer selects, and that is checked.
    for (who, theirs) in others(&plan) {
        assert!(
            !theirs.subscribes(&filter("mesh.mod.shop.sold"), None),
            "{who}"
        );
        assert!(!reaches(theirs, "$JS.API.CONSUMER.MSG.NEXT.>"), "{who}");
    }
    finds("EVENTS/clerk: selects mesh.mod.shop.>", |plan| {
        spec(plan, "EVENTS/clerk").selects = select(&["mesh.mod.shop.>"]);
    });
}

/// A tenant that may make consumers reads other tenants' subjects through a deliver subject of its own.
/// <https://github.com/nats-io/nats-server/issues/3656>
#[test]
fn case_b_da6a777_a_module_that_may_make_consumers_is_refused() {
    for (who, theirs) in others(&plan()) {
        assert!(!reaches(theirs, "$JS.API.CONSUMER.>"), "{who}");
    }
    for too_much in [
        "$JS.API.CONSUMER.CREATE.EVENTS.>",
        "$JS.API.CONSUMER.CREATE.EVENTS.*",
        "$JS.API.CONSUMER.CREATE.EVENTS",
    ] {
        finds("only the controller may ask a server", |plan| {
            let clerk = grant(plan, "module/clerk");
            clerk.publish.insert(filter(too_much));
        });
    }
}

/// A user allowed to read part of a stream makes a wider consumer and reads everything.
/// <https://github.com/nats-io/nats.go/issues/1285>
///
/// The case asks that only consumers inside one's follows can be made; here nobody but the controller makes any, so a
/// filter pinned in the subject is refused like the wider one.
#[test]
fn case_b_c2192fd_no_granted_subject_makes_a_consumer_wider_than_what_is_followed() {
    for entry in [
        "$JS.API.CONSUMER.CREATE.EVENTS.clerk.mesh.mod.shop.sold",
        "$JS.API.CONSUMER.CREATE.EVENTS.clerk.mesh.mod.shop.>",
        "$JS.API.CONSUMER.CREATE.EVENTS.*",
        "$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.clerk",
        "$JS.API.CONSUMER.MSG.NEXT.EVENTS.*",
        "*.API.CONSUMER.CREATE.>",
    ] {
        let said = format!("module/clerk: {entry} meets the server's own subjects");
        finds(&said, |plan| {
            grant(plan, "module/clerk").publish.insert(filter(entry));
        });
    }
    // And none of the consumers that are made is wider.
    finds(
        "selects mesh.mod.>, which module/clerk is not to read",
        |plan| {
            spec(plan, "EVENTS/clerk").selects = select(&["mesh.mod.>"]);
        },
    );
}

/// A push consumer delivers where whoever made it may not publish.
/// <https://github.com/nats-io/nats-server/issues/8274>
///
/// The case prefers pull; here consumers push, since pulling takes the API. Where they push to is derived, a manifest
/// has no such field, and one that lies elsewhere is refused.
#[test]
fn case_b_88cfbe5_a_consumer_that_delivers_outside_its_owners_own_subject_is_refused() {
    for (of, deliver) in [
        ("EVENTS/clerk", "mesh.ctl.apply.node1"),
        ("EVENTS/clerk", "mesh.node.node1.declare"),
        ("EVENTS/clerk", "mesh.control.report.node1"),
        ("EVENTS/clerk", "mesh.deliver.node.node1"),
        ("EVENTS/clerk", "$JS.API.STREAM.DELETE.NODES"),
        ("NODES/node1", "mesh.deliver.node.node10"),
    ] {
        let said = format!("consumer {of}: delivers to {deliver}, which");
        finds(&said, |plan| {
            let spec = spec(plan, of);
            let to: Subject = named(deliver);
            let mesh_model::ConsumerKind::Push { deliver, .. } = &mut spec.kind else {
                panic!("{of} pushes");
            };
            *deliver = to;
        });
    }
}

/// `_INBOX.x.*` does not match the replies of clients that add two tokens, and requests time out.
/// <https://github.com/nats-io/nats-server/issues/662>
#[test]
fn case_b_dee3a29_an_inbox_is_all_below_its_prefix_and_no_other_principals() {
    let plan = plan();
    let of = |who: &str| &plan.grants[&principal(who)];
    for asked in [
        "mesh.inbox.node.node1.nuid.7",
        "mesh.inbox.node.node1.nuid.*",
        "mesh.inbox.node.node1.*",
    ] {
        assert!(of("node/node1").subscribes(&filter(asked), None), "{asked}");
        assert!(
            !of("node/node10").subscribes(&filter(asked), None),
            "{asked}"
        );
    }
    finds("node/node1: a subscribe entry ending in '*'", |plan| {
        let node = grant(plan, "node/node1");
        assert!(node.subscribe.remove(&filter("mesh.inbox.node.node1.>")));
        node.subscribe.insert(filter("mesh.inbox.node.node1.*"));
    });
}

/// A credential may make ordered consumers and not delete them: they leak.
/// <https://github.com/Cotal-AI/Cotal/issues/640>
#[test]
fn case_b_10299b9_who_may_make_a_consumer_may_delete_it_and_nobody_else_may_either() {
    let plan = plan();
    let controller = &plan.grants[&Principal::Controller];
    for spec in plan.consumers.values() {
        let (stream, name) = (spec.consumer.stream(), spec.consumer.name());
        for verb in ["CREATE", "DELETE", "INFO"] {
            let subject = format!("$JS.API.CONSUMER.{verb}.{stream}.{name}");
            assert!(publishes(controller, &subject), "{subject}");
            for (who, theirs) in others(&plan) {
                assert!(!reaches(theirs, &subject), "{who} {subject}");
            }
        }
    }
    for half in ["CREATE", "DELETE"] {
        finds("only the controller may ask a server", |plan| {
            let entry = format!("$JS.API.CONSUMER.{half}.EVENTS.clerk");
            grant(plan, "module/clerk@node1")
                .publish
                .insert(filter(&entry));
        });
    }
}

/// A library makes the stream from every client, which takes broad rights over streams.
/// <https://github.com/dotnetcore/CAP/issues/1545>
///
/// The case leaves a module MSG.NEXT and ACK; here what it hears is pushed, so ACK alone is left.
#[test]
fn case_b_5e9645f_a_module_reads_with_no_right_over_streams() {
    let records = records();
    let plan = plan();
    for (who, theirs) in others(&plan) {
        assert!(!reaches(theirs, "$JS.API.>"), "{who}");
    }
    let clerk = &plan.grants[&principal("module/clerk@node1")];
    for of in ["EVENTS/clerk", "SEAT-mail/mail"] {
        for ack in ack_filters(&consumer(of), &records.bus) {
            assert!(publishes(clerk, ack.as_str()), "{ack}");
        }
        let (deliver, group) = push(&plan.consumers[&consumer(of)]).unwrap();
        assert!(clerk.subscribes(&deliver, group), "{of}");
    }
    finds("only the controller may ask a server", |plan| {
        let entry = filter("$JS.API.STREAM.CREATE.*");
        grant(plan, "module/shop").publish.insert(entry);
    });
}

/// Only the API is imported from another account: consumers are made there and acks never arrive.
/// <https://github.com/nats-io/nats.java/issues/1481>
#[test]
fn case_b_dc55f98_without_a_path_for_acks_between_the_accounts_the_plan_is_refused() {
    finds(
        "no service between the accounts carries $JS.ACK.EVENTS.clerk.>",
        |plan| {
            let acks = Share::Service(filter("$JS.ACK.>"));
            assert!(plan.accounts.mesh_exports.remove(&acks));
            let api = Share::Service(filter("$JS.API.>"));
            plan.accounts.mesh_exports.insert(api);
        },
    );
    finds(
        "no stream between the accounts carries mesh.deliver.module.clerk",
        |plan| {
            let delivers = Share::Stream(filter("mesh.deliver.>"));
            assert!(plan.accounts.mesh_exports.remove(&delivers));
        },
    );
}

/// Members of a queue group subscribe where the consumer delivers to no group, and hear nothing.
/// <https://github.com/nats-io/nats-server/issues/2773>
#[test]
fn case_b_6486e87_the_group_of_a_consumer_is_the_one_its_readers_may_join() {
    let plan = plan();
    for of in ["EVENTS/clerk", "SEAT-mail/mail"] {
        let (deliver, group) = push(&plan.consumers[&consumer(of)]).unwrap();
        let clerk = &plan.grants[&principal("module/clerk")];
        assert!(group.is_some() && clerk.subscribes(&deliver, group), "{of}");
        for wrong in [None, Some("another")] {
            assert!(!clerk.subscribes(&deliver, wrong), "{of} {wrong:?}");
        }
    }
    for (changed, said) in [
        (
            None,
            "is in no group and module/clerk may subscribe it in group \"clerk\"",
        ),
        (
            Some("another"),
            "delivers to group \"another\" and module/clerk may join \"clerk\" only",
        ),
    ] {
        finds(said, |plan| {
            let spec = spec(plan, "EVENTS/clerk");
            let mesh_model::ConsumerKind::Push { group, .. } = &mut spec.kind else {
                panic!("it pushes");
            };
            *group = changed.map(ToOwned::to_owned);
        });
    }
}

/// An empty permission was taken for "everything", or for nothing at all, depending on who reads it.
/// <https://github.com/mosquito/aio-pika/issues/525>
///
/// What is empty says so in every rendering: a deny of everything, never an empty list.
#[test]
fn case_b_245f47b_what_nobody_may_is_written_as_a_refusal_of_everything() {
    let nothing = mesh_derive::render::jwt::user_claims(&mesh_model::Grant::default());
    for side in [&nothing.publish, &nothing.subscribe] {
        assert_eq!(
            (side.allow.len(), side.deny.as_slice()),
            (0, &[">".to_owned()][..])
        );
    }
    let mut plan = plan();
    let deaf = grant(&mut plan, "node/node1");
    deaf.subscribe.clear();
    let users = mesh_derive::render::nats_conf::edge_users(&plan);
    let (_, after) = users.split_once("# node/node1\n").unwrap();
    let (node, _) = after.split_once("# ").unwrap();
    assert!(node.contains("subscribe: { deny: [\">\"] }"), "{node}");
    assert!(!users.contains("[]"), "{users}");
}
