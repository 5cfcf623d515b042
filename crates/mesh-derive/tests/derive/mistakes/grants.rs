//! Mistakes in grants, keys, and what the accounts share.

use mesh_derive::{Bounds, Mismatch, Share, derive};
use mesh_model::QueueSubscription;

use super::{consumer, filter, found, principal, records};
use crate::common::add_node;

/// D18
#[test]
fn what_does_not_cross_between_the_accounts_is_refused() {
    let unshared =
        |share: Share| found(move |plan| assert!(plan.accounts.mesh_exports.remove(&share)));
    let acks = unshared(Share::Service(filter("$JS.ACK.>")));
    assert!(acks.iter().any(|m| matches!(m, Mismatch::NoAckPath { .. })));
    let delivers = unshared(Share::Stream(filter("mesh.deliver.>")));
    assert!(
        delivers
            .iter()
            .any(|m| matches!(m, Mismatch::NoDeliverPath { .. }))
    );
    let inboxes = unshared(Share::Stream(filter("mesh.inbox.>")));
    assert!(inboxes.contains(&Mismatch::NoPath {
        principal: principal("joiner/t1"),
        filter: filter("mesh.inbox.joiner.t1.>"),
    }));
    let beats = found(|plan| plan.accounts.edge_exports.clear());
    assert!(beats.contains(&Mismatch::NoPath {
        principal: principal("node/web-1"),
        filter: filter("mesh.heartbeat.web-1"),
    }));
}

/// Whose grant, which side, the entry too many, and what is said of it.
const TRESPASSES: [(&str, &str, &str, &str); 15] = [
    (
        "node/web-2",
        "publish",
        "mesh.control.report.web-1",
        "may publish mesh.control.report.web-1, and so speak as somebody else",
    ),
    (
        "node/web-2",
        "publish",
        "mesh.heartbeat.*",
        "may publish mesh.heartbeat.*, and so speak as somebody else",
    ),
    (
        "node/web-2",
        "publish",
        "mesh.mod.shop.order.placed",
        "may publish mesh.mod.shop.order.placed, and so speak as somebody else",
    ),
    (
        "node/web-2",
        "publish",
        "mesh.node.web-2.declare",
        "may publish mesh.node.web-2.declare, and so speak as somebody else",
    ),
    (
        "joiner/t1",
        "publish",
        "mesh.control.enrol.*",
        "may publish mesh.control.enrol.*, and so speak as somebody else",
    ),
    (
        "node/web-2",
        "publish",
        "mesh.deliver.node.web-1",
        "may publish mesh.deliver.node.web-1",
    ),
    (
        "node/web-2",
        "publish",
        "$JS.ACK.NODES.*.>",
        "meets $JS.ACK.NODES.web-1.> of consumer NODES/web-1",
    ),
    (
        "node/web-2",
        "publish",
        "$JS.ACK.*.*.NODES.web-2.>",
        "meets $JS.ACK.NODES.web-1.> of consumer NODES/web-1",
    ),
    (
        "node/web-2",
        "publish",
        "$JS.API.CONSUMER.CREATE.NODES.>",
        "only the controller may ask",
    ),
    (
        "node/web-2",
        "publish",
        "mesh.inbox.joiner.t1.answer",
        "meets the inbox mesh.inbox.joiner.t1.>",
    ),
    (
        "node/web-2",
        "subscribe",
        "mesh.deliver.node.*",
        "ending in '*'",
    ),
    (
        "node/web-2",
        "subscribe",
        "mesh.deliver.>",
        "meets mesh.deliver.node.web-1 of consumer NODES/web-1",
    ),
    (
        "module/shop@web-1",
        "subscribe",
        "mesh.inbox.module.mailer.>",
        "of module/mailer@web-1",
    ),
    (
        "module/shop@web-1",
        "join",
        "mesh.deliver.seat.mail",
        "of consumer SEAT-mail/mail",
    ),
    (
        "node/web-2",
        "publish",
        "mesh.node.web-2.declare",
        "nothing between the accounts carries",
    ),
];

/// D06 D07 D08 D19
#[test]
fn an_entry_too_many_is_refused() {
    for (who, side, entry, expected) in TRESPASSES {
        let found = found(|plan| {
            let grant = plan.grants.get_mut(&principal(who)).unwrap();
            match side {
                "publish" => grant.publish.insert(filter(entry)),
                "subscribe" => grant.subscribe.insert(filter(entry)),
                _ => grant.queues.insert(QueueSubscription {
                    filter: filter(entry),
                    queue: "mail".parse().unwrap(),
                }),
            };
        });
        assert!(
            found.iter().any(|m| m.to_string().contains(expected)),
            "{who} {side} {entry}: {found:?}"
        );
    }
}

/// D08
#[test]
fn nothing_of_the_servers_is_granted_whichever_wildcard_covers_it() {
    for entry in [
        "$JS.API.>",
        "$JS.API.CONSUMER.MSG.NEXT.NODES.web-2",
        "$JS.FC.>",
        "$JS.>",
        "$SYS.REQ.>",
        "_INBOX.>",
        "_INBOX.web-2.*",
        "*.API.>",
        ">",
    ] {
        for (who, publishes) in [
            ("node/web-2", true),
            ("node/web-2", false),
            ("module/shop", true),
            ("module/shop@web-1", false),
            ("joiner/t1", true),
        ] {
            let found = found(|plan| {
                let grant = plan.grants.get_mut(&principal(who)).unwrap();
                if publishes {
                    grant.publish.insert(filter(entry));
                } else {
                    grant.subscribe.insert(filter(entry));
                }
            });
            let expected = Mismatch::ReachesServer {
                principal: principal(who),
                filter: filter(entry),
            };
            assert!(found.contains(&expected), "{who} {entry}: {found:?}");
        }
    }
}

/// D29
#[test]
fn the_controller_may_what_it_does_and_not_more() {
    for entry in [
        ">",
        "$SYS.>",
        "mesh.deliver.node.web-1",
        "mesh.control.report.web-1",
    ] {
        let found = found(|plan| {
            let grant = plan.grants.get_mut(&principal("controller")).unwrap();
            grant.publish.insert(filter(entry));
        });
        let expected = Mismatch::ControllerBeyond {
            filter: filter(entry),
        };
        assert!(found.contains(&expected), "{entry}: {found:?}");
    }
}

/// Each call of the API that the controller makes.
const CALLS: [&str; 10] = [
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.CREATE.*",
    "$JS.API.STREAM.UPDATE.*",
    "$JS.API.STREAM.DELETE.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.CONSUMER.LIST.*",
    "$JS.API.CONSUMER.CREATE.*.*",
    "$JS.API.CONSUMER.DELETE.*.*",
    "$JS.API.CONSUMER.PAUSE.*.*",
    "$JS.API.CONSUMER.MSG.NEXT.*.*",
];

/// D29
#[test]
fn what_the_controller_needs_and_may_not_is_named() {
    let lacks = |without: &str| {
        let found = found(|plan| {
            let grant = plan.grants.get_mut(&principal("controller")).unwrap();
            assert!(grant.publish.remove(&filter("$JS.API.>")));
            grant.publish.extend(CALLS.map(filter));
            let there =
                grant.publish.remove(&filter(without)) || grant.subscribe.remove(&filter(without));
            assert!(there || without == "nothing");
        });
        let lacks = found.into_iter().filter_map(|m| match m {
            Mismatch::ControllerLacks { filter } => Some(filter.to_string()),
            _ => None,
        });
        lacks.collect::<Vec<_>>()
    };
    assert_eq!(lacks("nothing"), [""; 0], "with each of its calls");
    let others = [
        "mesh.node.*.declare",
        "mesh.ctl.epoch",
        "mesh.ctl.mark",
        "mesh.inbox.>",
        "mesh.parked.>",
        "mesh.inbox.controller.>",
        "mesh.heartbeat.>",
        "$JS.EVENT.ADVISORY.>",
    ];
    for needed in CALLS.into_iter().chain(others) {
        assert_eq!(lacks(needed), [needed]);
    }
}

/// D30
#[test]
fn an_entry_inside_another_of_the_same_grant_is_refused() {
    for (who, side, entry, within) in [
        (
            "node/web-1",
            "publish",
            "$JS.ACK.NODES.web-1.1.>",
            "$JS.ACK.NODES.web-1.>",
        ),
        (
            "module/shop",
            "publish",
            "mesh.mod.shop.order.placed",
            "mesh.mod.shop.>",
        ),
        (
            "node/web-1",
            "subscribe",
            "mesh.inbox.node.web-1.a.>",
            "mesh.inbox.node.web-1.>",
        ),
        (
            "module/mailer",
            "subscribe",
            "mesh.deliver.seat.mail",
            "mesh.deliver.seat.mail",
        ),
    ] {
        let found = found(|plan| {
            let grant = plan.grants.get_mut(&principal(who)).unwrap();
            let side = match side {
                "publish" => &mut grant.publish,
                _ => &mut grant.subscribe,
            };
            side.extend([filter(entry), filter(within)]);
        });
        let expected = Mismatch::InsideAnother {
            principal: principal(who),
            entry: filter(entry),
            within: filter(within),
        };
        assert!(found.contains(&expected), "{who} {entry}: {found:?}");
    }
}

/// D35
#[test]
fn a_grant_too_large_for_a_jwt_is_refused_in_operator_mode_alone() {
    let mut records = records();
    let manifest = records.declared.modules.get_mut(&"shop".parse().unwrap());
    let events = (0..300).map(|n| format!("order.number-{n}").parse().unwrap());
    manifest.unwrap().emits.extend(events);
    let plan = derive(&records, &Bounds::default());
    assert_eq!(plan.check(&records.bus), vec![]);
    // There the account is known by its key, which stands in the acks as well.
    records.bus.account = format!("A{}", "B2".repeat(28).split_off(1));
    let plan = derive(&records, &Bounds::default());
    let found = plan.check(&records.bus);
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        matches!(said.as_slice(), [one] if one.starts_with("module/shop@web-1: its user JWT would have")
            && one.contains("max_control_line (4096 bytes")),
        "{said:?}"
    );
}

/// D20
#[test]
fn one_key_is_one_principals_and_the_check_names_who_is_left_without() {
    let mut records = records();
    let stolen = records.nodes[&"web-1".parse().unwrap()].key.clone();
    let token = "t1".parse().unwrap();
    records
        .tokens
        .entry(token)
        .and_modify(|t| t.key = stolen.clone());
    let plan = derive(&records, &Bounds::default());
    assert_eq!(plan.users[&stolen], principal("node/web-1"));
    assert_eq!(
        plan.check(&records.bus),
        vec![Mismatch::NoUser {
            principal: principal("joiner/t1")
        }]
    );
}

/// D20
#[test]
fn an_owner_without_a_grant_is_named() {
    let found = found(|plan| drop(plan.grants.remove(&principal("module/mailer"))));
    let expected = Mismatch::NoGrant {
        principal: principal("module/mailer"),
    };
    assert!(found.contains(&expected));
}

/// D21
#[test]
fn a_domain_no_subject_can_carry_is_named_and_nothing_panics() {
    for domain in ["", "a.b", "a b", "*", ">", "a\n"] {
        let mut records = records();
        records.bus.domain = Some(domain.to_owned());
        let plan = derive(&records, &Bounds::default());
        let expected = Mismatch::InvalidDomain {
            domain: domain.to_owned(),
        };
        assert!(plan.check(&records.bus).contains(&expected), "{domain:?}");
    }
}

/// D21
#[test]
fn a_domain_that_makes_one_form_of_ack_read_as_another_is_refused() {
    // The hash of this account is lower case, so a node may be called so; in a domain called NODES its older form of ack
    // is the beginning of everybody's newer one.
    let mut records = records();
    records.bus.account = lower_case_account();
    records.bus.domain = Some("NODES".to_owned());
    let consumer = consumer("NODES/web-1");
    let [_, newer] = mesh_derive::ack_filters(&consumer, &records.bus);
    let hash = newer.tokens().nth(3).unwrap().to_owned();
    add_node(&mut records, &hash);
    let plan = derive(&records, &Bounds::default());
    let found = plan.check(&records.bus);
    assert!(found.iter().any(|mismatch| matches!(
        mismatch,
        Mismatch::AcksAnothers { principal: by, .. } if *by == principal(&format!("node/{hash}"))
    )));
}

fn lower_case_account() -> String {
    let of = |account: &String| {
        let bus = mesh_model::BusFacts {
            domain: None,
            account: account.clone(),
        };
        let [_, newer] = mesh_derive::ack_filters(&consumer("NODES/x"), &bus);
        newer.tokens().nth(3).unwrap().to_owned()
    };
    (0..100_000)
        .map(|n| format!("ACCOUNT-{n}"))
        .find(|account| !of(account).contains(|c: char| c.is_ascii_uppercase()))
        .unwrap()
}
