//! Seats whose holders are lost.

use mesh_control::{Command, Effect, Fact, HeldBy, Note, SeatStatus, Start};
use mesh_model::{Assigner, BusKind, Declared, SeatRecord};

use crate::rig::*;

const LOST: u64 = 30;
const GRACE: u64 = 20;

/// Modules `v`, `x` and `y`, each on a node of its own; `x` holds the seat, and may be lost for so many seconds.
fn with_grace(grace: Option<u64>) -> Declared {
    let mut declared = declared(Some("x"), &[("v", &["a"]), ("x", &["b"]), ("y", &["c"])]);
    declared.modules.insert(named("v"), manifest("v"));
    let seat = declared.seats.get_mut(&named("desk")).unwrap();
    seat.failover = grace.map(|secs| secs * 1000);
    declared
}

/// Nodes `a`, `b` and `c`, with this on them, all heard.
fn mesh(declared: Declared) -> Rig {
    let mut rig = Rig::new();
    for (node, key) in [("a", 'A'), ("b", 'B'), ("c", 'C')] {
        rig.join(node, key);
    }
    rig.command(apply(declared)).unwrap().unwrap();
    for node in ["a", "b", "c"] {
        let _said = rig.beat(rig.heartbeat(node, 0));
    }
    rig.said.clear();
    rig
}

/// So many seconds pass, in which these are heard.
fn lasts(rig: &mut Rig, secs: u64, heard: &[&str]) {
    for _ in 0..secs {
        for node in heard {
            let _said = rig.beat(rig.heartbeat(node, 0));
        }
        for _ in 0..10 {
            rig.pass(100);
        }
    }
}

fn seat(rig: &Rig) -> SeatStatus {
    rig.core.status(rig.time()).seats.remove(0)
}

fn holder(rig: &Rig) -> Option<String> {
    seat(rig).holder.map(|holder| holder.to_string())
}

fn assign(holder: Option<&str>) -> Command {
    Command::Assign {
        seat: named("desk"),
        holder: holder.map(named),
    }
}

#[test]
fn a_seat_goes_to_the_next_module_once_its_holder_was_lost_for_its_grace() {
    let mut rig = mesh(with_grace(Some(GRACE)));
    lasts(&mut rig, LOST - 1, &["a", "c"]);
    assert_eq!(seat(&rig).trouble, None, "it may only be late");
    lasts(&mut rig, GRACE, &["a", "c"]);
    let waits = seat(&rig);
    assert_eq!(holder(&rig).as_deref(), Some("x"));
    assert!(waits.fails_over_in.unwrap() <= 1000, "{waits:?}");
    let trouble = waits.trouble.unwrap();
    assert!(trouble.contains("holder x is lost"), "{trouble}");
    assert!(trouble.contains("y takes it in 1 s"), "{trouble}");
    lasts(&mut rig, 1, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));
    let taken = seat(&rig);
    assert_eq!((taken.by, taken.by_hand), (HeldBy::Failover, false));
    assert_eq!(taken.trouble, None);
    let record = &rig.core.records().seats[&named("desk")];
    let expected = SeatRecord {
        assigned: Some(named("y")),
        by: Assigner::Failover,
    };
    assert_eq!(*record, expected);
    let noted = rig.said.iter().find_map(|effect| match effect {
        Effect::Note(Note::Seat(_, what)) => Some(what.clone()),
        _ => None,
    });
    let audited = rig.facts.values().find_map(|fact| match fact {
        Fact::Audit(entry) if entry.who == "controller" && entry.what.contains("fails over") => {
            Some(entry.what.clone())
        }
        _ => None,
    });
    assert_eq!(noted, audited);
    let what = noted.unwrap();
    assert!(
        what.starts_with(
            "seat desk fails over from x to y: none of its nodes was heard for 50 s (b)"
        ),
        "{what}"
    );
}

#[test]
fn it_is_not_given_back_by_itself_and_an_operator_decides_over_it() {
    let mut rig = mesh(with_grace(Some(GRACE)));
    lasts(&mut rig, LOST + GRACE, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));
    lasts(&mut rig, 10, &["a", "b", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"), "its holder is back");
    // What the files say of the seat is the same, so that an apply leaves it.
    rig.command(apply(with_grace(Some(GRACE))))
        .unwrap()
        .unwrap();
    assert_eq!(holder(&rig).as_deref(), Some("y"));
    rig.command(assign(Some("v"))).unwrap().unwrap();
    assert_eq!(
        (holder(&rig).as_deref(), seat(&rig).by),
        (Some("v"), HeldBy::Operator)
    );
    rig.command(assign(Some("x"))).unwrap().unwrap();
    assert_eq!(seat(&rig).by, HeldBy::Declared);
}

#[test]
fn the_next_is_by_name_and_after_the_last_comes_the_first_and_only_who_is_heard() {
    for (holds, heard, takes) in [
        ("x", &["a", "c"][..], Some("y")),
        ("x", &["a"], Some("v")),
        ("y", &["a", "b"], Some("v")),
        ("v", &["b", "c"], Some("x")),
        ("x", &[], None),
    ] {
        let mut declared = with_grace(Some(GRACE));
        declared.seats.get_mut(&named("desk")).unwrap().holder = Some(named(holds));
        let mut rig = mesh(declared);
        lasts(&mut rig, LOST + GRACE + 5, heard);
        let expected = takes.unwrap_or(holds);
        assert_eq!(holder(&rig).as_deref(), Some(expected), "{holds} {heard:?}");
    }
}

#[test]
fn what_nobody_can_take_is_said_and_taken_once_somebody_can() {
    let mut rig = mesh(with_grace(Some(GRACE)));
    lasts(&mut rig, LOST + GRACE + 5, &[]);
    let waits = rig.core.status(rig.time()).waiting_for;
    let said = waits.iter().find(|what| what.starts_with("seat desk"));
    let said = said.unwrap();
    assert!(
        said.contains("nobody else that can hold it is on a node that is heard"),
        "{said}"
    );
    lasts(&mut rig, 1, &["c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));
}

#[test]
fn without_being_asked_to_it_stays_and_says_so() {
    let mut rig = mesh(with_grace(None));
    lasts(&mut rig, LOST + GRACE + 600, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("x"));
    let trouble = seat(&rig).trouble.unwrap();
    assert!(
        trouble.contains("`meshctl seat handover desk --to MODULE`"),
        "{trouble}"
    );
    let able: Vec<(String, bool)> = seat(&rig)
        .candidates
        .iter()
        .map(|it| (it.module.to_string(), it.heard))
        .collect();
    let expected = [("v", true), ("x", false), ("y", true)];
    assert_eq!(
        able,
        expected.map(|(module, heard)| (module.to_owned(), heard))
    );
}

#[test]
fn a_holder_with_another_node_that_is_heard_is_not_lost() {
    let mut declared = with_grace(Some(GRACE));
    let place = mesh_model::Selector::Nodes([named("b"), named("c")].into());
    declared.placements.get_mut(&named("x")).unwrap().on = place;
    let mut rig = mesh(declared);
    lasts(&mut rig, LOST + GRACE + 60, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("x"));
    lasts(&mut rig, LOST + GRACE, &["a"]);
    assert_eq!(holder(&rig).as_deref(), Some("v"));
}

#[test]
fn a_holder_that_is_placed_nowhere_is_lost_and_one_that_was_released_is_not() {
    let mut rig = mesh(with_grace(Some(GRACE)));
    rig.command(assign(None)).unwrap().unwrap();
    lasts(&mut rig, LOST + GRACE + 5, &["a", "b", "c"]);
    assert_eq!(holder(&rig), None, "an operator took it from everybody");
    rig.command(assign(Some("x"))).unwrap().unwrap();
    rig.command(Command::RemoveNode { node: named("b") })
        .unwrap()
        .unwrap();
    lasts(&mut rig, GRACE + 1, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));
}

#[test]
fn whoever_does_not_listen_takes_nobody_for_lost() {
    // While the bus is away nobody can be heard.
    let mut rig = mesh(with_grace(Some(GRACE)));
    let effects = rig.core.handle_link(false, rig.time());
    rig.carry_out(effects);
    lasts(&mut rig, LOST + GRACE + 60, &[]);
    assert_eq!(holder(&rig).as_deref(), Some("x"));
    let effects = rig.core.handle_link(true, rig.time());
    rig.carry_out(effects);
    lasts(&mut rig, LOST - 1, &["a", "c"]);
    assert_eq!(seat(&rig).trouble, None, "it has just been listened again");
    lasts(&mut rig, GRACE + 1, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));
    // Nor while this process was stopped.
    let mut rig = mesh(with_grace(Some(GRACE)));
    rig.pass(600_000);
    lasts(&mut rig, GRACE, &["a", "c"]);
    assert_eq!(
        (holder(&rig).as_deref(), seat(&rig).trouble),
        (Some("x"), None)
    );
    // Nor before it began.
    let mut rig = mesh(with_grace(Some(GRACE))).restart(Start::Continued);
    lasts(&mut rig, LOST - 1, &["a", "c"]);
    assert_eq!(seat(&rig).trouble, None);
    lasts(&mut rig, GRACE + 1, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"), "lost before it began");
}

/// A mesh on both buses: `b`, where the seat is worked, on RabbitMQ, and the others on NATS.
fn mesh_on_both() -> Rig {
    let mut rig = Rig::on_both();
    for (node, key, bus) in [
        ("a", 'A', BusKind::Nats),
        ("b", 'B', BusKind::Amqp),
        ("c", 'C', BusKind::Nats),
    ] {
        let token = format!("of-{node}");
        rig.create_token(&token, |token| token.bus = bus);
        let request = rig.request(&token, Some(node), key);
        rig.hear_on(bus, request);
        assert_eq!(rig.core.records().nodes[&named(node)].bus, bus);
    }
    rig.command(apply(with_grace(Some(GRACE))))
        .unwrap()
        .unwrap();
    for node in ["a", "b", "c"] {
        let _said = rig.beat(rig.heartbeat(node, 0));
    }
    rig.said.clear();
    rig
}

#[test]
fn whose_bus_is_away_is_not_taken_for_lost_and_who_is_on_the_other_is() {
    let without = |rig: &mut Rig, bus| {
        let effects = rig.core.handle_link_without(bus, rig.time());
        rig.carry_out(effects);
    };
    let back = |rig: &mut Rig| {
        let effects = rig.core.handle_link(true, rig.time());
        rig.carry_out(effects);
    };
    let mut rig = mesh_on_both();
    without(&mut rig, BusKind::Amqp);
    lasts(&mut rig, LOST + GRACE + 60, &["a", "c"]);
    assert_eq!(
        (holder(&rig).as_deref(), seat(&rig).trouble),
        (Some("x"), None)
    );
    back(&mut rig);
    lasts(&mut rig, LOST - 1, &["a", "c"]);
    assert_eq!(seat(&rig).trouble, None, "it has just been listened again");
    lasts(&mut rig, GRACE + 2, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));

    // An outage of the other bus is none of its.
    let mut rig = mesh_on_both();
    lasts(&mut rig, LOST - 10, &["a", "c"]);
    without(&mut rig, BusKind::Nats);
    lasts(&mut rig, 20, &[]);
    back(&mut rig);
    lasts(&mut rig, GRACE - 8, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));

    // One after the other, and both at once.
    let mut rig = mesh_on_both();
    for _ in 0..6 {
        without(&mut rig, BusKind::Amqp);
        lasts(&mut rig, LOST, &["a", "c"]);
        without(&mut rig, BusKind::Nats);
        lasts(&mut rig, LOST - 5, &[]);
        let effects = rig.core.handle_link(false, rig.time());
        rig.carry_out(effects);
        lasts(&mut rig, LOST, &[]);
    }
    assert_eq!(holder(&rig).as_deref(), Some("x"));
}

#[test]
fn while_the_store_takes_nothing_a_seat_stays_where_it_is_on_disk() {
    let mut rig = mesh(with_grace(Some(GRACE)));
    lasts(&mut rig, LOST, &["a", "c"]);
    rig.disk = Disk::Refuses { written: false };
    lasts(&mut rig, GRACE + 5, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("x"));
    rig.disk = Disk::Takes;
    lasts(&mut rig, 3, &["a", "c"]);
    assert_eq!(holder(&rig).as_deref(), Some("y"));
}

/// After a server's reboot a workload that is shifted starts on the new node and cannot be deleted on the old one.
/// <https://github.com/eclipse-ankaios/ankaios/issues/446>
#[test]
fn case_c_0d1f0fc_a_seat_has_one_owner_however_its_node_comes_and_goes() {
    let mut rig = mesh(with_grace(Some(GRACE)));
    let may_work = |rig: &Rig| -> Vec<String> {
        let plan = rig.core.plan();
        let deliver = mesh_derive::subject::deliver_seat(&named("desk")).into();
        let able = plan.grants.iter().filter(|(who, grant)| {
            let instance = matches!(who, mesh_model::Principal::Instance(_));
            instance && grant.subscribes(&deliver, Some("desk"))
        });
        able.map(|(who, _)| who.to_string()).collect()
    };
    assert_eq!(may_work(&rig), ["module/x@b"]);
    // The node reconnects while the lease runs: nothing has moved.
    lasts(&mut rig, LOST + GRACE - 1, &["a", "c"]);
    assert_eq!(may_work(&rig), ["module/x@b"]);
    lasts(&mut rig, 2, &["a", "b", "c"]);
    lasts(&mut rig, LOST + GRACE - 3, &["a", "c"]);
    assert_eq!(may_work(&rig), ["module/x@b"]);
    // It expires while the controller is down: the one that starts gives it a whole lease, and then moves the seat.
    let mut rig = rig.restart(Start::Continued);
    lasts(&mut rig, LOST + GRACE - 1, &["a", "c"]);
    assert_eq!(may_work(&rig), ["module/x@b"]);
    lasts(&mut rig, 2, &["a", "c"]);
    assert_eq!(may_work(&rig), ["module/y@c"]);
    // The old holder's node comes back, and holds nothing any more.
    lasts(&mut rig, 5, &["a", "b", "c"]);
    assert_eq!(may_work(&rig), ["module/y@c"]);
}
