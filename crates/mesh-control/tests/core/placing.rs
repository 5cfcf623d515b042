//! Where modules run: counted, kept off, and what is said of that.

use mesh_control::{Command, CommandError, ModuleStatus, NodeStatus};
use mesh_model::{Declared, Placement, Scheduling, Selector};

use crate::rig::*;

/// Module `x` on so many nodes of any kind.
fn spread(count: u32) -> Declared {
    let mut declared = declared(None, &[]);
    let on = Selector::Labels([].into());
    let count = std::num::NonZeroU32::new(count);
    declared
        .placements
        .insert(named("x"), Placement { on, count });
    declared.modules.remove(&named("y"));
    declared
}

fn schedule(rig: &mut Rig, node: &str, scheduling: Scheduling) {
    let node = named(node);
    rig.command(Command::Schedule { node, scheduling })
        .unwrap()
        .unwrap();
}

fn module(rig: &Rig) -> ModuleStatus {
    rig.core.status(rig.time()).modules.remove(0)
}

fn node(rig: &Rig, name: &str) -> NodeStatus {
    let nodes = rig.core.status(rig.time()).nodes;
    nodes.into_iter().find(|it| it.node == named(name)).unwrap()
}

fn nodes(rig: &Rig) -> Vec<String> {
    module(rig).nodes.iter().map(ToString::to_string).collect()
}

fn mesh_of(nodes: &[(&str, char)]) -> Rig {
    let mut rig = Rig::new();
    for (name, key) in nodes {
        rig.join(name, *key);
    }
    rig
}

#[test]
fn a_drained_node_is_told_to_run_nothing_and_a_count_goes_elsewhere() {
    let mut rig = mesh_of(&[("a", 'A'), ("b", 'B'), ("c", 'C')]);
    rig.command(apply(spread(2))).unwrap().unwrap();
    assert_eq!(nodes(&rig), ["a", "b"]);
    let before = rig.generation("b");
    schedule(&mut rig, "a", Scheduling::Drained);
    assert_eq!(nodes(&rig), ["b", "c"]);
    let told = &rig.core.declarations()[&named("a")];
    assert!(told.workloads.is_empty());
    assert_eq!(
        rig.generation("b"),
        before,
        "who is not concerned hears nothing"
    );
    assert_eq!(node(&rig, "a").scheduling, Scheduling::Drained);
    // Its credential there ended with it.
    let users = rig.core.plan().users;
    let x_on_a = mesh_model::Principal::Instance(mesh_model::InstanceRef {
        module: named("x"),
        node: named("a"),
    });
    assert!(!users.values().any(|user| *user == x_on_a));
    // An apply keeps what an operator said of a node.
    rig.command(apply(spread(3))).unwrap().unwrap();
    assert_eq!(nodes(&rig), ["b", "c"]);
    assert_eq!(
        module(&rig).unplaced.as_deref(),
        Some("on 2 of 3; drained: a")
    );
    let waits = rig.core.status(rig.time()).waiting_for;
    let sentence = "module x is not placed: on 2 of 3; drained: a".to_owned();
    assert!(waits.contains(&sentence), "{waits:?}");
    schedule(&mut rig, "a", Scheduling::Open);
    assert_eq!(nodes(&rig), ["a", "b", "c"]);
    assert_eq!(module(&rig).unplaced, None);
}

#[test]
fn a_node_that_is_lost_keeps_what_it_has() {
    let mut rig = mesh_of(&[("a", 'A'), ("b", 'B')]);
    rig.command(apply(spread(1))).unwrap().unwrap();
    let _heard = rig.beat(rig.heartbeat("a", 0));
    rig.pass(7 * 24 * 3_600_000);
    rig.join("c", 'C');
    rig.command(apply(spread(1))).unwrap().unwrap();
    assert_eq!(node(&rig, "a").state, mesh_control::NodeState::Lost);
    assert_eq!(nodes(&rig), ["a"]);
}

#[test]
fn a_node_that_joins_makes_up_a_count_and_moves_nobody() {
    let mut rig = mesh_of(&[("m", 'M')]);
    rig.command(apply(spread(2))).unwrap().unwrap();
    let short = "on 1 of 2; no other enrolled node has ";
    assert_eq!(module(&rig).unplaced.as_deref(), Some(short));
    rig.join("b", 'B');
    rig.join("a", 'A');
    assert_eq!(nodes(&rig), ["b", "m"]);
}

#[test]
fn a_machine_that_is_set_up_anew_stays_what_it_was_to_placement() {
    let mut rig = mesh_of(&[("a", 'A'), ("b", 'B'), ("c", 'C')]);
    rig.command(apply(spread(1))).unwrap().unwrap();
    let key = |rig: &Rig| {
        rig.core
            .records()
            .instances
            .values()
            .next()
            .unwrap()
            .key
            .clone()
    };
    let before = key(&rig);
    for (node, token, letter) in [("a", "re-a", 'D'), ("b", "re-b", 'E')] {
        schedule(&mut rig, node, Scheduling::Cordoned);
        rig.create_token(token, |it| {
            it.rejoin = true;
            it.node = Some(named(node));
        });
        let (_, said) = rig.hear(rig.request(token, None, letter));
        assert_eq!(answers(&said).len(), 1);
        assert_eq!(self::node(&rig, node).scheduling, Scheduling::Cordoned);
    }
    assert_eq!(
        nodes(&rig),
        ["a"],
        "a module goes nowhere because its node was set up anew"
    );
    assert_ne!(key(&rig), before, "and its credential is another");
}

#[test]
fn a_preview_says_which_nodes_a_count_chooses_and_which_are_closed() {
    let mut rig = mesh_of(&[("a", 'A'), ("b", 'B'), ("c", 'C')]);
    let names = |nodes: &std::collections::BTreeSet<mesh_model::NodeName>| {
        nodes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let preview = rig.core.preview(&spread(2)).unwrap();
    let chosen = &preview.chosen[0];
    assert_eq!(
        (names(&chosen.nodes), names(&chosen.leaves)),
        (vec!["a".into(), "b".into()], vec![])
    );
    rig.command(apply(spread(2))).unwrap().unwrap();
    assert!(rig.core.preview(&spread(2)).unwrap().chosen.is_empty());
    schedule(&mut rig, "a", Scheduling::Cordoned);
    let preview = rig.core.preview(&spread(1)).unwrap();
    let chosen = &preview.chosen[0];
    assert_eq!(
        (names(&chosen.nodes), names(&chosen.joins)),
        (vec!["b".into()], vec![])
    );
    assert_eq!(names(&chosen.leaves), ["a"]);
    assert_eq!(
        preview.warnings,
        ["node a is cordoned: nothing new is placed on it; `meshctl node uncordon a` ends that"]
    );
    let preview = rig.core.preview(&spread(4)).unwrap();
    let short = "module x is not placed as declared: on 3 of 4; no other enrolled node has ";
    assert!(
        preview.warnings.iter().any(|it| it == short),
        "{:?}",
        preview.warnings
    );
}

#[test]
fn a_node_there_is_not_is_neither_cordoned_nor_drained() {
    let mut rig = Rig::with_node_a();
    let (node, scheduling) = (named("z"), Scheduling::Drained);
    let result = rig.command(Command::Schedule { node, scheduling });
    assert_eq!(result.unwrap(), Err(CommandError::UnknownNode(named("z"))));
}

#[test]
fn what_an_operator_said_of_a_node_outlives_the_controller() {
    let mut rig = mesh_of(&[("a", 'A'), ("b", 'B')]);
    schedule(&mut rig, "a", Scheduling::Drained);
    let mut rig = rig.restart(mesh_control::Start::Continued);
    rig.command(apply(spread(1))).unwrap().unwrap();
    assert_eq!(nodes(&rig), ["b"]);
}
