//! Cases about the order of what is rendered: another order each time is a change each time.

use mesh_derive::render;
use mesh_model::{Manifest, Records};

use crate::stage::{add_module, add_node, add_seat, manifest, named, plan_of, records};

const NAMES: [&str; 6] = ["b", "a", "d", "c-2", "c", "a-1"];

/// A larger mesh, declared in the order of these names.
fn declared(names: &[&str]) -> Records {
    let mut records = records();
    for name in names {
        add_node(&mut records, name);
        add_seat(&mut records, name, None);
        let module = Manifest {
            emits: ["z", "a", "m"].map(named).into(),
            follows: ["shop.sold", "clerk.announced"].map(named).into(),
            ..manifest(name)
        };
        add_module(&mut records, module, &[name]);
    }
    records
}

fn rendered(records: &Records) -> [String; 4] {
    let plan = plan_of(records);
    let key = records.nodes[&named("node1")].key.clone();
    [
        render::nats_conf::edge_users(&plan),
        render::nats_conf::accounts(&plan, &key, &key),
        render::json(&plan).to_string(),
        render::table(&plan),
    ]
}

/// The order of a hash map makes what is rendered another each time, and everything restarts for it.
/// <https://github.com/stackabletech/airflow-operator/pull/372>
#[test]
fn case_d_d6cf218_rendered_a_hundred_times_the_bytes_are_the_same() {
    let first = rendered(&declared(&NAMES));
    for _ in 0..100 {
        assert_eq!(rendered(&declared(&NAMES)), first);
    }
}

/// Keys in no order: what was only read is written back as if it had changed.
/// <https://github.com/redhat-developer/rhdh-operator/pull/2785>
#[test]
fn case_d_a7eedbe_the_order_of_declaring_is_not_the_order_of_what_is_written() {
    let first = rendered(&declared(&NAMES));
    let mut names = NAMES;
    names.reverse();
    assert_eq!(rendered(&declared(&names)), first);
    names.sort_unstable();
    assert_eq!(rendered(&declared(&names)), first);
    let users = first[0]
        .lines()
        .filter_map(|line| line.trim().strip_prefix("# node/"));
    assert!(users.is_sorted());
}
