//! What is worked out again after a change is what is worked out anew.

use std::collections::BTreeMap;

use mesh_derive::{Bounds, derive};
use mesh_model::{
    InstanceRecord, Placement, PublicKey, Records, Retiring, SeatRecord, Selector, Spent, Timestamp,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{box_key, records, user_key};

/// One change, each as much as one command or one message can bring about.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Node,
    Relabelled,
    Reboxed,
    Module,
    Placed,
    PlacedByLabel,
    Seat,
    HolderMoved,
    Instance,
    Token,
    Spent,
    KeyCollides,
    Rotated,
}

const EDITS: [Edit; 13] = [
    Edit::Node,
    Edit::Relabelled,
    Edit::Reboxed,
    Edit::Module,
    Edit::Placed,
    Edit::PlacedByLabel,
    Edit::Seat,
    Edit::HolderMoved,
    Edit::Instance,
    Edit::Token,
    Edit::Spent,
    Edit::KeyCollides,
    Edit::Rotated,
];

fn edits() -> impl Strategy<Value = Vec<(Edit, Index, Index)>> {
    let edit = (
        prop::sample::select(EDITS.to_vec()),
        any::<Index>(),
        any::<Index>(),
    );
    prop::collection::vec(edit, 1..12)
}

/// Has of one entry what the other mesh has of it: it appears, goes, or becomes another.
fn becomes<K: Ord + Clone, V: Clone>(
    here: &mut BTreeMap<K, V>,
    there: &BTreeMap<K, V>,
    pick: Index,
) {
    let keys: Vec<K> = here.keys().chain(there.keys()).cloned().collect();
    if keys.is_empty() {
        return;
    }
    let key = pick.get(&keys);
    // One that both have goes as often as it changes.
    match there.get(key).filter(|_| pick.index(2) == 0) {
        Some(value) => drop(here.insert(key.clone(), value.clone())),
        None => drop(here.remove(key)),
    }
}

fn one<K, V>(map: &mut BTreeMap<K, V>, pick: Index) -> Option<&mut V> {
    let len = map.len();
    map.values_mut()
        .nth(if len == 0 { 0 } else { pick.index(len) })
}

/// Its key before is good beside its own, or no longer.
fn rotates(record: &mut InstanceRecord, key: PublicKey) {
    let until = Timestamp::from_millis(1);
    let begins = record.life.retiring.is_none();
    record.life.retiring = begins.then_some(Retiring { key, until });
}

fn apply(edit: Edit, here: &mut Records, there: &Records, pick: Index, other: Index) {
    let label = |at: Index| BTreeMap::from([("zone".to_owned(), at.index(2).to_string())]);
    match edit {
        Edit::Node => becomes(&mut here.nodes, &there.nodes, pick),
        Edit::Relabelled => {
            if let Some(node) = one(&mut here.nodes, pick) {
                node.labels = label(other);
            }
        }
        Edit::Reboxed => {
            if let Some(node) = one(&mut here.nodes, pick) {
                node.box_key = box_key("another");
            }
        }
        Edit::Module => becomes(&mut here.declared.modules, &there.declared.modules, pick),
        Edit::Placed => {
            let placements = &there.declared.placements;
            becomes(&mut here.declared.placements, placements, pick);
        }
        Edit::PlacedByLabel => {
            if let Some(placement) = one(&mut here.declared.placements, pick) {
                let on = Selector::Labels(label(other));
                *placement = Placement { on, count: None };
            }
        }
        Edit::Seat => becomes(&mut here.declared.seats, &there.declared.seats, pick),
        Edit::HolderMoved => {
            let seats: Vec<_> = here.declared.seats.keys().cloned().collect();
            let modules: Vec<_> = here.declared.modules.keys().cloned().map(Some).collect();
            if !seats.is_empty() {
                let nobody = [modules, vec![None]].concat();
                let assigned = other.get(&nobody).clone();
                let record = SeatRecord {
                    assigned,
                    by: mesh_model::Assigner::Operator,
                };
                here.seats.insert(pick.get(&seats).clone(), record);
            }
        }
        Edit::Instance => becomes(&mut here.instances, &there.instances, pick),
        Edit::Token => becomes(&mut here.tokens, &there.tokens, pick),
        Edit::Spent => {
            if let Some(token) = one(&mut here.tokens, pick) {
                token.spent = Some(Spent {
                    node: "gone".parse().unwrap(),
                    key: user_key("node/gone"),
                    arrived: other.index(2) == 0,
                });
            }
        }
        Edit::Rotated => {
            if let Some(record) = one(&mut here.instances, pick) {
                rotates(record, user_key(["one", "old"][other.index(2)]));
            }
        }
        Edit::KeyCollides => collides(here, pick, other),
    }
}

/// Somebody has a key that somebody else may have as well.
fn collides(here: &mut Records, pick: Index, other: Index) {
    let has = match pick.index(3) {
        0 => one(&mut here.nodes, pick).map(|record| &mut record.key),
        1 => one(&mut here.instances, pick).map(|record| &mut record.key),
        _ => one(&mut here.tokens, pick).map(|record| &mut record.key),
    };
    if let Some(has) = has {
        *has = user_key(["one", "two"][other.index(2)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// D27
    #[test]
    fn after_any_changes_what_is_derived_again_is_what_is_derived_anew(
        mut here in records(),
        there in records(),
        edits in edits(),
    ) {
        let bounds = Bounds::default();
        let mut plan = derive(&here, &bounds);
        for (edit, pick, other) in edits {
            let before = here.clone();
            apply(edit, &mut here, &there, pick, other);
            plan.rederive(&before, &here, &bounds);
            prop_assert_eq!(&plan, &derive(&here, &bounds), "{:?}", edit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// D27
    #[test]
    fn from_one_mesh_to_any_other_is_derived_again_as_anew(
        meshes in prop::collection::vec(records(), 2..5),
    ) {
        let bounds = Bounds::default();
        let mut plan = derive(&meshes[0], &bounds);
        for pair in meshes.windows(2) {
            plan.rederive(&pair[0], &pair[1], &bounds);
            prop_assert_eq!(&plan, &derive(&pair[1], &bounds));
        }
    }
}
