//! What a diff says, and whose authority it says grows.

use mesh_derive::{Bounds, Plan, PlanDiff, derive};
use mesh_model::{Manifest, Records, SeatRecord};

use crate::common::{add_module, add_node, add_seat, empty, manifest, names, user_key};

fn records() -> Records {
    let mut records = empty();
    add_node(&mut records, "web-1");
    add_seat(&mut records, "mail", None);
    let shop = Manifest {
        emits: names(&["order.placed", "order.paid"]),
        ..manifest("shop")
    };
    add_module(&mut records, shop, &["web-1"]);
    add_module(
        &mut records,
        mailer(&["shop.order.placed"], &[]),
        &["web-1"],
    );
    records
}

fn mailer(follows: &[&str], emits: &[&str]) -> Manifest {
    Manifest {
        follows: names(follows),
        emits: names(emits),
        can_hold: names(&["mail"]),
        ..manifest("mailer")
    }
}

fn plan(records: &Records) -> Plan {
    derive(records, &Bounds::default())
}

fn diff(change: impl FnOnce(&mut Records)) -> (PlanDiff, PlanDiff) {
    let before = records();
    let mut after = before.clone();
    change(&mut after);
    let (before, after) = (plan(&before), plan(&after));
    (before.diff(&after), after.diff(&before))
}

fn lines(diff: &PlanDiff) -> Vec<String> {
    diff.to_string().lines().map(ToOwned::to_owned).collect()
}

/// D22
#[test]
fn equal_plans_differ_in_nothing() {
    let (there, back) = diff(|_| ());
    assert!(there.is_empty() && back.is_empty() && !there.widens());
}

/// D22
#[test]
fn an_event_more_is_one_line_that_widens_and_back_one_that_does_not() {
    let (there, back) = diff(|records| {
        let placed = ["shop.order.placed"];
        add_module(records, mailer(&placed, &["bounced"]), &["web-1"]);
    });
    assert_eq!(
        lines(&there),
        ["! module/mailer gains publish mesh.mod.mailer.bounced"]
    );
    assert_eq!(
        lines(&back),
        ["  module/mailer loses publish mesh.mod.mailer.bounced"]
    );
    assert!(there.widens() && !back.widens());
}

/// D22
#[test]
fn following_more_widens_what_is_read_and_no_grant() {
    let (there, _) = diff(|records| {
        let both = ["shop.order.placed", "shop.order.paid"];
        add_module(records, mailer(&both, &[]), &["web-1"]);
    });
    assert_eq!(
        lines(&there),
        ["! consumer EVENTS/mailer selects mesh.mod.shop.order.paid"]
    );
}

/// D22
#[test]
fn a_seat_given_is_said_of_the_seat_and_of_its_holder() {
    let (there, _) = diff(|records| {
        let holder = SeatRecord {
            assigned: Some("mailer".parse().unwrap()),
            by: mesh_model::Assigner::Operator,
        };
        records.seats.insert("mail".parse().unwrap(), holder);
    });
    assert_eq!(
        lines(&there),
        [
            "  consumer SEAT-mail/mail changes owner from null to \"module/mailer\"",
            "! module/mailer gains publish $JS.ACK.SEAT-mail.mail.>",
            "! module/mailer gains publish $JS.ACK._.znJdjy7f.SEAT-mail.mail.>",
            "! module/mailer gains subscribe mesh.deliver.seat.mail in group mail",
        ]
    );
}

/// D22
#[test]
fn a_node_more_and_a_node_less_are_said_whole() {
    let (there, back) = diff(|records| add_node(records, "web-2"));
    assert_eq!(
        lines(&there),
        [
            "  consumer NODES/web-2 is new",
            "! consumer NODES/web-2 selects mesh.node.web-2.declare",
            "! node/web-2 is new",
            "! node/web-2 gains publish $JS.ACK.NODES.web-2.>",
            "! node/web-2 gains publish $JS.ACK._.znJdjy7f.NODES.web-2.>",
            "! node/web-2 gains publish mesh.control.report.web-2",
            "! node/web-2 gains publish mesh.heartbeat.web-2",
            "! node/web-2 gains publish mesh.log.web-2",
            "! node/web-2 gains subscribe mesh.deliver.node.web-2",
            "! node/web-2 gains subscribe mesh.inbox.node.web-2.>",
        ]
    );
    assert_eq!(
        lines(&back),
        [
            "  consumer NODES/web-2 is removed",
            "  node/web-2 is removed"
        ]
    );
}

/// D22
#[test]
fn another_key_is_said() {
    let (there, _) = diff(|records| {
        for record in records.nodes.values_mut() {
            record.key = user_key("another");
        }
    });
    assert_eq!(lines(&there), ["  node/web-1 has another key"]);
}

/// D22
#[test]
fn a_diff_reads_back_from_json() {
    let (there, _) = diff(|records| add_node(records, "web-2"));
    let text = serde_json::to_string(&there).unwrap();
    assert_eq!(serde_json::from_str::<PlanDiff>(&text).unwrap(), there);
}

/// D23
#[test]
fn a_module_gives_no_key_where_it_is_not_placed_or_the_node_is_another() {
    let instance = "module/mailer@web-1".parse().unwrap();
    let key = user_key("module/mailer@web-1");
    assert!(plan(&records()).grants.contains_key(&instance));
    let unplaced = |records: &mut Records| {
        records
            .declared
            .placements
            .remove(&"mailer".parse().unwrap());
    };
    let removed = |records: &mut Records| records.nodes.clear();
    let replaced = |records: &mut Records| {
        for record in records.nodes.values_mut() {
            record.box_key = crate::common::box_key("the new host");
        }
    };
    let changes: [&dyn Fn(&mut Records); 3] = [&unplaced, &removed, &replaced];
    for change in changes {
        let mut records = records();
        change(&mut records);
        let plan = plan(&records);
        assert!(!plan.grants.contains_key(&instance));
        assert!(!plan.users.contains_key(&key));
        assert_eq!(plan.check(&records.bus), vec![]);
    }
}

/// D24
#[test]
fn a_seat_assigned_to_who_may_no_longer_hold_it_is_nobodys() {
    for holder in ["gone", "shop"] {
        let mut records = records();
        let assigned = SeatRecord {
            assigned: Some(holder.parse().unwrap()),
            by: mesh_model::Assigner::Operator,
        };
        records.seats.insert("mail".parse().unwrap(), assigned);
        let plan = plan(&records);
        let consumer = plan
            .consumers
            .values()
            .find(|spec| spec.consumer.name() == "mail");
        assert_eq!(consumer.unwrap().owner, None);
        assert_eq!(plan.check(&records.bus), vec![]);
    }
}
