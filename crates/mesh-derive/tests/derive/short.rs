//! A short form to write records and what is derived from them in.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::Plan;
use mesh_model::{
    BoxPublicKey, BusFacts, ConsumerRef, ConsumerSpec, Filter, InstanceRecord, InstanceRef, Labels,
    Manifest, NodeName, NodeRecord, Placement, Principal, PublicKey, Records, Restart, Run, Sealed,
    Selector, Selects, StreamName, Timestamp, TokenRecord,
};

/// The bus of a configured server.
pub(crate) fn bus() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

/// A mesh nobody declared anything for.
pub(crate) fn empty() -> Records {
    Records::new("home".parse().unwrap(), bus())
}

/// A manifest that does nothing yet.
pub(crate) fn manifest(module: &str) -> Manifest {
    Manifest {
        module: module.parse().unwrap(),
        release: "1".to_owned(),
        run: Run::command(["true".to_owned()]).unwrap(),
        after: BTreeSet::new(),
        env: BTreeMap::new(),
        restart: Restart::Always,
        emits: BTreeSet::new(),
        follows: BTreeSet::new(),
        can_hold: BTreeSet::new(),
        sends_to: BTreeSet::new(),
        health: None,
        secrets: [].into(),
    }
}

/// Names from texts.
pub(crate) fn names<T: std::str::FromStr<Err: std::fmt::Debug> + Ord>(
    texts: &[&str],
) -> BTreeSet<T> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A node that enrolled with a key of its name's.
pub(crate) fn add_node(records: &mut Records, node: &str) {
    let name: NodeName = node.parse().unwrap();
    let record = NodeRecord {
        bus: mesh_model::BusKind::Nats,
        moving: None,
        key: user_key(&format!("node/{node}")),
        box_key: box_key(node),
        labels: Labels::new(),
        token: "spent".parse().unwrap(),
        enrolled: timestamp(),
        scheduling: mesh_model::Scheduling::Open,
    };
    records.nodes.insert(name, record);
}

/// A module, placed on these nodes with a credential on each.
pub(crate) fn add_module(records: &mut Records, manifest: Manifest, on: &[&str]) {
    let module = manifest.module.clone();
    let placement = Placement {
        on: Selector::Nodes(names(on)),
        count: None,
    };
    records
        .declared
        .placements
        .insert(module.clone(), placement);
    records.declared.modules.insert(module.clone(), manifest);
    for node in on {
        let instance = InstanceRef {
            module: module.clone(),
            node: node.parse().unwrap(),
        };
        let record = InstanceRecord {
            bus: mesh_model::BusKind::Nats,
            key: user_key(&format!("module/{instance}")),
            credential: Sealed(vec![1]),
            sealed_to: box_key(node),
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        };
        records.instances.insert(instance, record);
    }
}

/// A seat, with the holder the files name.
pub(crate) fn add_seat(records: &mut Records, seat: &str, holder: Option<&str>) {
    let holder = holder.map(|module| module.parse().unwrap());
    records
        .declared
        .seats
        .insert(seat.parse().unwrap(), holder.into());
}

/// A token nobody has used.
pub(crate) fn add_token(records: &mut Records, token: &str) {
    let record = TokenRecord {
        bus: mesh_model::BusKind::Nats,
        key: user_key(&format!("joiner/{token}")),
        expires: timestamp(),
        node: None,
        labels: Labels::new(),
        rejoin: false,
        spent: None,
    };
    records.tokens.insert(token.parse().unwrap(), record);
}

fn timestamp() -> Timestamp {
    Timestamp::from_millis(1)
}

/// The user key of a label.
pub(crate) fn user_key(label: &str) -> PublicKey {
    PublicKey::from_raw(digest(label))
}

/// The box key of a label.
pub(crate) fn box_key(label: &str) -> BoxPublicKey {
    BoxPublicKey::from_raw(digest(label))
}

fn digest(label: &str) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(label.as_bytes()).into()
}

pub(crate) fn filter(text: &str) -> Filter {
    text.parse().unwrap()
}

pub(crate) fn principal(text: &str) -> Principal {
    text.parse().unwrap()
}

/// A consumer, written `STREAM/NAME`.
pub(crate) fn consumer(text: &str) -> ConsumerRef {
    let (stream, name) = text.split_once('/').unwrap();
    ConsumerRef::new(StreamName::new(stream).unwrap(), name).unwrap()
}

pub(crate) fn spec<'a>(plan: &'a mut Plan, of: &str) -> &'a mut ConsumerSpec {
    plan.consumers.get_mut(&consumer(of)).unwrap()
}

pub(crate) fn select(filters: &[&str]) -> Selects {
    Selects::Only(filters.iter().map(|text| filter(text)).collect())
}
