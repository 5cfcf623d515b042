//! Reports and other messages: recorded, held, superseded, let go.

use mesh_control::{Announcement, Change, Effect, Fact, FactKey, Message, Note, Settlement, Start};
use mesh_model::{Generation, NodeName, Timestamp};

use crate::rig::*;

#[test]
fn a_report_is_settled_only_after_the_store_took_it() {
    let mut rig = Rig::with_node_a();
    let report = rig.report("a", 1);
    let (key, said) = rig.hear(says(&report));
    let stored = position(&said, |e| matches!(e, Effect::Store { .. }));
    let settled = position(&said, |e| *e == Effect::Settle(key, Settlement::Done));
    assert!(stored < settled && done(&said) && rig.stored(&report));
    // Before the store's answer there is nothing but the commit.
    let next = rig.report("a", 2);
    let effects = rig.core.handle_message(
        mesh_control::MessageKey {
            bus: mesh_model::BusKind::Nats,
            sequence: 99,
            ..key
        },
        says(&next),
        rig.time(),
    );
    assert!(matches!(effects[..], [Effect::Store { .. }]), "{effects:?}");
}

#[test]
fn a_report_is_held_while_the_store_is_down_and_recorded_when_it_is_back() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: false };
    let report = rig.report("a", 1);
    let (key, said) = rig.hear(says(&report));
    assert!(held(&said));
    rig.pass(1_000);
    let said = rig.hear_again(key, says(&report));
    assert!(held(&said) && commits(&said).is_empty(), "{said:?}");
    assert_eq!(
        (rig.core.held(), rig.core.status(rig.time()).store_up),
        (1, false)
    );
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    assert!(done(&rig.hear_again(key, says(&report))));
    assert!(rig.stored(&report));
    assert_eq!((rig.core.held(), rig.core.tally().recorded), (0, 1));
}

#[test]
fn a_report_about_another_generation_is_settled_and_not_stored() {
    let mut rig = Rig::with_node_a();
    let mut report = rig.report("a", 1);
    report.id.generation.counter -= 1;
    for disk in [Disk::Takes, Disk::Refuses { written: false }] {
        rig.disk = disk;
        let (_, said) = rig.hear(says(&report));
        assert!(done(&said) && commits(&said).is_empty());
    }
    assert_eq!(rig.core.tally().superseded, 2);
}

#[test]
fn a_report_is_let_go_once_the_bound_passes_and_parked_before_it_is_settled() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: false };
    let report = rig.report("a", 1);
    let (key, _) = rig.hear(says(&report));
    rig.now += BOUND - 1;
    assert!(held(&rig.hear_again(key, says(&report))));
    rig.now += 1;
    let said = rig.hear_again(key, says(&report));
    let parked = position(&said, |e| matches!(e, Effect::Park { .. }));
    let settled = position(&said, |e| matches!(e, Effect::Settle(..)));
    assert!(parked < settled && done(&said));
    assert_eq!((rig.core.held(), rig.core.tally().let_go), (0, 1));
}

#[test]
fn what_could_not_be_parked_keeps_its_age_and_is_let_go_the_next_time() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: false };
    let report = rig.report("a", 1);
    let (key, _) = rig.hear(says(&report));
    rig.now += BOUND;
    rig.bus = false;
    let said = rig.hear_again(key, says(&report));
    assert_eq!((parks(&said), settlements(&said).len()), (1, 0));
    let effects = rig.core.handle_parked(key, Err("no answer".to_owned()));
    assert!(held(&effects));
    assert_eq!(rig.core.held(), 1);
    rig.now += 5_000;
    rig.bus = true;
    let said = rig.hear_again(key, says(&report));
    assert!(parks(&said) == 1 && done(&said));
    assert_eq!(rig.core.held(), 0);
}

#[test]
fn what_never_can_be_stored_is_parked_at_once() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Never;
    let (_, said) = rig.hear(says(&rig.report("a", 1)));
    assert!(parks(&said) == 1 && done(&said));
    rig.disk = Disk::Takes;
    assert!(rig.core.status(rig.time()).store_up);
    let (_, said) = rig.hear(Message::Malformed("no form of ours".to_owned()));
    assert!(parks(&said) == 1 && done(&said) && commits(&said).is_empty());
}

#[test]
fn a_report_that_comes_twice_is_recorded_once() {
    let mut rig = Rig::with_node_a();
    let report = rig.report("a", 1);
    let _first = rig.hear(says(&report));
    let (_, said) = rig.hear(says(&report));
    assert!(done(&said) && commits(&said).is_empty());
    assert_eq!(
        (rig.core.tally().recorded, rig.core.tally().repeated),
        (1, 1)
    );
    let mut rig = rig.restart(Start::Continued);
    let (_, said) = rig.hear(says(&report));
    assert!(
        done(&said) && commits(&said).is_empty(),
        "known after a restart"
    );
}

#[test]
fn a_message_in_hand_is_not_begun_again() {
    let mut rig = Rig::with_node_a();
    let (key, message) = (
        rig.hear(says(&rig.report("a", 1))).0,
        says(&rig.report("a", 2)),
    );
    let first = rig.core.handle_message(key, message.clone(), rig.time());
    assert_eq!(first.len(), 1);
    assert_eq!(rig.core.handle_message(key, message, rig.time()), []);
}

#[test]
fn a_report_that_was_held_is_recorded_although_a_newer_one_came_before_it() {
    let mut rig = Rig::with_node_a();
    let (older, newer) = (rig.report("a", 1), rig.report("a", 2));
    rig.disk = Disk::Refuses { written: false };
    let (key, _) = rig.hear(says(&older));
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    let _newer = rig.hear(says(&newer));
    assert!(done(&rig.hear_again(key, says(&older))));
    assert!(rig.stored(&older) && rig.stored(&newer));
    let newest = rig.core.newest_report(&named::<NodeName>("a"));
    assert_eq!(newest, Some(&newer));
}

#[test]
fn the_newest_reports_are_kept_and_no_more() {
    let mut rig = Rig::with_node_a();
    for seq in 1..=6 {
        let _recorded = rig.hear(says(&rig.report("a", seq)));
    }
    let kept: Vec<bool> = (1..=6)
        .map(|seq| rig.stored(&rig.report("a", seq)))
        .collect();
    assert_eq!(kept, [false, false, true, true, true, true]);
    // One that would have to make room at once is not stored for it.
    let (_, said) = rig.hear(says(&rig.report("a", 1)));
    assert!(done(&said) && commits(&said).is_empty());
}

#[test]
fn reports_on_their_way_to_the_store_count_as_kept() {
    let mut rig = Rig::with_node_a();
    for seq in 1..=4 {
        let _recorded = rig.hear(says(&rig.report("a", seq)));
    }
    let mut removed = Vec::new();
    for seq in 5..=6 {
        let key = mesh_control::MessageKey {
            bus: mesh_model::BusKind::Nats,
            queue: mesh_control::Queue::Control,
            sequence: 100 + seq,
        };
        let message = says(&rig.report("a", seq));
        let effects = rig.core.handle_message(key, message, rig.time());
        let changes = commits(&effects).concat();
        removed.extend(changes.into_iter().filter_map(|change| match change {
            Change::Remove(FactKey::Report(id)) => Some(id.seq.0),
            _ => None,
        }));
    }
    removed.sort_unstable();
    removed.dedup();
    assert_eq!(removed, [1, 2]);
}

#[test]
fn a_report_that_says_it_is_another_nodes_is_parked() {
    let mut rig = Rig::with_node_a();
    let report = rig.report("a", 1);
    let (_, said) = rig.hear(Message::Report(named("b"), report.clone()));
    assert!(parks(&said) == 1 && done(&said) && !rig.stored(&report));
}

#[test]
fn a_held_report_of_a_node_that_was_removed_closes_its_window() {
    let mut rig = Rig::with_node_a();
    let report = rig.report("a", 1);
    rig.disk = Disk::Refuses { written: false };
    let (key, _) = rig.hear(says(&report));
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    let node = named("a");
    rig.command(mesh_control::Command::RemoveNode { node })
        .unwrap()
        .unwrap();
    assert!(done(&rig.hear_again(key, says(&report))));
    assert_eq!(rig.core.held(), 0);
}

#[test]
fn the_window_of_a_message_that_never_comes_again_closes_in_the_end() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: false };
    let _held = rig.hear(says(&rig.report("a", 1)));
    rig.pass(2 * BOUND);
    assert_eq!(rig.core.held(), 1);
    rig.pass(60_000);
    assert_eq!(rig.core.held(), 0);
}

#[test]
fn a_heartbeat_persists_nothing() {
    let mut rig = Rig::with_node_a();
    let _arrived = rig.beat(rig.heartbeat("a", 0));
    let said = rig.beat(rig.heartbeat("a", 0));
    assert!(said.is_empty(), "{said:?}");
    let stranger = mesh_model::Heartbeat {
        node: named("z"),
        ..rig.heartbeat("a", 0)
    };
    assert!(rig.beat(stranger).is_empty());
    assert_eq!(rig.core.tally().heartbeats, 2);
}

#[test]
fn a_node_that_stays_behind_is_told_again_and_not_before() {
    let mut rig = Rig::with_node_a();
    let _recorded = rig.hear(says(&rig.report("a", 5)));
    let _arrived = rig.beat(rig.heartbeat("a", 5));
    for (applied, seq) in [(None, 5), (Some(rig.generation("a")), 6)] {
        let mut heartbeat = rig.heartbeat("a", seq);
        heartbeat.applied = applied;
        assert!(told(&rig.beat(heartbeat.clone())).is_empty());
        rig.now += 19_999;
        assert!(told(&rig.beat(heartbeat.clone())).is_empty());
        rig.now += 1;
        let said = rig.beat(heartbeat);
        assert!(matches!(told(&said)[..], [(_, false)]), "{said:?}");
        let asserts = |effect: &Effect| matches!(effect, Effect::Assert { .. });
        assert!(!said.iter().any(asserts), "its consumer is there");
        assert!(told(&rig.beat(rig.heartbeat("a", 5))).is_empty());
    }
}

/// Whether a node that goes on saying this is told again within a minute.
fn told_again(rig: &mut Rig, heartbeat: &mesh_model::Heartbeat) -> bool {
    let mut again = false;
    for _ in 0..6 {
        again |= !told(&rig.beat(heartbeat.clone())).is_empty();
        rig.now += 10_000;
    }
    again
}

#[test]
fn a_node_that_says_it_cannot_is_not_told_the_same_again_unless_it_forgot_that() {
    let mut rig = Rig::with_node_a();
    let mut report = rig.report("a", 5);
    let reason = "no such program".to_owned();
    report.outcome = mesh_model::Outcome::Failed { reason };
    let _recorded = rig.hear(says(&report));
    let mut heartbeat = rig.heartbeat("a", 5);
    heartbeat.applied = None;
    assert!(!told_again(&mut rig, &heartbeat));
    heartbeat.seq = mesh_model::Seq(0);
    assert!(told_again(&mut rig, &heartbeat), "its disk was lost");
}

#[test]
fn a_report_the_store_never_takes_is_not_asked_for_again() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Never;
    let (_, said) = rig.hear(says(&rig.report("a", 5)));
    assert_eq!(parks(&said), 1);
    rig.disk = Disk::Takes;
    let heartbeat = rig.heartbeat("a", 5);
    assert!(!told_again(&mut rig, &heartbeat));
    let heartbeat = rig.heartbeat("a", 6);
    assert!(told_again(&mut rig, &heartbeat), "a later one may be taken");
}

#[test]
fn an_earlier_run_of_an_agent_is_believed_once_the_later_one_is_silent() {
    let mut rig = Rig::with_node_a();
    let mut heartbeat = rig.heartbeat("a", 0);
    heartbeat.session = 9;
    let _later = rig.beat(heartbeat.clone());
    heartbeat.session = 3;
    heartbeat.version = "earlier".to_owned();
    let version = |rig: &Rig| rig.core.status(rig.time()).nodes[0].version.clone();
    let _noted = rig.beat(heartbeat.clone());
    assert_eq!(version(&rig).as_deref(), Some("1"));
    rig.now += 30_000;
    let _believed = rig.beat(heartbeat);
    assert_eq!(version(&rig).as_deref(), Some("earlier"));
}

#[test]
fn a_new_run_of_an_agent_takes_over_at_once_and_the_silence_of_the_one_before_changes_nothing() {
    let mut rig = Rig::with_node_a();
    let run = |rig: &Rig, session: u64| {
        let mut heartbeat = rig.heartbeat("a", 0);
        heartbeat.session = session;
        heartbeat
    };
    let _recorded = rig.hear(says(&rig.report("a", 1)));
    let node = |rig: &Rig| rig.core.status(rig.time()).nodes.remove(0);
    let _old = rig.beat(run(&rig, 3));
    let _new = rig.beat(run(&rig, 9));
    let session = |rig: &Rig| node(rig).session.map(Timestamp::as_millis);
    assert_eq!(session(&rig), Some(9));
    // The old one speaks once more, is noted once, and is silent from then on.
    for _ in 0..2 {
        let said = rig.beat(run(&rig, 3));
        assert_eq!(session(&rig), Some(9));
        let noted = said
            .iter()
            .any(|it| matches!(it, Effect::Note(Note::Node(..))));
        assert_eq!(noted, said.len() == 1, "{said:?}");
        assert_eq!(node(&rig).rival.map(Timestamp::as_millis), Some(3));
    }
    for _ in 0..12 {
        rig.pass(5_000);
        let _new = rig.beat(run(&rig, 9));
        assert_eq!(node(&rig).state, mesh_control::NodeState::Ready);
    }
    assert_eq!((session(&rig), node(&rig).rival), (Some(9), None));
    let said = rig.beat(run(&rig, 3));
    assert!(
        matches!(&said[..], [Effect::Note(Note::Node(..))]),
        "told anew: {said:?}"
    );
    // Another host behind the name is nobody's rival.
    rig.create_token("re", |token| {
        token.rejoin = true;
        token.node = Some(named("a"));
    });
    let _joined = rig.hear(rig.request("re", None, 'B'));
    let _later = rig.beat(run(&rig, 10));
    assert_eq!(node(&rig).rival, None);
}

#[test]
fn what_a_node_is_doing_is_shown_while_it_is_heard_and_kept_nowhere() {
    let mut rig = Rig::with_node_a();
    let facts = rig.facts.clone();
    let mut heartbeat = rig.heartbeat("a", 0);
    let line = "pulling 3 of 7 layers, 42.1 of 180.0 MB".to_owned();
    heartbeat.doing = [(named("x"), line.clone())].into();
    let _heard = rig.beat(heartbeat);
    let doing = |rig: &Rig| {
        let mut nodes = rig.core.status(rig.time()).nodes;
        nodes.remove(0).doing.into_values().collect::<Vec<_>>()
    };
    assert_eq!(doing(&rig), [line]);
    let arrived = |facts: &std::collections::BTreeMap<FactKey, Fact>| {
        let others = facts.keys().filter(|it| !matches!(it, FactKey::Token(_)));
        others.cloned().collect::<Vec<_>>()
    };
    assert_eq!(arrived(&rig.facts), arrived(&facts));
    rig.pass(30_000);
    assert!(doing(&rig).is_empty(), "nobody knows what it does now");
}

#[test]
fn a_node_that_works_on_what_it_was_told_is_not_told_again_however_long_that_takes() {
    let mut rig = Rig::with_node_a();
    let mut report = rig.report("a", 5);
    report.outcome = mesh_model::Outcome::Converging;
    let state = mesh_model::ModuleState::Pulling;
    let pulling = mesh_model::ModuleReport {
        release: "1".to_owned(),
        state,
        pid: None,
        restarts: 0,
        reason: None,
        image: None,
        last_exit: None,
        repairs: 0,
    };
    report.modules = [(named("x"), pulling)].into();
    let _recorded = rig.hear(says(&report));
    let mut heartbeat = rig.heartbeat("a", 5);
    heartbeat.applied = None;
    assert!(!told_again(&mut rig, &heartbeat));
    let reason = rig.core.status(rig.time()).nodes.remove(0).reason.unwrap();
    assert!(reason.ends_with(": x pulling"), "{reason}");
    // Of a run of the agent that has said nothing yet it is not known that it has what it was told.
    heartbeat.seq = mesh_model::Seq(0);
    assert!(told_again(&mut rig, &heartbeat));
}

#[test]
fn what_serves_while_its_next_image_is_fetched_runs() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    for (seq, state, pid, runs) in [
        (5, mesh_model::ModuleState::Running, Some(7), 1),
        (6, mesh_model::ModuleState::Pulling, Some(7), 1),
        (7, mesh_model::ModuleState::Pulling, None, 0),
        (8, mesh_model::ModuleState::Starting, Some(7), 0),
    ] {
        let mut report = rig.report("a", seq);
        let module = mesh_model::ModuleReport {
            release: "1".to_owned(),
            state,
            pid,
            restarts: 0,
            reason: None,
            image: None,
            last_exit: None,
            repairs: 0,
        };
        report.modules = [(named("x"), module)].into();
        let _recorded = rig.hear(says(&report));
        let modules = rig.core.status(rig.time()).modules;
        assert_eq!(modules[0].running, runs, "{state:?} {pid:?}");
    }
}

#[test]
fn an_announcement_is_heard_and_settled_once_and_persists_nothing() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    let announced = |node: &str| {
        let announcement = Announcement {
            release: "2".to_owned(),
            node: named(node),
            key: None,
        };
        Message::Announced(named("x"), announcement)
    };
    for node in ["a", "b"] {
        let (_, said) = rig.hear(announced(node));
        assert!(done(&said) && commits(&said).is_empty());
    }
    assert_eq!(rig.core.announced().len(), 1, "only where it is placed");
    rig.command(apply(declared(None, &[]))).unwrap().unwrap();
    assert_eq!(rig.core.announced().len(), 0);
}

#[test]
fn a_removed_node_leaves_nothing_in_the_store() {
    let mut rig = Rig::with_node_a();
    let _recorded = rig.hear(says(&rig.report("a", 1)));
    let node: NodeName = named("a");
    rig.command(mesh_control::Command::RemoveNode { node: node.clone() })
        .unwrap()
        .unwrap();
    let of_it = |fact: &Fact| match fact {
        Fact::Node(of, _) => *of == node,
        Fact::Declaration(declaration) => declaration.node == node,
        Fact::Report(report) => report.id.node == node,
        _ => false,
    };
    assert!(!rig.facts.values().any(of_it));
}

#[test]
fn a_node_that_comes_back_is_told_something_newer_than_before_it_was_removed() {
    let mut rig = Rig::with_node_a();
    let before: Generation = rig.generation("a");
    rig.command(mesh_control::Command::RemoveNode { node: named("a") })
        .unwrap()
        .unwrap();
    rig.create_token("again", |_| {});
    let _joined = rig.hear(rig.request("again", Some("a"), 'B'));
    assert!(rig.generation("a") > before);
}
