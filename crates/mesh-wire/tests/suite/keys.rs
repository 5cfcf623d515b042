//! Laws of keys on disk: they sort as what they name, and no two facts share one.

use mesh_wire::fact_key;
use proptest::prelude::*;

use crate::kept;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn keys_of_a_kind_sort_as_what_they_name([a, b] in kept::fact_keys_of_a_kind()) {
        prop_assert_eq!(fact_key(&a).cmp(&fact_key(&b)), a.cmp(&b), "{:?} {:?}", a, b);
    }

    #[test]
    fn two_facts_never_share_a_key(a in kept::fact_key(), b in kept::fact_key()) {
        prop_assert_eq!(fact_key(&a) == fact_key(&b), a == b, "{:?} {:?}", a, b);
    }
}

#[test]
fn no_key_is_longer_than_promised() {
    let long = "a".repeat(63);
    let longest = mesh_control::FactKey::Instance(mesh_model::InstanceRef {
        module: long.parse().unwrap(),
        node: long.parse().unwrap(),
    });
    assert_eq!(fact_key(&longest).len(), 136);
}
