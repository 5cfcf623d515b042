//! The bus is brought to what follows from the records, and only then are nodes told.

use mesh_control::{Effect, Start};

use crate::rig::*;

#[test]
fn nodes_are_told_only_once_the_bus_is_ready_for_them() {
    let mut rig = Rig::with_node_a();
    rig.bus = false;
    let _stored = rig.command(apply(declared(None, &[("x", &["a"])])));
    assert!(told(&rig.said).is_empty());
    let Some(Effect::Assert { version, .. }) = rig.said.last().cloned() else {
        panic!("{:?}", rig.said)
    };
    let said = rig.core.handle_asserted(version + 1, Ok(()), rig.time());
    assert!(said.is_empty(), "a version nobody asked for");
    let said = rig.core.handle_asserted(version, Ok(()), rig.time());
    let declarations = told(&said);
    assert_eq!(declarations.len(), 1);
    let generation = declarations[0].0.generation;
    let said = rig
        .core
        .handle_declared(&named("a"), generation, Err("no".to_owned()), rig.time());
    assert!(told(&said).is_empty() && !rig.core.is_settled());
    rig.now += 499;
    assert!(told(&rig.core.tick(rig.time())).is_empty());
    rig.now += 1;
    assert_eq!(told(&rig.core.tick(rig.time())).len(), 1);
    let _told = rig
        .core
        .handle_declared(&named("a"), generation, Ok(()), rig.time());
    assert!(rig.core.is_settled());
}

#[test]
fn what_was_disturbed_is_looked_at_and_told_again_only_where_it_is_missing() {
    let mut rig = Rig::with_node_a();
    let effects = rig.core.handle_disturbed(rig.time());
    rig.carry_out(effects);
    let asserted = position(&rig.said, |e| matches!(e, Effect::Assert { .. }));
    let declared = position(&rig.said, |e| matches!(e, Effect::Declare { .. }));
    assert!(asserted < declared);
    assert!(
        told(&rig.said)
            .iter()
            .all(|(_, unless_there)| *unless_there)
    );
    assert!(rig.core.is_settled());
}

#[test]
fn a_start_looks_at_the_bus_and_tells_only_where_it_is_missing() {
    let mut rig = Rig::with_node_a();
    rig.join("b", 'B');
    let rig = rig.restart(Start::Continued);
    let told = told(&rig.said);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(_, unless_there)| *unless_there) && rig.core.is_settled());
}

#[test]
fn a_start_tells_nobody_who_has_answered_what_he_was_told() {
    let mut rig = Rig::with_node_a();
    rig.join("b", 'B');
    let answer = rig.report("a", 1);
    rig.hear(says(&answer));
    let rig = rig.restart(Start::Continued);
    let told = told(&rig.said);
    let told: Vec<_> = told.iter().map(|(told, _)| told.node.as_str()).collect();
    assert_eq!(told, ["b"]);
    assert!(rig.core.is_settled());
}

#[test]
fn a_declaration_that_changed_while_one_was_on_its_way_is_told_after_it() {
    let mut rig = Rig::with_node_a();
    rig.bus = false;
    let _first = rig.command(apply(declared(None, &[("x", &["a"])])));
    let first = rig.generation("a");
    let version = |said: &[Effect]| {
        said.iter().rev().find_map(|effect| match effect {
            Effect::Assert { version, .. } => Some(*version),
            _ => None,
        })
    };
    let asserted = version(&rig.said).unwrap();
    let said = rig.core.handle_asserted(asserted, Ok(()), rig.time());
    assert_eq!(told(&said)[0].0.generation, first);
    rig.said.clear();
    let _second = rig.command(apply(declared(None, &[("x", &["a"]), ("y", &["a"])])));
    let second = rig.generation("a");
    let said = rig
        .core
        .handle_asserted(version(&rig.said).unwrap(), Ok(()), rig.time());
    assert!(told(&said).is_empty(), "the first is still on its way");
    let said = rig
        .core
        .handle_declared(&named("a"), first, Ok(()), rig.time());
    assert_eq!(told(&said)[0].0.generation, second);
}

#[test]
fn a_node_that_is_deaf_has_its_consumer_looked_at_once() {
    let mut rig = Rig::with_node_a();
    let _arrived = rig.beat(rig.heartbeat("a", 0));
    let mut heartbeat = rig.heartbeat("a", 0);
    heartbeat.deaf = true;
    let asserts = |said: &[Effect]| {
        let assert = |e: &&Effect| matches!(e, Effect::Assert { .. });
        said.iter().filter(assert).count()
    };
    assert_eq!(asserts(&rig.beat(heartbeat.clone())), 1);
    assert_eq!(asserts(&rig.beat(heartbeat)), 0);
}

#[test]
fn many_deaf_nodes_have_the_bus_looked_at_once_in_a_while() {
    let mut rig = Rig::new();
    let names = ["a", "b", "c", "d", "e"];
    for (name, key) in names.into_iter().zip('A'..) {
        rig.join(name, key);
        let _arrived = rig.beat(rig.heartbeat(name, 0));
    }
    rig.said.clear();
    for name in names {
        let mut heartbeat = rig.heartbeat(name, 0);
        heartbeat.deaf = true;
        let said = rig.beat(heartbeat);
        rig.said.extend(said);
    }
    assert_eq!(outward(&rig.said), 1);
    rig.pass(19_999);
    assert_eq!(outward(&rig.said), 1);
    rig.pass(1);
    assert_eq!(outward(&rig.said), 2, "for those that said so since");
    rig.pass(60_000);
    assert_eq!(outward(&rig.said), 2);
}

#[test]
fn a_clock_set_back_does_not_keep_the_store_closed() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: false };
    let _held = rig.hear(says(&rig.report("a", 1)));
    rig.disk = Disk::Takes;
    rig.now -= 900_000;
    rig.pass(0);
    assert!(rig.core.status(rig.time()).store_up);
}

fn outward(said: &[Effect]) -> usize {
    let is = |e: &&Effect| matches!(e, Effect::Assert { .. } | Effect::Declare { .. });
    said.iter().filter(is).count()
}

#[test]
fn nothing_is_said_to_a_bus_that_is_not_reached_and_everything_once_it_is() {
    let mut rig = Rig::with_node_a();
    assert!(rig.core.handle_link(false, rig.time()).is_empty());
    let _stored = rig.command(apply(declared(None, &[("x", &["a"])])));
    rig.pass(600_000);
    assert_eq!(outward(&rig.said), 0);
    let effects = rig.core.handle_link(true, rig.time());
    rig.carry_out(effects);
    assert_eq!(outward(&rig.said), 2);
    assert!(rig.core.is_settled());
}

#[test]
fn a_bus_that_refuses_is_tried_ever_more_rarely_and_said_so_once() {
    let mut rig = Rig::with_node_a();
    rig.bus = false;
    let _stored = rig.command(apply(declared(None, &[("x", &["a"])])));
    let (mut tried, mut notes) = (0, 0);
    let mut said = std::mem::take(&mut rig.said);
    for _ in 0..6_000 {
        for effect in std::mem::take(&mut said) {
            match effect {
                Effect::Assert { version, .. } => {
                    tried += 1;
                    let result = Err("no".to_owned());
                    said.extend(rig.core.handle_asserted(version, result, rig.time()));
                }
                Effect::Note(mesh_control::Note::NotAsserted(_)) => notes += 1,
                _ => {}
            }
        }
        rig.now += 100;
        said.extend(rig.core.tick(rig.time()));
    }
    assert!((20..30).contains(&tried), "{tried} times in ten minutes");
    assert_eq!(notes, 1);
    let effects = rig.core.handle_link(false, rig.time());
    assert!(effects.is_empty());
    assert_eq!(outward(&rig.core.handle_link(true, rig.time())), 1);
}

#[test]
fn told_again_that_it_is_reached_what_failed_is_tried_at_once() {
    let mut rig = Rig::with_node_a();
    rig.bus = false;
    let _stored = rig.command(apply(declared(None, &[("x", &["a"])])));
    let mut said = std::mem::take(&mut rig.said);
    while let Some(effect) = said.pop() {
        if let Effect::Assert { version, .. } = effect {
            let result = Err("one of two is away".to_owned());
            said.extend(rig.core.handle_asserted(version, result, rig.time()));
        }
    }
    assert_eq!(outward(&rig.core.tick(rig.time())), 0);
    assert_eq!(outward(&rig.core.handle_link(true, rig.time())), 1);
}

#[test]
fn a_declaration_that_ends_has_no_other_nodes_looked_through() {
    let mut rig = Rig::with_node_a();
    rig.join("b", 'B');
    rig.bus = false;
    let effects = rig.core.handle_disturbed(rig.time());
    let Some(Effect::Assert { version, .. }) = effects.first() else {
        panic!("{effects:?}")
    };
    let said = rig.core.handle_asserted(*version, Ok(()), rig.time());
    assert_eq!(told(&said).len(), 2);
    let mut failed = |node: &str| {
        let generation = rig.generation(node);
        let result = Err("no".to_owned());
        let (node, now) = (named(node), rig.time());
        rig.core.handle_declared(&node, generation, result, now)
    };
    assert!(told(&failed("a")).is_empty());
    rig.now += 500;
    let generation = rig.generation("b");
    let said = rig
        .core
        .handle_declared(&named("b"), generation, Ok(()), rig.time());
    assert!(told(&said).is_empty(), "node a waits for the tick");
    assert_eq!(told(&rig.core.tick(rig.time())).len(), 1);
}
