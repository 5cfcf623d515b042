//! Mistakes in what somebody may say and hear: too little, too much, and what nobody hears.

use mesh_derive::{GrantFault, Mismatch};
use mesh_model::{Grant, Principal, QueueSubscription, StreamName};

use super::{consumer, filter, found, principal};

/// What is found with the grant of somebody changed.
fn with(who: &str, mistake: impl FnOnce(&mut Grant)) -> Vec<Mismatch> {
    found(|plan| mistake(plan.grants.get_mut(&principal(who)).unwrap()))
}

fn without(who: &str, entry: &str) -> Vec<Mismatch> {
    with(who, |grant| {
        let entry = filter(entry);
        assert!(grant.publish.remove(&entry) || grant.subscribe.remove(&entry));
    })
}

/// D37
#[test]
fn whoever_may_not_say_what_it_always_says_is_named() {
    for (who, entry) in [
        ("node/web-1", "mesh.control.report.web-1"),
        ("node/web-1", "mesh.heartbeat.web-1"),
        ("joiner/t1", "mesh.control.enrol.t1"),
    ] {
        let expected = GrantFault::CannotSay {
            principal: principal(who),
            filter: filter(entry),
        };
        assert_eq!(without(who, entry), [Mismatch::Grant(expected)]);
    }
    // Its instances have it still.
    let found = without("module/shop", "mesh.mod.shop.announced");
    let expected = GrantFault::CannotSay {
        principal: principal("module/shop"),
        filter: filter("mesh.mod.shop.announced"),
    };
    assert!(found.contains(&Mismatch::Grant(expected)), "{found:?}");
}

/// D37
#[test]
fn whoever_may_not_hear_its_answers_is_named() {
    for (who, inbox) in [
        ("node/web-1", "mesh.inbox.node.web-1.>"),
        ("joiner/t1", "mesh.inbox.joiner.t1.>"),
        ("module/mailer@web-2", "mesh.inbox.module.mailer.web-2.>"),
    ] {
        let expected = GrantFault::NoInbox {
            principal: principal(who),
            filter: filter(inbox),
        };
        assert_eq!(without(who, inbox), [Mismatch::Grant(expected)]);
    }
}

/// D37
#[test]
fn an_instance_has_what_its_module_has_and_an_inbox() {
    let (who, of) = ("module/mailer@web-2", || "mailer".parse().unwrap());
    let less = |filter| {
        Mismatch::Grant(GrantFault::LessThanModule {
            principal: principal(who),
            module: of(),
            filter,
        })
    };
    let more = |filter| {
        Mismatch::Grant(GrantFault::MoreThanModule {
            principal: principal(who),
            module: of(),
            filter,
        })
    };
    for entry in ["mesh.mod.mailer.announced", "$JS.ACK.SEAT-mail.mail.>"] {
        assert_eq!(without(who, entry), [less(filter(entry))]);
    }
    let found = with(who, |grant| {
        let seat = filter("mesh.deliver.seat.mail");
        grant.queues.retain(|allowed| allowed.filter != seat);
    });
    assert_eq!(found, [less(filter("mesh.deliver.seat.mail"))]);
    let extra = filter("mesh.mod.mailer.sent");
    let found = with(who, |grant| assert!(grant.publish.insert(extra.clone())));
    assert_eq!(found, [more(extra)]);
    let extra = QueueSubscription {
        filter: filter("mesh.deliver.seat.mail"),
        queue: "other".parse().unwrap(),
    };
    let found = with(who, |grant| assert!(grant.queues.insert(extra.clone())));
    assert!(found.contains(&more(extra.filter)), "{found:?}");
}

/// D37
#[test]
fn an_instance_whose_module_has_no_grant_is_named() {
    let found = found(|plan| drop(plan.grants.remove(&principal("module/shop"))));
    let expected = Mismatch::NoGrant {
        principal: principal("module/shop"),
    };
    assert_eq!(found, [expected]);
}

/// D37
#[test]
fn a_module_names_each_subject_that_it_says() {
    for entry in ["mesh.seat.*.shop", "mesh.mod.shop.>", "mesh.mod.shop.*"] {
        let found = with("module/shop", |grant| {
            assert!(grant.publish.insert(filter(entry)));
        });
        let expected = GrantFault::ManySubjects {
            principal: principal("module/shop"),
            filter: filter(entry),
        };
        assert!(found.contains(&Mismatch::Grant(expected)), "{found:?}");
    }
}

/// D37
#[test]
fn what_nobody_hears_is_named() {
    for (who, entry) in [
        ("module/shop", "mesh.seat.post.shop"),
        ("module/shop@web-1", "mesh.seat.post.shop"),
        ("node/web-1", "$JS.ACK.NODES.web-3.>"),
        ("node/web-1", "$JS.ACK._.znJdjy7f.EVENTS.web-1.>"),
        ("module/shop", "$JS.ACK.EVENTS.shop.>"),
    ] {
        let found = with(who, |grant| assert!(grant.publish.insert(filter(entry))));
        let expected = GrantFault::Unheard {
            principal: principal(who),
            filter: filter(entry),
        };
        assert!(
            found.contains(&Mismatch::Grant(expected)),
            "{who} {entry}: {found:?}"
        );
    }
}

/// D37
#[test]
fn what_a_stream_stored_and_stores_no_longer_is_named() {
    let found = found(|plan| {
        let control = StreamName::new("CONTROL").unwrap();
        let control = plan.streams.get_mut(&control).unwrap();
        control.subjects = [filter("mesh.control.enrol.>")].into();
    });
    let unheard = found.into_iter().filter_map(|mismatch| match mismatch {
        Mismatch::Grant(GrantFault::Unheard { principal, .. }) => Some(principal),
        _ => None,
    });
    let nodes = ["node/web-1", "node/web-2"].map(principal);
    assert_eq!(unheard.collect::<Vec<_>>(), nodes);
}

/// D37
#[test]
fn acks_of_a_consumer_that_is_gone_are_named() {
    let found = found(|plan| drop(plan.consumers.remove(&consumer("NODES/web-1"))));
    for ack in ["$JS.ACK.NODES.web-1.>", "$JS.ACK._.znJdjy7f.NODES.web-1.>"] {
        let expected = GrantFault::Unheard {
            principal: principal("node/web-1"),
            filter: filter(ack),
        };
        assert!(found.contains(&Mismatch::Grant(expected)), "{found:?}");
    }
}

/// D37
#[test]
fn where_nothing_is_heard_is_named() {
    for (who, entry) in [
        ("node/web-1", "mesh.deliver.node.web-3"),
        ("joiner/t1", "mesh.deliver.seat.post"),
        ("module/shop@web-1", "mesh.inbox.module.shop.web-3.>"),
    ] {
        let found = with(who, |grant| assert!(grant.subscribe.insert(filter(entry))));
        let expected = GrantFault::HearsNothing {
            principal: principal(who),
            filter: filter(entry),
        };
        assert!(
            found.contains(&Mismatch::Grant(expected)),
            "{who} {entry}: {found:?}"
        );
    }
}

/// D06 D07
#[test]
fn nobody_publishes_where_it_is_itself_the_one_to_listen() {
    let found = with("node/web-2", |grant| {
        let own = ["mesh.deliver.node.web-2", "mesh.inbox.node.web-2.>"];
        grant.publish.extend(own.map(filter));
    });
    let deliver = Mismatch::DeliverPublishable {
        principal: principal("node/web-2"),
        by: filter("mesh.deliver.node.web-2"),
        consumer: consumer("NODES/web-2"),
        deliver: filter("mesh.deliver.node.web-2"),
    };
    assert!(found.contains(&deliver), "{found:?}");
    let inbox = Mismatch::AnswersAnothers {
        principal: principal("node/web-2"),
        by: filter("mesh.inbox.node.web-2.>"),
        inbox: filter("mesh.inbox.node.web-2.>"),
        of: Principal::Node("web-2".parse().unwrap()),
    };
    assert!(found.contains(&inbox), "{found:?}");
}
