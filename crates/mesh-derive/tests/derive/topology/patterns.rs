//! Patterns: exactly the keys they are made of, in few enough bytes.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::topology::{Exchange, Key, NOTHING, Rights, TopologyFault};
use mesh_model::EventName;
use mesh_servers::rabbitmq::{MAX_PATTERN, Pattern};
use proptest::prelude::*;

use super::laid;
use crate::common::{add_module, add_node, empty, manifest};

/// The pattern of these keys, and how a broker reads it.
fn pattern(keys: impl IntoIterator<Item = Key>) -> (String, Pattern) {
    let rights = Rights {
        keys: BTreeMap::from([(Exchange::Events, keys.into_iter().collect())]),
        ..Rights::default()
    };
    let pattern = rights.topic_patterns().next().unwrap().1;
    let read = Pattern::new(&pattern).unwrap();
    (pattern, read)
}

proptest! {
    /// D43
    #[test]
    fn a_pattern_allows_its_keys_and_nothing_beside(
        keys in prop::collection::btree_set("[ab0-3-]{1,3}(\\.[ab-]{1,2}){0,2}", 1..12),
        others in prop::collection::vec("[ab0-3-]{1,3}(\\.[ab-]{1,2}){0,2}", 12),
    ) {
        let (pattern, read) = pattern(keys.iter().cloned().map(Key::Is));
        for key in &keys {
            prop_assert!(read.allows(key), "{} {}", pattern, key);
            for beside in [format!("{key}\n"), format!("{key}0x"), format!("x{key}"), key.replace('.', "X") + "y"] {
                prop_assert!(!read.allows(&beside), "{} {:?}", pattern, beside);
            }
        }
        for other in others {
            prop_assert_eq!(read.allows(&other), keys.contains(&other), "{} {}", pattern, other);
        }
    }

    /// D43
    #[test]
    fn what_a_character_means_in_a_pattern_it_does_not_mean_in_a_key(
        keys in prop::collection::btree_set(ANY, 1..10),
        under in prop::collection::btree_set(ANY, 0..3),
        others in prop::collection::vec(ANY, 12),
    ) {
        let listed = keys.iter().cloned().map(Key::Is);
        let all = listed.chain(under.iter().cloned().map(Key::Under));
        let (pattern, read) = pattern(all);
        let is_under = |key: &str| under.iter().any(|word| {
            let below = key.strip_prefix(word.as_str()).and_then(|rest| rest.strip_prefix('.'));
            below.is_some_and(|rest| !rest.is_empty() && !rest.contains('\n'))
        });
        let near = keys.iter().chain(&under).flat_map(|key| {
            let (first, rest) = key.split_at(key.char_indices().nth(1).map_or(key.len(), |(at, _)| at));
            [
                key.clone(), format!("{key}\n"), format!("{key}."), format!("{key}.x"), format!(".{key}"),
                format!("{key}{key}"), first.to_owned(), rest.to_owned(), key.replace('.', "x"), key.to_uppercase(),
            ]
        });
        for key in near.chain(others) {
            let may = keys.contains(&key) || is_under(&key);
            prop_assert_eq!(read.allows(&key), may, "{:?} {:?}", pattern, key);
        }
    }
}

/// Keys of what means something in a pattern, and in its classes; of several bytes, and none.
const ANY: &str = r"[ab.|()\[\]{}+*?^$\\:,=!<>#/x0dEzQé£ß\n\x00-]{0,5}";

/// D43
#[test]
fn what_would_have_been_an_alternative_or_a_class_is_a_key() {
    for (keys, allowed, beside) in [
        (&["m.a|"][..], &["m.a|"][..], &["", "x", "m.a"][..]),
        (&["m.("], &["m.("], &["m."]),
        (
            &["m.[", "m.]", "m.^", "m.-", "m.\\"],
            &["m.^", "m.-"],
            &["m._", "m.a", "m.Z"],
        ),
        (&["é", "è"], &["é", "è"], &["Ã", "à", "ê"]),
        (&["a\0b"], &["a\0b"], &["a", "a\0", "a\0bc"]),
        (&["a", "a."], &["a", "a."], &["a.."]),
        (&["{username}"], &["{username}"], &["username"]),
        (&[r"\Qa\E", r"\d"], &[r"\d"], &["a", "1"]),
    ] {
        let (pattern, read) = pattern(keys.iter().map(|key| Key::Is((*key).to_owned())));
        for key in allowed {
            assert!(read.allows(key), "{pattern:?} {key:?}");
        }
        for key in beside {
            assert!(!read.allows(key), "{pattern:?} {key:?}");
        }
    }
}

/// D43
#[test]
fn a_pattern_that_lists_nothing_allows_nothing() {
    let (pattern, read) = pattern([]);
    assert_eq!(pattern, NOTHING);
    for key in ["a", "a.b", "#", "\n", "\r\n", "a\n", "amq.default"] {
        assert!(!read.allows(key), "{key:?}");
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
    let [fault @ TopologyFault::PatternTooLong { limit, bytes, .. }] = faults.as_slice() else {
        panic!("{faults:?}");
    };
    assert_eq!(*limit, MAX_PATTERN);
    assert!(*bytes > MAX_PATTERN);
    let said = fault.to_string();
    assert!(
        said.starts_with("module/shop@n1: what it may write to mesh.ev makes a pattern of "),
        "{said}"
    );
}
