//! A mesh small enough to be read at once, and ways to make one mistake in what is derived from it.

use mesh_derive::{Bounds, Mismatch, Plan, derive};
use mesh_model::{
    ConsumerKind, ConsumerSpec, Filter, Grant, Manifest, Principal, Records, StreamName, StreamSpec,
};

pub(crate) use crate::short::{
    add_module, add_node, add_seat, consumer, filter, manifest, principal, select, spec,
};
use crate::short::{add_token, empty, names};

/// Nodes `node1` and `node10`; `shop` emits `sold` and sends to seat `mail`; `clerk` follows that and holds the seat.
pub(crate) fn records() -> Records {
    let mut records = empty();
    add_node(&mut records, "node1");
    add_node(&mut records, "node10");
    add_seat(&mut records, "mail", Some("clerk"));
    let shop = Manifest {
        emits: names(&["sold"]),
        sends_to: names(&["mail"]),
        ..manifest("shop")
    };
    let clerk = Manifest {
        follows: names(&["shop.sold"]),
        can_hold: names(&["mail"]),
        ..manifest("clerk")
    };
    add_module(&mut records, shop, &["node1"]);
    add_module(&mut records, clerk, &["node1", "node10"]);
    add_token(&mut records, "t1");
    records
}

pub(crate) fn named<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn plan_of(records: &Records) -> Plan {
    derive(records, &Bounds::default())
}

pub(crate) fn plan() -> Plan {
    plan_of(&records())
}

pub(crate) fn grant<'a>(plan: &'a mut Plan, of: &str) -> &'a mut Grant {
    plan.grants.get_mut(&principal(of)).unwrap()
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
