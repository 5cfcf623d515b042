//! Patterns: exactly the keys they are made of, in few enough bytes.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::topology::{Exchange, Key, Rights, TopologyFault};
use mesh_model::EventName;
use proptest::prelude::*;
use regex::Regex;

use super::laid;
use crate::common::{add_module, add_node, empty, manifest};

fn pattern(keys: &BTreeSet<String>) -> String {
    let keys = keys.iter().cloned().map(Key::Is).collect();
    let rights = Rights {
        keys: BTreeMap::from([(Exchange::Events, keys)]),
        ..Rights::default()
    };
    rights.topic_patterns().next().unwrap().1
}

proptest! {
    /// D43
    #[test]
    fn a_pattern_allows_its_keys_and_nothing_beside(
        keys in prop::collection::btree_set("[ab0-3-]{1,3}(\\.[ab-]{1,2}){0,2}", 1..12),
        others in prop::collection::vec("[ab0-3-]{1,3}(\\.[ab-]{1,2}){0,2}", 12),
    ) {
        let regex = Regex::new(&pattern(&keys)).unwrap();
        for key in &keys {
            prop_assert!(regex.is_match(key), "{} {}", regex, key);
            for beside in [format!("{key}\n"), format!("{key}0x"), format!("x{key}"), key.replace('.', "X") + "y"] {
                prop_assert!(!regex.is_match(&beside), "{} {:?}", regex, beside);
            }
        }
        for other in others {
            prop_assert_eq!(regex.is_match(&other), keys.contains(&other), "{} {}", regex, other);
        }
    }
}

/// D43
#[test]
fn a_pattern_that_lists_nothing_allows_nothing() {
    let regex = Regex::new(&pattern(&BTreeSet::new())).unwrap();
    for key in ["a", "a.b", "#"] {
        assert!(!regex.is_match(key), "{key}");
    }
}

/// The faults of a mesh whose one module emits these events.
fn emitting(events: BTreeSet<EventName>) -> Vec<TopologyFault> {
    let mut records = empty();
    add_node(&mut records, "n1");
    let shop = mesh_model::Manifest {
        emits: events,
        ..manifest("shop")
    };
    add_module(&mut records, shop, &["n1"]);
    laid(&records).1.check()
}

/// D46
#[test]
fn hundreds_of_events_fit_where_their_names_have_much_in_common() {
    const THINGS: [&str; 20] = [
        "order",
        "invoice",
        "payment",
        "refund",
        "cart",
        "customer",
        "address",
        "product",
        "stock",
        "price",
        "coupon",
        "shipment",
        "parcel",
        "return",
        "review",
        "rating",
        "session",
        "login",
        "account",
        "newsletter",
    ];
    const DONE: [&str; 15] = [
        "created", "updated", "deleted", "archived", "restored", "approved", "rejected", "sent",
        "failed", "expired", "paid", "printed", "merged", "split", "moved",
    ];
    let events = THINGS
        .iter()
        .flat_map(|thing| DONE.map(|done| format!("{thing}.{done}")));
    let events: BTreeSet<EventName> = events.map(|name| name.parse().unwrap()).collect();
    assert_eq!(events.len(), 300);
    assert_eq!(emitting(events), []);
    let numbered = (0..5000).map(|n| format!("sensor-{n}.read").parse().unwrap());
    assert_eq!(emitting(numbered.collect()), []);
}

/// D46
#[test]
fn a_module_whose_events_do_not_fit_is_named_with_the_limit() {
    use sha2::{Digest, Sha256};
    let name = |n: u32| {
        let digest = Sha256::digest(n.to_be_bytes());
        let digits = u64::from_be_bytes(*digest.first_chunk().unwrap());
        format!("{digits:016x}").parse().unwrap()
    };
    let faults = emitting((0..200).map(name).collect());
    let [
        fault @ TopologyFault::PatternTooLong {
            limit: 1024, bytes, ..
        },
    ] = faults.as_slice()
    else {
        panic!("{faults:?}");
    };
    assert!(*bytes > 1024);
    let said = fault.to_string();
    assert!(
        said.starts_with("module/shop@n1: what it may write to mesh.ev makes a pattern of "),
        "{said}"
    );
}
