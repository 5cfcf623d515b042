//! A node's way from one bus to the other.

use mesh_control::{Command, CommandError, Effect, MovingStatus, NodeState};
use mesh_derive::Plan;
use mesh_model::{
    BusKind, Declared, Home, InstanceRef, Moving, NodeName, NodeRecord, Placement, Principal,
    PublicKey, Selector,
};

use crate::rig::*;

/// Node `a` on NATS, with a module that holds a seat.
fn rig() -> Rig {
    let mut rig = Rig::on_both();
    rig.join("a", 'A');
    let mut declared = Declared::clone(&rig.core.records().declared);
    declared.modules.insert(named("mailer"), manifest("mailer"));
    declared
        .seats
        .insert(named("desk"), Some(named("mailer")).into());
    let on = Selector::Nodes([named("a")].into());
    declared
        .placements
        .insert(named("mailer"), Placement { on, count: None });
    let apply = Command::Apply {
        declared,
        if_revision: None,
    };
    rig.command(apply).unwrap().unwrap();
    rig
}

fn go(to: BusKind) -> Command {
    Command::Move {
        node: named("a"),
        to,
    }
}

fn record(rig: &Rig) -> &NodeRecord {
    &rig.core.records().nodes[&named::<NodeName>("a")]
}

fn home(rig: &Rig) -> Home {
    rig.core.declarations()[&named::<NodeName>("a")]
        .home
        .clone()
}

fn plans(rig: &Rig) -> impl Iterator<Item = &Plan> {
    rig.said.iter().filter_map(|effect| match effect {
        Effect::Assert { plan, .. } => Some(&**plan),
        _ => None,
    })
}

/// Who has a key on a bus.
fn users(plan: &Plan, bus: BusKind) -> Vec<&Principal> {
    plan.parts[&bus].users.values().collect()
}

fn node() -> Principal {
    Principal::Node(named("a"))
}

fn instance() -> Principal {
    Principal::Instance(InstanceRef {
        module: named("mailer"),
        node: named("a"),
    })
}

/// What the plan said last lets each of the two do on each bus: node and instance on NATS, then on RabbitMQ.
fn lives(plan: &Plan) -> [bool; 4] {
    let on = |bus, who: Principal| users(plan, bus).contains(&&who);
    [
        on(BusKind::Nats, node()),
        on(BusKind::Nats, instance()),
        on(BusKind::Amqp, node()),
        on(BusKind::Amqp, instance()),
    ]
}

#[test]
fn a_node_that_proves_itself_on_the_other_bus_is_on_it_and_its_modules_follow_last() {
    let mut rig = rig();
    let (key, instance_key) = (record(&rig).key.clone(), instance_record(&rig));
    rig.said.clear();
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    let Home::Offered(offer) = home(&rig) else {
        panic!("{:?}", home(&rig));
    };
    assert_eq!(offer.bus, BusKind::Amqp);
    assert_eq!(offer.place.urls, ["amqps://bus.example/mesh"]);
    assert_eq!(record(&rig).bus, BusKind::Nats);
    assert_eq!(
        lives(plans(&rig).last().unwrap()),
        [true, true, true, false]
    );

    rig.said.clear();
    let report = rig.report("a", 7);
    let (_, said) = rig.hear_on(BusKind::Amqp, says(&report));
    assert!(rig.stored(&report), "{said:?}");
    let leaving = Moving::Leaving {
        from: BusKind::Nats,
    };
    assert_eq!(record(&rig).moving, Some(leaving));
    assert_eq!(record(&rig).bus, BusKind::Amqp);
    assert_ne!(record(&rig).key, key);
    assert!(
        told(&said).is_empty(),
        "it is told nothing before its modules may do something"
    );
    let withdrawn = said.iter().find_map(|effect| match effect {
        Effect::Assert { plan, .. } => Some(plan),
        _ => None,
    });
    assert_eq!(lives(withdrawn.unwrap()), [false, false, true, false]);

    rig.pass(1_000);
    assert_eq!(record(&rig).moving, None);
    assert_eq!(home(&rig), Home::On(BusKind::Amqp));
    assert_eq!(
        lives(plans(&rig).last().unwrap()),
        [false, false, true, true]
    );
    assert_ne!(instance_record(&rig), instance_key);
    // What its module could do was withdrawn before it could do it elsewhere, in what was asserted at any time.
    for plan in plans(&rig) {
        let [_, there, _, here] = lives(plan);
        assert!(!(there && here));
    }
    let newest = told(&rig.said).pop().unwrap().0;
    assert_eq!(newest.generation, rig.generation("a"));
    assert_eq!(newest.workloads[0].key, instance_record(&rig));
}

fn instance_record(rig: &Rig) -> PublicKey {
    let mut instances = rig.core.records().instances.values();
    instances.next().unwrap().key.clone()
}

#[test]
fn a_report_over_its_own_bus_or_about_an_earlier_declaration_proves_nothing() {
    let mut rig = rig();
    let earlier = rig.report("a", 1);
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    let report = rig.report("a", 2);
    rig.hear_on(BusKind::Amqp, says(&earlier));
    rig.hear_on(BusKind::Nats, says(&report));
    rig.pass(1_000);
    assert!(matches!(record(&rig).moving, Some(Moving::Proving { .. })));
    assert_eq!(record(&rig).bus, BusKind::Nats);
    // Nor does one of a node that was offered nothing.
    rig.command(go(BusKind::Nats)).unwrap().unwrap();
    let report = rig.report("a", 3);
    rig.hear_on(BusKind::Amqp, says(&report));
    rig.pass(1_000);
    assert_eq!(record(&rig).bus, BusKind::Nats);
    assert_eq!(home(&rig), Home::On(BusKind::Nats));
}

#[test]
fn a_node_that_is_not_heard_there_in_time_stays_as_it_was() {
    let mut rig = rig();
    let before = record(&rig).clone();
    let key = instance_record(&rig);
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    rig.pass(89_000);
    assert!(record(&rig).moving.is_some());
    rig.pass(2_000);
    assert_eq!(record(&rig), &before);
    assert_eq!(instance_record(&rig), key);
    assert_eq!(home(&rig), Home::On(BusKind::Nats));
    assert_eq!(
        lives(plans(&rig).last().unwrap()),
        [true, true, false, false]
    );
    // Heard only then, it is too late.
    let report = rig.report("a", 9);
    rig.hear_on(BusKind::Amqp, says(&report));
    rig.pass(1_000);
    assert_eq!(record(&rig), &before);
}

#[test]
fn what_cannot_be_moved_is_refused_with_the_reason() {
    let mut rig = rig();
    let unknown = Command::Move {
        node: named("nobody"),
        to: BusKind::Amqp,
    };
    let mut refused = |command| rig.command(command).unwrap().unwrap_err();
    assert!(matches!(refused(unknown), CommandError::UnknownNode(_)));
    let there = refused(go(BusKind::Nats)).to_string();
    assert!(there.contains("node a is on nats already"), "{there}");
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    let again = rig.command(go(BusKind::Amqp)).unwrap().unwrap_err();
    assert!(matches!(again, CommandError::Moving(..)), "{again}");
    let mut alone = Rig::with_node_a();
    let none = alone.command(go(BusKind::Amqp)).unwrap().unwrap_err();
    assert!(none.to_string().contains("[bus.amqp]"), "{none}");
    assert_eq!(home(&alone), Home::Here);
}

#[test]
fn what_would_not_fit_where_a_node_goes_is_refused_before_it_goes_and_while_it_does() {
    let mut rig = Rig::on_both();
    rig.join("a", 'A');
    let apply = |declared| Command::Apply {
        declared,
        if_revision: None,
    };
    let large = larger_than_a_broker_takes();
    rig.command(apply(large.clone())).unwrap().unwrap();
    let before = record(&rig).clone();
    let said = rig.command(go(BusKind::Amqp)).unwrap().unwrap_err();
    let said = said.to_string();
    assert!(
        said.contains("once each node on its way has arrived: module/x@a: what it may write"),
        "{said}"
    );
    assert_eq!(record(&rig), &before);

    let small = declared(None, &[("x", &["a"])]);
    rig.command(apply(small)).unwrap().unwrap();
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    let refused = |rig: &mut Rig| rig.command(apply(large.clone())).unwrap().is_err();
    assert!(refused(&mut rig), "while it is offered");
    let report = rig.report("a", 7);
    rig.hear_on(BusKind::Amqp, says(&report));
    assert!(matches!(record(&rig).moving, Some(Moving::Leaving { .. })));
    assert!(refused(&mut rig), "while it leaves");
    rig.pass(1_000);
    assert_eq!(record(&rig).moving, None);
    assert!(refused(&mut rig), "and when it is there");
}

#[test]
fn a_controller_that_is_killed_on_the_way_goes_on_where_the_node_is() {
    for kill_after in 0..3 {
        let mut rig = rig();
        rig.command(go(BusKind::Amqp)).unwrap().unwrap();
        if kill_after > 0 {
            rig.bus = kill_after > 1;
            let report = rig.report("a", 7);
            rig.hear_on(BusKind::Amqp, says(&report));
        }
        let mut rig = rig.restart_on_both();
        rig.pass(1_000);
        if kill_after == 0 {
            assert_eq!(
                lives(plans(&rig).last().unwrap()),
                [true, true, true, false]
            );
            let report = rig.report("a", 8);
            rig.hear_on(BusKind::Amqp, says(&report));
            rig.pass(1_000);
        }
        rig.pass(1_000);
        assert_eq!(record(&rig).bus, BusKind::Amqp, "{kill_after}");
        assert_eq!(record(&rig).moving, None);
        assert_eq!(
            lives(plans(&rig).last().unwrap()),
            [false, false, true, true]
        );
        assert_eq!(home(&rig), Home::On(BusKind::Amqp));
    }
}

#[test]
fn a_proof_the_store_could_not_take_at_once_is_taken_once_it_can() {
    let mut rig = rig();
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    let report = rig.report("a", 7);
    // Recorded already: heard over the other bus it is only settled, and comes no more.
    rig.hear_on(BusKind::Nats, says(&report));
    rig.disk = Disk::Refuses { written: false };
    rig.hear_on(BusKind::Amqp, says(&report));
    assert!(matches!(record(&rig).moving, Some(Moving::Proving { .. })));
    rig.disk = Disk::Takes;
    for _ in 0..4 {
        rig.pass(1_000);
    }
    assert_eq!(record(&rig).bus, BusKind::Amqp);
    assert_eq!(home(&rig), Home::On(BusKind::Amqp));
}

#[test]
fn a_proof_of_an_offer_that_was_taken_back_proves_nothing_of_the_next() {
    let mut rig = rig();
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    let report = rig.report("a", 7);
    rig.hear_on(BusKind::Nats, says(&report));
    rig.disk = Disk::Refuses { written: false };
    rig.hear_on(BusKind::Amqp, says(&report));
    rig.disk = Disk::Takes;
    // The store is opened anew in the same moment as the operator changes his mind.
    let effects = rig.core.tick(rig.time().plus(1_000));
    rig.now += 1_000;
    let reopened = effects
        .into_iter()
        .filter(|it| matches!(it, Effect::Reopen));
    rig.carry_out(reopened.collect());
    rig.command(go(BusKind::Nats)).unwrap().unwrap();
    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    rig.pass(1_000);
    assert!(matches!(record(&rig).moving, Some(Moving::Proving { .. })));
    assert_eq!(record(&rig).bus, BusKind::Nats);
}

#[test]
fn status_shows_where_a_node_is_and_how_far_and_is_not_as_declared_while_it_leaves() {
    let mut rig = rig();
    let shown = |rig: &Rig| {
        let node = rig.core.status(rig.time()).nodes.remove(0);
        (node.bus, node.moving, node.state)
    };
    let report = rig.report("a", 1);
    rig.hear_on(BusKind::Nats, says(&report));
    let heartbeat = rig.heartbeat("a", 1);
    let _heard = rig.beat(heartbeat);
    assert_eq!(rig.core.status(rig.time()).buses, BusKind::ALL);
    assert_eq!(shown(&rig), (BusKind::Nats, None, NodeState::Ready));

    rig.command(go(BusKind::Amqp)).unwrap().unwrap();
    let (bus, moving, _) = shown(&rig);
    let Some(MovingStatus::Proving { to, since }) = moving else {
        panic!("{moving:?}");
    };
    assert_eq!((bus, to), (BusKind::Nats, BusKind::Amqp));
    assert_eq!(since, rig.time());

    let report = rig.report("a", 7);
    rig.hear_on(BusKind::Amqp, says(&report));
    let from = BusKind::Nats;
    let leaving = Some(MovingStatus::Leaving { from });
    let expected = (BusKind::Amqp, leaving, NodeState::Converging);
    assert_eq!(shown(&rig), expected);
    let waiting = rig.core.status(rig.time()).waiting_for;
    assert!(
        waiting.contains(&"node a: leaving nats".to_owned()),
        "{waiting:?}"
    );
}
