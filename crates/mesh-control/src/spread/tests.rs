//! Where modules go, stay and leave.

use std::num::NonZeroU32;

use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, CredentialLife, InstanceRecord, PublicKey, Sealed, Timestamp,
};
use proptest::prelude::*;

use super::*;

fn named<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn node(scheduling: Scheduling, labels: &[(&str, &str)]) -> NodeRecord {
    let pairs = labels
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    NodeRecord {
        bus: BusKind::Nats,
        moving: None,
        key: PublicKey::from_raw([1; 32]),
        box_key: BoxPublicKey::from_raw([1; 32]),
        labels: pairs.collect(),
        token: named("t"),
        enrolled: Timestamp::default(),
        scheduling,
    }
}

/// A mesh of these open nodes, all of one role.
fn mesh(nodes: &[&str]) -> Records {
    let bus = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new(named("test"), bus);
    for name in nodes {
        let record = node(Scheduling::Open, &[("role", "web")]);
        records.nodes.insert(named(name), record);
    }
    records
}

fn place(records: &mut Records, module: &str, on: Selector, count: u32) {
    let count = NonZeroU32::new(count);
    let placements = &mut records.declared.placements;
    placements.insert(named(module), Placement { on, count });
}

fn web() -> Selector {
    Selector::Labels([("role".to_owned(), "web".to_owned())].into())
}

fn on(nodes: &[&str]) -> Selector {
    Selector::Nodes(nodes.iter().map(|node| named(node)).collect())
}

/// Settles where modules are, as an amendment does, and says it.
fn settle(records: &mut Records) -> Vec<String> {
    let wanted = placed(records, &standing(records));
    let words = wanted.iter().map(ToString::to_string).collect();
    let record = InstanceRecord {
        bus: BusKind::Nats,
        key: PublicKey::from_raw([2; 32]),
        credential: Sealed(Vec::new()),
        sealed_to: BoxPublicKey::from_raw([1; 32]),
        secrets: [].into(),
        life: CredentialLife::default(),
    };
    records.instances = wanted.into_iter().map(|it| (it, record.clone())).collect();
    words
}

fn schedule(records: &mut Records, node: &str, scheduling: Scheduling) {
    let record = records.nodes.get_mut(&named::<NodeName>(node)).unwrap();
    record.scheduling = scheduling;
}

#[test]
fn a_count_goes_where_least_is_and_then_by_name() {
    let mut records = mesh(&["a", "b", "c"]);
    place(&mut records, "w", on(&["a"]), 0);
    place(&mut records, "x", web(), 2);
    assert_eq!(settle(&mut records), ["w@a", "x@b", "x@c"]);
    place(&mut records, "y", web(), 1);
    place(&mut records, "z", web(), 1);
    assert_eq!(
        settle(&mut records),
        ["w@a", "x@b", "x@c", "y@a", "z@b"],
        "each has one, so the names decide; then a has two"
    );
}

#[test]
fn what_stands_stays_whatever_joins_and_a_smaller_count_leaves_where_most_is() {
    let mut records = mesh(&["m", "n"]);
    place(&mut records, "x", web(), 2);
    assert_eq!(settle(&mut records), ["x@m", "x@n"]);
    records.nodes.extend(mesh(&["a", "b"]).nodes);
    assert_eq!(settle(&mut records), ["x@m", "x@n"]);
    place(&mut records, "y", on(&["m"]), 0);
    settle(&mut records);
    place(&mut records, "x", web(), 1);
    assert_eq!(settle(&mut records), ["x@n", "y@m"]);
    place(&mut records, "x", web(), 3);
    assert_eq!(settle(&mut records), ["x@a", "x@b", "x@n", "y@m"]);
}

#[test]
fn a_cordoned_node_keeps_what_it_has_and_gets_nothing_new() {
    let mut records = mesh(&["a", "b"]);
    place(&mut records, "x", on(&["a"]), 0);
    settle(&mut records);
    schedule(&mut records, "a", Scheduling::Cordoned);
    place(&mut records, "y", on(&["a", "b"]), 0);
    place(&mut records, "z", web(), 2);
    assert_eq!(settle(&mut records), ["x@a", "y@b", "z@b"]);
    schedule(&mut records, "a", Scheduling::Open);
    assert_eq!(
        settle(&mut records),
        ["x@a", "y@a", "y@b", "z@a", "z@b"],
        "open again, it gets what it missed"
    );
    // Of two, the one that is closed is left first.
    schedule(&mut records, "a", Scheduling::Cordoned);
    place(&mut records, "z", web(), 1);
    assert_eq!(settle(&mut records), ["x@a", "y@a", "y@b", "z@b"]);
}

#[test]
fn a_drained_node_loses_all_and_a_count_goes_elsewhere_and_does_not_come_back() {
    let mut records = mesh(&["a", "b", "c"]);
    place(&mut records, "x", on(&["a"]), 0);
    place(&mut records, "y", web(), 2);
    assert_eq!(settle(&mut records), ["x@a", "y@b", "y@c"]);
    schedule(&mut records, "b", Scheduling::Drained);
    assert_eq!(settle(&mut records), ["x@a", "y@a", "y@c"]);
    schedule(&mut records, "a", Scheduling::Drained);
    assert_eq!(settle(&mut records), ["y@c"]);
    for node in ["a", "b"] {
        schedule(&mut records, node, Scheduling::Open);
    }
    assert_eq!(settle(&mut records), ["x@a", "y@b", "y@c"]);
}

#[test]
fn what_cannot_be_placed_says_why() {
    let mut records = mesh(&["a", "b", "c"]);
    records
        .nodes
        .insert(named("lone"), node(Scheduling::Open, &[]));
    let why = |records: &mut Records, on: Selector, count: u32| {
        place(records, "x", on, count);
        records.instances.clear();
        settle(records);
        let manifest = records.declared.placements.get(&named::<ModuleName>("x"));
        let nodes = records.nodes.iter();
        let closed: Vec<_> = nodes
            .filter(|(_, record)| record.scheduling != Scheduling::Open)
            .collect();
        let here = records.instances.keys().map(|it| &it.node).collect();
        let short = shortfall(records, manifest.unwrap(), &here, &closed);
        short.map(|short| (short.why, short.awaited))
    };
    let says = |why: &str, awaited| Some((why.to_owned(), awaited));
    let db = || Selector::Labels([("role".to_owned(), "db".to_owned())].into());
    assert_eq!(why(&mut records, web(), 0), None);
    assert_eq!(why(&mut records, web(), 3), None);
    assert_eq!(
        why(&mut records, web(), 5),
        says("on 3 of 5; no other enrolled node has role=web", true)
    );
    assert_eq!(
        why(&mut records, db(), 0),
        says("no enrolled node has role=db", true)
    );
    assert_eq!(
        why(&mut records, db(), 1),
        says("on 0 of 1; no enrolled node has role=db", true)
    );
    assert_eq!(
        why(&mut records, on(&["a", "tow"]), 0),
        says("not enrolled: tow", true)
    );
    assert_eq!(
        why(&mut records, on(&["a", "tow"]), 2),
        says("on 1 of 2; not enrolled: tow", true)
    );
    schedule(&mut records, "b", Scheduling::Cordoned);
    schedule(&mut records, "c", Scheduling::Drained);
    // Kept off by an operator, and running elsewhere: said, and nothing anybody waits for.
    assert_eq!(
        why(&mut records, web(), 0),
        says("cordoned: b; drained: c", false)
    );
    assert_eq!(why(&mut records, web(), 1), None);
    assert_eq!(
        why(&mut records, web(), 2),
        says("on 1 of 2; cordoned: b; drained: c", true)
    );
    assert_eq!(
        why(&mut records, on(&["b", "c"]), 0),
        says("cordoned: b; drained: c", true)
    );
}

/// Each event is reconciled by itself: with many replicas their number swings.
/// <https://github.com/wasmCloud/wadm/pull/112>
#[test]
fn case_c_39c6c9c_a_module_scaled_to_twenty_is_on_twenty_and_never_on_more() {
    let names: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut records = mesh(&names[..5]);
    place(&mut records, "x", web(), 20);
    assert_eq!(settle(&mut records).len(), 5);
    for joins in 5..30 {
        records.nodes.extend(mesh(&names[joins..=joins]).nodes);
        let before = standing(&records);
        assert_eq!(settle(&mut records).len(), 20.min(joins + 1));
        assert!(before.is_subset(&standing(&records)), "nothing moved");
    }
    for count in [19, 7, 20, 1] {
        place(&mut records, "x", web(), count);
        let on = settle(&mut records).len();
        assert_eq!(u32::try_from(on), Ok(count));
    }
}

/// One thing that happens to a mesh of up to five nodes and three modules.
#[derive(Debug, Clone)]
enum Happens {
    Joins(usize),
    Leaves(usize),
    Schedule(usize, Scheduling),
    Place(usize, bool, u32),
}

fn happens() -> impl Strategy<Value = Happens> {
    let scheduling = prop_oneof![
        Just(Scheduling::Open),
        Just(Scheduling::Cordoned),
        Just(Scheduling::Drained)
    ];
    prop_oneof![
        3 => (0..5_usize).prop_map(Happens::Joins),
        1 => (0..5_usize).prop_map(Happens::Leaves),
        3 => (0..5_usize, scheduling).prop_map(|(node, how)| Happens::Schedule(node, how)),
        3 => (0..3_usize, any::<bool>(), 0..4_u32)
            .prop_map(|(module, labels, count)| Happens::Place(module, labels, count)),
    ]
}

fn take(records: &mut Records, happens: &Happens) {
    let node = |at: &usize| format!("n{at}");
    match happens {
        Happens::Joins(at) => {
            let joins = mesh(&[&node(at)]).nodes.into_iter();
            for (name, record) in joins {
                records.nodes.entry(name).or_insert(record);
            }
        }
        Happens::Leaves(at) => {
            records.nodes.remove(&named::<NodeName>(&node(at)));
        }
        Happens::Schedule(at, scheduling) => {
            if let Some(record) = records.nodes.get_mut(&named::<NodeName>(&node(at))) {
                record.scheduling = *scheduling;
            }
        }
        Happens::Place(module, labels, count) => {
            let selector = if *labels {
                web()
            } else {
                on(&["n0", "n2", "n4"])
            };
            place(records, &format!("m{module}"), selector, *count);
        }
    }
}

proptest! {
    #[test]
    fn a_count_is_kept_and_nothing_moves_without_need(story in prop::collection::vec(happens(), 1..40)) {
        let mut records = mesh(&[]);
        for happens in &story {
            let before = standing(&records);
            take(&mut records, happens);
            let again = placed(&records, &before);
            settle(&mut records);
            let after = standing(&records);
            prop_assert_eq!(&again, &after);
            // Settled once more, nothing is another: what it comes to is at rest.
            prop_assert_eq!(&placed(&records, &after), &after);
            for (module, placement) in &records.declared.placements {
                let of = |set: &Standing| -> BTreeSet<NodeName> {
                    let own = set.iter().filter(|it| it.module == *module);
                    own.map(|it| it.node.clone()).collect()
                };
                let (was, is) = (of(&before), of(&after));
                let meant = |node: &NodeName| {
                    records.nodes.get(node).is_some_and(|record| {
                        placement.on.selects(node, &record.labels)
                            && record.scheduling != Scheduling::Drained
                    })
                };
                let open = |node: &NodeName| {
                    meant(node) && records.nodes[node].scheduling == Scheduling::Open
                };
                prop_assert!(is.iter().all(&meant));
                prop_assert!(is.difference(&was).all(&open));
                let most = placement.count.map_or(usize::MAX, |count| count.get() as usize);
                prop_assert!(is.len() <= most);
                // As many as there can be.
                let room = records.nodes.keys().filter(|node| open(node) || was.contains(*node) && meant(node));
                prop_assert_eq!(is.len(), most.min(room.count()));
                // Who leaves may not stay, or is one too many.
                let may_stay: Vec<_> = was.iter().filter(|node| meant(node)).collect();
                let stay = may_stay.iter().filter(|node| is.contains(**node)).count();
                prop_assert_eq!(stay, may_stay.len().min(most));
            }
        }
    }

    #[test]
    fn where_modules_go_does_not_hang_on_the_order_they_were_placed_in(
        places in prop::collection::vec((0..3_usize, any::<bool>(), 0..4_u32), 1..4),
        nodes in 1..5_usize,
    ) {
        let joined = |order: &mut dyn Iterator<Item = usize>| {
            let mut records = mesh(&[]);
            for at in order {
                take(&mut records, &Happens::Joins(at));
            }
            records
        };
        let places: BTreeMap<usize, (bool, u32)> =
            places.into_iter().map(|(module, labels, count)| (module, (labels, count))).collect();
        let mut forth = joined(&mut (0..nodes));
        let mut back = joined(&mut (0..nodes).rev());
        for (module, (labels, count)) in &places {
            take(&mut forth, &Happens::Place(*module, *labels, *count));
        }
        for (module, (labels, count)) in places.iter().rev() {
            take(&mut back, &Happens::Place(*module, *labels, *count));
        }
        prop_assert_eq!(settle(&mut forth), settle(&mut back));
    }
}
