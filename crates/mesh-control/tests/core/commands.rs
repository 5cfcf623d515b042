//! What an operator asks, and what the store makes of it.

use std::collections::BTreeMap;

use mesh_control::{Command, CommandError, Effect, FactKey, Start};
use mesh_model::{Declared, Revision};

use crate::rig::*;

fn holder(rig: &Rig) -> Option<String> {
    let records = rig.core.records();
    records.holder(&named("desk")).map(ToString::to_string)
}

fn assign(holder: Option<&str>) -> Command {
    Command::Assign {
        seat: named("desk"),
        holder: holder.map(named),
    }
}

#[test]
fn an_apply_is_refused_once_somebody_else_changed_something() {
    let mut rig = Rig::new();
    let seen = rig.core.records().revision;
    rig.create_token("t", |_| {});
    let found = rig.core.records().revision;
    let apply = |expected| Command::Apply {
        declared: declared(None, &[]),
        if_revision: Some(expected),
    };
    let conflict = CommandError::Conflict {
        expected: seen,
        found,
    };
    assert_eq!(rig.command(apply(seen)).unwrap(), Err(conflict));
    assert_eq!(rig.command(apply(found)).unwrap(), Ok(found.next()));
}

#[test]
fn a_command_is_answered_with_the_revision_it_made_once_the_bus_shows_it() {
    let mut rig = Rig::new();
    rig.bus = false;
    let first = rig.core.records().revision.next();
    assert_eq!(rig.command(apply(declared(None, &[]))), None);
    assert_eq!(rig.command(apply(declared(Some("x"), &[]))), None);
    let stored = rig.facts.contains_key(&FactKey::Audit(first.next()));
    assert!(stored);
    rig.bus = true;
    let version = rig.said.iter().rev().find_map(|effect| match effect {
        Effect::Assert { version, .. } => Some(*version),
        _ => None,
    });
    let effects = rig
        .core
        .handle_asserted(version.unwrap(), Ok(()), rig.time());
    rig.carry_out(effects);
    assert_eq!(rig.reply(1), Some(Ok(first)));
    assert_eq!(rig.reply(2), Some(Ok(first.next())));
}

#[test]
fn what_contradicts_itself_changes_nothing() {
    let mut rig = Rig::new();
    let before = rig.core.records().clone();
    let mut wrong: Declared = declared(None, &[]);
    wrong.seats = BTreeMap::new();
    assert!(matches!(
        rig.command(apply(wrong)).unwrap(),
        Err(CommandError::Declared(_))
    ));
    let cases = [
        (
            Command::RemoveNode { node: named("z") },
            CommandError::UnknownNode(named("z")),
        ),
        (
            Command::Label {
                node: named("z"),
                labels: BTreeMap::new(),
            },
            CommandError::UnknownNode(named("z")),
        ),
        (assign(None), CommandError::UnknownSeat(named("desk"))),
    ];
    for (command, error) in cases {
        assert_eq!(rig.command(command).unwrap(), Err(error));
    }
    assert_eq!(rig.core.records(), &before);
}

#[test]
fn an_assignment_by_hand_lasts_until_the_files_say_something_new() {
    let mut rig = Rig::new();
    rig.command(apply(declared(Some("x"), &[])))
        .unwrap()
        .unwrap();
    assert_eq!(holder(&rig).as_deref(), Some("x"));
    rig.command(assign(Some("y"))).unwrap().unwrap();
    rig.command(apply(declared(Some("x"), &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    assert_eq!(
        holder(&rig).as_deref(),
        Some("y"),
        "the files say what they said"
    );
    rig.command(apply(declared(None, &[]))).unwrap().unwrap();
    assert_eq!(holder(&rig), None, "the files say something new");
    rig.command(assign(Some("y"))).unwrap().unwrap();
    let mut without = declared(None, &[]);
    without.modules.remove(&named("y"));
    rig.command(apply(without)).unwrap().unwrap();
    assert_eq!(holder(&rig), None, "who held it is gone");
    rig.command(apply(declared(Some("x"), &[])))
        .unwrap()
        .unwrap();
    rig.command(assign(None)).unwrap().unwrap();
    assert_eq!(holder(&rig), None, "nobody, by hand");
    rig.command(assign(Some("x"))).unwrap().unwrap();
    let seats = rig.core.status(rig.time()).seats;
    assert!(!seats[0].by_hand, "what the files say overrides nothing");
    let error = rig.command(assign(Some("z"))).unwrap().unwrap_err();
    assert!(matches!(error, CommandError::CannotHold { .. }));
}

#[test]
fn only_nodes_that_are_concerned_are_told() {
    let mut rig = Rig::with_node_a();
    rig.join("b", 'B');
    rig.command(apply(declared(None, &[("x", &["a"]), ("y", &["b"])])))
        .unwrap()
        .unwrap();
    let (a, b) = (rig.generation("a"), rig.generation("b"));
    rig.said.clear();
    rig.command(apply(declared(None, &[("x", &["a", "b"]), ("y", &["b"])])))
        .unwrap()
        .unwrap();
    assert_eq!(rig.generation("a"), a);
    assert!(rig.generation("b") > b);
    let nodes: Vec<String> = told(&rig.said)
        .iter()
        .map(|(d, _)| d.node.to_string())
        .collect();
    assert_eq!(nodes, ["b"]);
}

#[test]
fn commands_fail_clearly_while_the_store_is_down() {
    let mut rig = Rig::new();
    rig.disk = Disk::Refuses { written: false };
    let before = rig.core.records().clone();
    for _ in 0..2 {
        let error = rig
            .command(apply(declared(None, &[])))
            .unwrap()
            .unwrap_err();
        assert!(matches!(error, CommandError::Store(_)), "{error}");
        assert!(error.to_string().contains("meshctl status"));
    }
    assert_eq!(rig.core.records(), &before);
    let status = rig.core.status(rig.time());
    assert!(!status.store_up && !status.waiting_for.is_empty());
}

#[test]
fn what_was_written_all_the_same_is_adopted_once_the_store_is_opened_anew() {
    for written in [false, true] {
        let mut rig = Rig::with_node_a();
        let before = rig.generation("a");
        rig.disk = Disk::Refuses { written };
        let result = rig.command(apply(declared(None, &[("x", &["a"])])));
        assert!(result.unwrap().is_err());
        assert_eq!(
            rig.generation("a"),
            before,
            "nobody is told of what is in doubt"
        );
        rig.disk = Disk::Takes;
        rig.said.clear();
        rig.pass(1_000);
        assert!(rig.core.is_settled());
        assert_eq!(rig.generation("a") > before, written);
        assert_eq!(
            told(&rig.said).iter().any(|(d, _)| d.generation > before),
            written
        );
        // The bus is brought to what was found, not to what was known.
        let plan = rig.said.iter().find_map(|effect| match effect {
            Effect::Assert { plan, .. } => Some(plan.clone()),
            _ => None,
        });
        let seat = mesh_derive::subject::seat_stream(&named("desk"));
        assert_eq!(plan.unwrap().streams.contains_key(&seat), written);
    }
}

#[test]
fn a_removal_found_on_disk_leaves_nobody_to_be_told() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: true };
    let _in_doubt = rig.command(Command::RemoveNode { node: named("a") });
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    assert!(rig.core.records().nodes.is_empty());
    assert!(rig.core.is_settled());
}

#[test]
fn a_change_the_store_never_takes_fails_alone() {
    let mut rig = Rig::new();
    rig.disk = Disk::Never;
    let error = rig
        .command(apply(declared(None, &[])))
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, CommandError::Store(_)));
    rig.disk = Disk::Takes;
    assert!(rig.command(apply(declared(None, &[]))).unwrap().is_ok());
}

#[test]
fn a_store_that_lost_what_it_took_stops_the_controller() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: false };
    let _refused = rig.command(apply(declared(None, &[])));
    rig.disk = Disk::Takes;
    rig.facts.clear();
    rig.said.clear();
    rig.pass(1_000);
    assert!(
        matches!(rig.said[..], [Effect::Reopen, Effect::Stop(_)]),
        "{:?}",
        rig.said
    );
}

#[test]
fn a_new_incarnation_tells_everybody_newer_than_ever() {
    let mut rig = Rig::with_node_a();
    rig.join("b", 'B');
    let before = rig.generation("a").max(rig.generation("b"));
    let rig = rig.restart(Start::Restored);
    assert!(rig.generation("a") > before && rig.generation("b") > before);
    assert_eq!(told(&rig.said).len(), 2);
    let incarnation = rig.core.records().incarnation;
    assert_eq!(rig.generation("a").incarnation, incarnation);
    assert_eq!(incarnation, rig.now / 1000, "seconds, where that is later");
    let continued = rig.restart(Start::Continued);
    assert_eq!(continued.core.records().incarnation, incarnation);
    assert!(
        told(&continued.said)
            .iter()
            .all(|(_, unless_there)| *unless_there)
    );
}

#[test]
fn nothing_goes_outward_before_a_new_incarnation_is_on_disk() {
    let rig = Rig::with_node_a();
    let (before, now) = (rig.core.records().incarnation, rig.now + 5_000);
    let mut heartbeat = rig.heartbeat("a", 0);
    heartbeat.deaf = true;
    let mut rig = Rig::on(
        rig.facts,
        Start::Restored,
        Disk::Refuses { written: false },
        now,
    );
    let _deaf = rig.beat(heartbeat);
    let effects = rig.core.handle_disturbed(rig.time());
    rig.carry_out(effects);
    rig.pass(400);
    let outward = |e: &Effect| matches!(e, Effect::Assert { .. } | Effect::Declare { .. });
    assert!(!rig.said.iter().any(outward) && !rig.core.is_settled());
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    assert!(rig.core.records().incarnation > before);
    assert!(rig.core.is_settled() && rig.said.iter().any(outward));
}

#[test]
fn a_new_mesh_begins_at_its_first_revision_and_needs_no_restart_to_be_found_again() {
    let rig = Rig::new();
    assert_eq!(rig.core.records().revision, Revision(1));
    let (facts, records) = (rig.facts.clone(), rig.core.records().clone());
    let again = Rig::on(facts, Start::Continued, Disk::Takes, 2_000_000);
    assert_eq!(again.core.records(), &records);
}

#[test]
fn a_preview_changes_nothing_and_names_what_an_apply_would() {
    let mut rig = Rig::with_node_a();
    let before = rig.core.records().clone();
    let next = declared(None, &[("x", &["a"])]);
    let preview = rig.core.preview(&next).unwrap();
    assert_eq!(rig.core.records(), &before);
    assert_eq!(preview.nodes, [named("a")]);
    assert!(!preview.authority.is_empty());
    rig.command(apply(next.clone())).unwrap().unwrap();
    assert!(rig.core.preview(&next).unwrap().is_empty());
}

#[test]
fn a_preview_says_that_a_removed_seat_takes_along_what_waits_for_it() {
    let mut rig = Rig::with_node_a();
    let with_seat = declared(None, &[]);
    rig.command(apply(with_seat.clone())).unwrap().unwrap();
    assert_eq!(rig.core.preview(&with_seat).unwrap().warnings, [""; 0]);
    let mut without = with_seat;
    without.seats.clear();
    for module in without.modules.values_mut() {
        module.can_hold.clear();
        module.sends_to.clear();
    }
    assert_eq!(
        rig.core.preview(&without).unwrap().warnings,
        ["seat desk is removed, and with it what waits in its queue"]
    );
    rig.command(apply(without.clone())).unwrap().unwrap();
    assert_eq!(rig.core.preview(&without).unwrap().warnings, [""; 0]);
}

#[test]
fn a_preview_names_nodes_that_are_not_enrolled_also_when_nothing_would_change() {
    let mut rig = Rig::with_node_a();
    let next = declared(None, &[("x", &["a", "tow"]), ("y", &["b", "tow"])]);
    let expected = [
        "module x is placed on tow, which is not enrolled",
        "module y is placed on b, tow, which are not enrolled",
    ];
    assert_eq!(rig.core.preview(&next).unwrap().warnings, expected);
    rig.command(apply(next.clone())).unwrap().unwrap();
    let again = rig.core.preview(&next).unwrap();
    assert!(again.is_empty());
    assert_eq!(again.warnings, expected);
}

#[test]
fn what_does_not_fit_into_the_broker_is_refused_before_it_is_declared() {
    let large = larger_than_a_broker_takes();
    let preview = |rig: &Rig| rig.core.preview(&large).map(drop);
    let join = |mut rig: Rig| {
        rig.join("a", 'A');
        rig
    };

    let mut over_nats = join(Rig::new());
    assert_eq!(preview(&over_nats), Ok(()));
    assert!(over_nats.command(apply(large.clone())).unwrap().is_ok());

    let mut over_amqp = join(Rig::over_amqp());
    let before = over_amqp.core.records().clone();
    let said = preview(&over_amqp).unwrap_err().to_string();
    let answer = over_amqp.command(apply(large.clone())).unwrap();
    assert_eq!(answer.unwrap_err().to_string(), said);
    assert!(
        said.contains("module/x@a: what it may write to mesh.ev makes a pattern of ")
            && said.contains("RabbitMQ reads at most 1024"),
        "{said}"
    );
    assert_eq!(*over_amqp.core.records(), before);
    let small = declared(None, &[("x", &["a"])]);
    assert!(over_amqp.command(apply(small)).unwrap().is_ok());
}

#[test]
fn more_labels_than_a_node_may_have_are_refused() {
    let mut rig = Rig::with_node_a();
    let labels = (0..65).map(|number| (number.to_string(), String::new()));
    let labels: mesh_model::Labels = labels.collect();
    let node = named("a");
    let result = rig.command(Command::Label { node, labels }).unwrap();
    assert!(matches!(result, Err(CommandError::Labels(_))), "{result:?}");
}
