//! A mesh small enough to be read at once, and ways to make one mistake in what is derived from it.

use std::collections::BTreeSet;

use mesh_derive::{Bounds, Mismatch, Plan, derive};
use mesh_model::{
    BoxPublicKey, BusFacts, ConsumerKind, ConsumerRef, ConsumerSpec, Filter, Grant, InstanceRecord,
    InstanceRef, Labels, Manifest, NodeName, NodeRecord, Placement, Principal, PublicKey, Records,
    Restart, Run, Sealed, Selector, Selects, StreamName, StreamSpec, Timestamp, TokenRecord,
};
use sha2::{Digest, Sha256};

/// Nodes `node1` and `node10`; `shop` emits `sold` and sends to seat `mail`; `clerk` follows that and holds the seat.
pub(crate) fn records() -> Records {
    let bus = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new(named("home"), bus);
    add_node(&mut records, "node1");
    add_node(&mut records, "node10");
    add_seat(&mut records, "mail", Some("clerk"));
    let shop = Manifest {
        emits: [named("sold")].into(),
        sends_to: [named("mail")].into(),
        ..manifest("shop")
    };
    let clerk = Manifest {
        follows: [named("shop.sold")].into(),
        can_hold: [named("mail")].into(),
        ..manifest("clerk")
    };
    add_module(&mut records, shop, &["node1"]);
    add_module(&mut records, clerk, &["node1", "node10"]);
    let token = TokenRecord {
        key: key("joiner/t1"),
        expires: Timestamp::from_millis(1),
        node: None,
        labels: Labels::new(),
        rejoin: false,
        spent: None,
    };
    records.tokens.insert(named("t1"), token);
    records
}

pub(crate) fn named<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn manifest(module: &str) -> Manifest {
    Manifest {
        module: named(module),
        release: "1".to_owned(),
        run: Run::command(["true".to_owned()]).unwrap(),
        after: [].into(),
        env: [].into(),
        restart: Restart::Always,
        emits: [].into(),
        follows: [].into(),
        can_hold: [].into(),
        sends_to: [].into(),
    }
}

pub(crate) fn add_node(records: &mut Records, node: &str) {
    let record = NodeRecord {
        key: key(&format!("node/{node}")),
        box_key: BoxPublicKey::from_raw(raw(node)),
        labels: Labels::new(),
        token: named("spent"),
        enrolled: Timestamp::from_millis(1),
    };
    records.nodes.insert(named(node), record);
}

pub(crate) fn add_seat(records: &mut Records, seat: &str, holder: Option<&str>) {
    let holder = holder.map(named);
    records.declared.seats.insert(named(seat), holder);
}

pub(crate) fn add_module(records: &mut Records, manifest: Manifest, on: &[&str]) {
    let module = manifest.module.clone();
    let on: BTreeSet<NodeName> = on.iter().map(|node| named(node)).collect();
    for node in &on {
        let instance = InstanceRef {
            module: module.clone(),
            node: node.clone(),
        };
        let record = InstanceRecord {
            key: key(&format!("module/{instance}")),
            credential: Sealed(vec![1]),
            sealed_to: records.nodes[node].box_key.clone(),
        };
        records.instances.insert(instance, record);
    }
    let on = Selector::Nodes(on);
    let declared = &mut records.declared;
    declared.placements.insert(module.clone(), Placement { on });
    declared.modules.insert(module, manifest);
}

fn key(of: &str) -> PublicKey {
    PublicKey::from_raw(raw(of))
}

fn raw(of: &str) -> [u8; 32] {
    Sha256::digest(of.as_bytes()).into()
}

pub(crate) fn plan_of(records: &Records) -> Plan {
    derive(records, &Bounds::default())
}

pub(crate) fn plan() -> Plan {
    plan_of(&records())
}

pub(crate) fn filter(text: &str) -> Filter {
    named(text)
}

pub(crate) fn principal(text: &str) -> Principal {
    named(text)
}

pub(crate) fn consumer(text: &str) -> ConsumerRef {
    let (stream, name) = text.split_once('/').unwrap();
    ConsumerRef::new(StreamName::new(stream).unwrap(), name).unwrap()
}

pub(crate) fn select(filters: &[&str]) -> Selects {
    Selects::Only(filters.iter().map(|text| filter(text)).collect())
}

pub(crate) fn grant<'a>(plan: &'a mut Plan, of: &str) -> &'a mut Grant {
    plan.grants.get_mut(&principal(of)).unwrap()
}

pub(crate) fn spec<'a>(plan: &'a mut Plan, of: &str) -> &'a mut ConsumerSpec {
    plan.consumers.get_mut(&consumer(of)).unwrap()
}

pub(crate) fn stream<'a>(plan: &'a mut Plan, of: &str) -> &'a mut StreamSpec {
    plan.streams.get_mut(&StreamName::new(of).unwrap()).unwrap()
}

/// Where a consumer delivers, and to which group.
pub(crate) fn push(spec: &ConsumerSpec) -> Option<(Filter, Option<&str>)> {
    match &spec.kind {
        ConsumerKind::Push { deliver, group, .. } => Some((deliver.into(), group.as_deref())),
        ConsumerKind::Pull => None,
    }
}

/// Whether everything published there is allowed.
pub(crate) fn publishes(grant: &Grant, text: &str) -> bool {
    let wanted = filter(text);
    grant.publish.iter().any(|may| wanted.is_subset_of(may))
}

/// Whether anything published there is allowed.
pub(crate) fn reaches(grant: &Grant, text: &str) -> bool {
    let wanted = filter(text);
    grant.publish.iter().any(|may| wanted.overlaps(may))
}

/// Everybody who connects, but the controller.
pub(crate) fn others(plan: &Plan) -> impl Iterator<Item = (&Principal, &Grant)> {
    plan.grants
        .iter()
        .filter(|(principal, _)| **principal != Principal::Controller)
}

/// What is found in the plan once a mistake is made in it; without the mistake, nothing is.
pub(crate) fn found(mistake: impl FnOnce(&mut Plan)) -> Vec<Mismatch> {
    let records = records();
    let mut plan = plan_of(&records);
    assert_eq!(plan.check(&records.bus), vec![]);
    mistake(&mut plan);
    plan.check(&records.bus)
}

/// The mistake is found, and among what is said of it is this.
pub(crate) fn finds(says: &str, mistake: impl FnOnce(&mut Plan)) {
    let found: Vec<String> = found(mistake).iter().map(ToString::to_string).collect();
    assert!(
        found.iter().any(|found| found.contains(says)),
        "{says}: {found:#?}"
    );
}
