//! What the tests share: a workload whose whole content follows from its last step, and short ways to say things.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mesh_store::{
    EngineKind, Entry, FaultGate, Faulty, Form, Op, Opened, Store, StoreError, StoreId,
};

pub(crate) const FORM: Form = Form {
    kind: 4,
    version: 1,
};
pub(crate) const ID: StoreId = StoreId::new([7; 16]);

pub(crate) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn put(key: &str, body: &[u8]) -> Op {
    Op::Put {
        key: key.as_bytes().to_vec(),
        form: FORM,
        body: body.to_vec(),
    }
}

pub(crate) fn remove(key: &str) -> Op {
    Op::Remove {
        key: key.as_bytes().to_vec(),
    }
}

pub(crate) fn content(entries: Vec<Entry>) -> Content {
    entries
        .into_iter()
        .map(|Entry { key, form, body }| {
            assert_eq!(form, FORM);
            (key, body)
        })
        .collect()
}

/// Step `n` of the workload: a node's record, a rolling log, now and then something big, and the step's own number.
pub(crate) fn step(n: u64) -> Vec<Op> {
    let mut ops = vec![
        put(&format!("node/{:03}", n % 16), &n.to_le_bytes()),
        put(&format!("log/{n:08}"), format!("step {n}").as_bytes()),
        put("last", &n.to_le_bytes()),
    ];
    if let Some(old) = n.checked_sub(20) {
        ops.push(remove(&format!("log/{old:08}")));
    }
    if n.is_multiple_of(10) {
        let length = usize::try_from(n * 7919 % 60_000).unwrap();
        ops.push(put("manifest", &vec![n.to_le_bytes()[0]; length]));
    }
    ops
}

/// The content after steps 1 to `n`.
pub(crate) fn after(n: u64) -> Content {
    let mut content = Content::new();
    for op in (1..=n).flat_map(step) {
        match op {
            Op::Put { key, body, .. } => content.insert(key, body),
            Op::Remove { key } => content.remove(&key),
        };
    }
    content
}

/// The last step found, having checked that everything is as that step left it.
pub(crate) fn last_step(entries: Vec<Entry>) -> u64 {
    let found = content(entries);
    let last = found
        .get(b"last".as_slice())
        .map_or(0, |body| u64::from_le_bytes(body[..].try_into().unwrap()));
    assert!(
        found == after(last),
        "the content is not that of step {last}"
    );
    last
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) async fn open(dir: &Path, kind: EngineKind) -> Result<(Store, Opened), StoreError> {
    Store::open(dir, kind, ID).await
}

pub(crate) async fn open_behind(
    gate: &Arc<FaultGate>,
    dir: &Path,
    kind: EngineKind,
) -> (Store, Opened) {
    let gate = Arc::clone(gate);
    Store::open_with(dir, ID, move |dir, absent| {
        Ok(Box::new(Faulty::new(
            kind.open(dir, absent)?,
            Arc::clone(&gate),
        )))
    })
    .await
    .unwrap()
}

/// One test per engine, from a body that takes the engine's kind.
macro_rules! over_each_engine {
    ($($name:ident),+ $(,)?) => {
        mod over_redb {
            $(#[test] fn $name() { super::$name(mesh_store::EngineKind::Redb); })+
        }
        mod over_sled {
            $(#[test] fn $name() { super::$name(mesh_store::EngineKind::Sled); })+
        }
    };
}
pub(crate) use over_each_engine;
