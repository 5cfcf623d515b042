//! Over real plans: two nodes, one on each bus, three modules somewhere, two seats that somebody holds.

use mesh_derive::{Bounds, derive, in_parts};
use mesh_model::{
    BoxPublicKey, BusFacts, Declared, InstanceRecord, InstanceRef, Manifest, ModuleName, NodeName,
    NodeRecord, Placement, PublicKey, Records, Restart, Run, Sealed, Selector, Timestamp,
};
use proptest::prelude::*;

use super::*;

/// Where each of three modules runs (on neither node, on either, on both) and who holds each of two seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mesh {
    runs: [[bool; 2]; 3],
    holds: [Option<usize>; 2],
    /// Which keys the instances have.
    minted: u8,
}

const NODES: [(&str, BusKind); 2] = [("a", BusKind::Nats), ("b", BusKind::Amqp)];
const MODULES: [&str; 3] = ["m0", "m1", "m2"];
const SEATS: [&str; 2] = ["s0", "s1"];

fn any_mesh() -> impl Strategy<Value = Mesh> {
    let holds = proptest::array::uniform2(proptest::option::of(0..3_usize));
    let runs = proptest::array::uniform3(proptest::array::uniform2(any::<bool>()));
    (runs, holds, 0..2_u8).prop_map(|(runs, holds, minted)| Mesh {
        runs,
        holds,
        minted,
    })
}

/// A mesh with `m0` on NATS and `m1` on AMQP, the first seat held by one of them.
fn mesh(holder: Option<usize>) -> Mesh {
    Mesh {
        runs: [[true, false], [false, true], [false, false]],
        holds: [holder, None],
        minted: 0,
    }
}

fn key(of: &str, minted: u8) -> PublicKey {
    let mut raw = [minted; 32];
    for (at, byte) in raw.iter_mut().zip(of.bytes()) {
        *at ^= byte;
    }
    PublicKey::from_raw(raw)
}

fn parts(mesh: Mesh) -> Parts {
    let bus = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new("home".parse().unwrap(), bus);
    let seats = SEATS.iter().zip(mesh.holds);
    records.declared = Declared {
        mesh: "home".parse().unwrap(),
        modules: MODULES.map(manifest).into(),
        seats: seats
            .map(|(seat, holder)| {
                let holder = holder.map(|at| MODULES[at].parse().unwrap());
                (seat.parse().unwrap(), mesh_model::SeatSpec::from(holder))
            })
            .collect(),
        placements: [].into(),
    };
    for (node, bus) in NODES {
        let record = NodeRecord {
            bus,
            moving: None,
            key: key(node, 0),
            box_key: BoxPublicKey::from_raw([1; 32]),
            labels: [].into(),
            token: "t".parse().unwrap(),
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node.parse().unwrap(), record);
    }
    for (module, runs) in MODULES.iter().zip(mesh.runs) {
        let module: ModuleName = module.parse().unwrap();
        let on = NODES.iter().zip(runs).filter(|(_, runs)| *runs);
        let on: Vec<(NodeName, BusKind)> = on
            .map(|((node, bus), _)| (node.parse().unwrap(), *bus))
            .collect();
        for (node, bus) in &on {
            let instance = InstanceRef {
                module: module.clone(),
                node: node.clone(),
            };
            let record = InstanceRecord {
                bus: *bus,
                key: key(&instance.to_string(), mesh.minted),
                credential: Sealed(vec![]),
                sealed_to: BoxPublicKey::from_raw([1; 32]),
                secrets: [].into(),
                life: mesh_model::CredentialLife::default(),
            };
            records.instances.insert(instance, record);
        }
        let on = Selector::Nodes(on.into_iter().map(|(node, _)| node).collect());
        records
            .declared
            .placements
            .insert(module, Placement { on, count: None });
    }
    let mut plan = derive(&records, &Bounds::default());
    in_parts(&mut plan, &records, &BusKind::ALL.into());
    plan.parts
}

fn manifest(module: &str) -> (ModuleName, Manifest) {
    let manifest = Manifest {
        module: module.parse().unwrap(),
        release: "1".to_owned(),
        run: Run::command(["true".to_owned()]).unwrap(),
        after: [].into(),
        env: [].into(),
        restart: Restart::Always,
        emits: ["said".parse().unwrap()].into(),
        follows: ["m0.said".parse().unwrap()].into(),
        can_hold: SEATS.map(|seat| seat.parse().unwrap()).into(),
        sends_to: SEATS.map(|seat| seat.parse().unwrap()).into(),
        health: None,
        secrets: [].into(),
    };
    (manifest.module.clone(), manifest)
}

/// All that a plan gives, one right of one key each.
fn rights(plan: &Plan) -> BTreeSet<String> {
    let mut rights: BTreeSet<String> = plan
        .carried
        .iter()
        .map(|it| format!("carry {it}"))
        .collect();
    let users = plan.users.iter().map(|(key, of)| (key.to_string(), of));
    for (key, of) in users.chain([("controller".to_owned(), &Principal::Controller)]) {
        let grant = plan.grants.get(of).cloned().unwrap_or_default();
        let publish = grant.publish.iter().map(|entry| format!("say {entry}"));
        let subscribe = grant.subscribe.iter().map(|entry| format!("hear {entry}"));
        let queues = grant.queues.iter();
        let queues = queues.map(|it| format!("read {} in {}", it.filter, it.queue.as_str()));
        rights.extend(
            publish
                .chain(subscribe)
                .chain(queues)
                .map(|right| format!("{key} {right}")),
        );
        rights.insert(format!("{key} is {of}"));
    }
    rights
}

/// The rights to read seats, of those who are not the controller.
fn reading(plan: &Plan) -> BTreeSet<String> {
    let mut rights = rights(plan);
    rights.retain(|right| {
        right.contains("read mesh.deliver.seat.") && !right.starts_with("controller")
    });
    rights
}

/// Takes the steps, each bus of a step in this order, and calls `see` with what there is after each.
fn taken(from: &Parts, steps: &[Step], order: [BusKind; 2], see: &mut dyn FnMut(&Parts)) -> Parts {
    let mut now = from.clone();
    for step in steps {
        for bus in order {
            if let Some(plan) = step.get(&bus) {
                now.insert(bus, plan.clone());
            }
            see(&now);
        }
    }
    now
}

/// Nobody has gained on one bus while somebody on the other has what he is to lose.
fn law(from: &Parts, now: &Parts, next: &Parts, of: fn(&Plan) -> BTreeSet<String>) {
    for bus in BusKind::ALL {
        let other = bus.other();
        let (was, has) = (of(&from[&bus]), of(&now[&bus]));
        let gained: Vec<&String> = has.difference(&was).collect();
        let (has, to_have) = (of(&now[&other]), of(&next[&other]));
        let stale: Vec<&String> = has.difference(&to_have).collect();
        assert!(
            gained.is_empty() || stale.is_empty(),
            "{gained:?} on {bus} while {stale:?} on {other}"
        );
    }
}

fn known(parts: &Parts) -> Held {
    let held = parts.iter();
    held.map(|(bus, plan)| (*bus, vec![plan.clone()])).collect()
}

const ORDERS: [[BusKind; 2]; 2] = [
    [BusKind::Nats, BusKind::Amqp],
    [BusKind::Amqp, BusKind::Nats],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nobody_gains_on_one_bus_before_what_is_lost_on_the_other_is_withdrawn(
        before in any_mesh(), next in any_mesh()
    ) {
        let (before, next) = (parts(before), parts(next));
        let steps = steps(&known(&before), &next);
        for order in ORDERS {
            let ended = taken(&before, &steps, order, &mut |now| law(&before, now, &next, rights));
            prop_assert_eq!(&ended, &next);
        }
    }

    #[test]
    fn nor_does_anybody_after_a_step_that_broke_off(
        before in any_mesh(), broken in any_mesh(), next in any_mesh(), reached in any::<[bool; 2]>()
    ) {
        let (before, broken, next) = (parts(before), parts(broken), parts(next));
        let mut held = known(&before);
        let mut there = before;
        // Both were begun, and of each it is not known whether it got anywhere.
        for (bus, reached) in BusKind::ALL.into_iter().zip(reached) {
            held.get_mut(&bus).unwrap().push(broken[&bus].clone());
            if reached {
                there.insert(bus, broken[&bus].clone());
            }
        }
        let steps = steps(&held, &next);
        for order in ORDERS {
            let ended = taken(&there, &steps, order, &mut |now| law(&there, now, &next, rights));
            prop_assert_eq!(&ended, &next);
        }
    }

    #[test]
    fn where_nothing_is_known_of_one_bus_nobody_on_the_other_loses_what_he_keeps(
        before in any_mesh(), next in any_mesh(), unknown in 0..2_usize
    ) {
        let (before, next) = (parts(before), parts(next));
        let mut held = known(&before);
        let unknown = BusKind::ALL[unknown];
        held.remove(&unknown);
        let other = unknown.other();
        let (was, to_be) = (rights(&before[&other]), rights(&next[&other]));
        let kept: BTreeSet<&String> = was.intersection(&to_be).collect();
        let steps = steps(&held, &next);
        for order in ORDERS {
            let ended = taken(&before, &steps, order, &mut |now| {
                law(&before, now, &next, rights);
                let there = rights(&now[&other]);
                assert!(kept.iter().all(|right| there.contains(*right)));
            });
            prop_assert_eq!(&ended, &next);
        }
    }

    #[test]
    fn where_nothing_is_known_no_seat_is_read_on_both_buses_by_mistake(
        before in any_mesh(), next in any_mesh()
    ) {
        let (before, next) = (parts(before), parts(next));
        let steps = steps(&Held::new(), &next);
        for order in ORDERS {
            let ended = taken(&before, &steps, order, &mut |now| law(&before, now, &next, reading));
            prop_assert_eq!(&ended, &next);
        }
    }
}

/// Which buses each step is about.
fn about(steps: &[Step]) -> Vec<Vec<BusKind>> {
    let buses = |step: &Step| step.keys().copied().collect();
    steps.iter().map(buses).collect()
}

#[test]
fn a_step_more_is_taken_only_where_one_loses_and_the_other_gains() {
    let (nats, amqp) = (BusKind::Nats, BusKind::Amqp);
    let alone = Mesh {
        runs: [[true, false], [false, false], [false, false]],
        ..mesh(None)
    };
    let cases = [
        (
            "the same",
            mesh(Some(0)),
            mesh(Some(0)),
            vec![vec![nats, amqp]],
        ),
        (
            "another instance",
            alone,
            mesh(None),
            vec![vec![nats, amqp]],
        ),
        (
            "an instance less",
            mesh(None),
            alone,
            vec![vec![nats, amqp]],
        ),
        (
            "a seat handed over",
            mesh(Some(0)),
            mesh(Some(1)),
            vec![vec![nats, amqp], vec![nats, amqp]],
        ),
    ];
    for (what, before, next, expected) in cases {
        let steps = steps(&known(&parts(before)), &parts(next));
        assert_eq!(about(&steps), expected, "{what}");
    }
}

#[test]
fn in_the_first_step_of_a_hand_over_nobody_reads_the_seat_and_all_else_goes_on() {
    let (before, next) = (parts(mesh(Some(0))), parts(mesh(Some(1))));
    let steps = steps(&known(&before), &next);
    for (bus, less) in &steps[0] {
        assert_eq!(reading(less), BTreeSet::new());
        let kept: BTreeSet<String> = rights(&before[bus])
            .intersection(&rights(&next[bus]))
            .cloned()
            .collect();
        assert_eq!(rights(less), kept);
        assert_eq!(less.streams, next[bus].streams);
        assert_eq!(less.consumers, next[bus].consumers);
    }
}

/// One that is away for long is forgotten in the end: the other must not pay for it each time that is tried again.
#[test]
fn where_one_is_forgotten_the_holders_on_the_other_go_on_while_it_is_away() {
    let each = parts(Mesh {
        holds: [Some(0), Some(1)],
        ..mesh(None)
    });
    for away in BusKind::ALL {
        let mut held = known(&each);
        held.remove(&away);
        let steps = steps(&held, &each);
        let there = away.other();
        assert_eq!(about(&steps), [vec![there], vec![away]]);
        assert_eq!(steps[0][&there], each[&there]);
    }
}

#[test]
fn at_first_the_bus_with_fewer_holders_goes_first_and_none_of_one_without_any_is_kept_waiting() {
    let (nats, amqp) = (BusKind::Nats, BusKind::Amqp);
    let each = Mesh {
        holds: [Some(0), Some(1)],
        ..mesh(None)
    };
    for (next, expected) in [
        (mesh(Some(0)), vec![vec![amqp], vec![nats]]),
        (mesh(Some(1)), vec![vec![nats], vec![amqp]]),
        (each, vec![vec![nats], vec![amqp], vec![nats]]),
    ] {
        let steps = steps(&Held::new(), &parts(next));
        assert_eq!(about(&steps), expected, "{next:?}");
    }
}
