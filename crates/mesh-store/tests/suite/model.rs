//! The law: a store is a sorted map, whatever is done to it in whatever order.

use std::collections::BTreeMap;

use mesh_store::{EngineKind, Entry, Form, Op};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::tempdir;

use crate::kit::{self, block_on, over_each_engine};

over_each_engine!(any_history_leaves_what_a_map_would_hold);

#[derive(Clone, Debug)]
enum Deed {
    Commit(Vec<Op>),
    Reopen,
    CloseAndOpen,
}

fn any_op() -> impl Strategy<Value = Op> {
    // Few keys, so that they are met again; the last is as long as one may be.
    let key = prop_oneof![
        (0_u8..12).prop_map(|n| vec![n; usize::from(n) + 1]),
        Just(vec![255; 512])
    ];
    let body = prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..300), 1 => Just(vec![5; 200 * 1024])];
    prop_oneof![
        3 => (key.clone(), any::<(u8, u8)>(), body)
            .prop_map(|(key, (kind, version), body)| Op::Put { key, form: Form { kind, version }, body }),
        1 => key.prop_map(|key| Op::Remove { key }),
    ]
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => prop::collection::vec(any_op(), 0..6).prop_map(Deed::Commit),
        1 => Just(Deed::Reopen),
        1 => Just(Deed::CloseAndOpen),
    ]
}

fn any_history_leaves_what_a_map_would_hold(kind: EngineKind) {
    let cases = match kind {
        EngineKind::Redb => 32,
        // Each opening costs sled a segment of 16 MiB.
        EngineKind::Sled => 8,
    };
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&prop::collection::vec(any_deed(), 1..20), |deeds| {
            block_on(act(kind, deeds));
            Ok(())
        })
        .unwrap();
}

async fn act(kind: EngineKind, deeds: Vec<Deed>) {
    let dir = tempdir().unwrap();
    let (mut store, _) = kit::open(dir.path(), kind).await.unwrap();
    let mut model: BTreeMap<Vec<u8>, (Form, Vec<u8>)> = BTreeMap::new();
    let mut commits = 0;
    for deed in deeds {
        match deed {
            Deed::Commit(ops) => {
                commits += 1;
                assert_eq!(store.commit(ops.clone()).await, Ok(commits));
                for op in ops {
                    match op {
                        Op::Put { key, form, body } => model.insert(key, (form, body)),
                        Op::Remove { key } => model.remove(&key),
                    };
                }
            }
            Deed::Reopen => drop(store.reopen().await.unwrap()),
            Deed::CloseAndOpen => {
                store.close().await;
                store = kit::open(dir.path(), kind).await.unwrap().0;
            }
        }
        let found = store.scan().await.unwrap().into_iter();
        let found: BTreeMap<_, _> = found
            .map(|Entry { key, form, body }| (key, (form, body)))
            .collect();
        assert!(found == model, "the store does not hold what the map does");
    }
}
