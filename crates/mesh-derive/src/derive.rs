//! The derivation itself, one principal after another. `docs/derivation.md` gives each rule its id.

mod bounds;
mod definitions;
mod grants;

use std::collections::BTreeSet;

use mesh_model::{Filter, InstanceRecord, InstanceRef, ModuleName, Principal, Records, SeatName};

pub use bounds::Bounds;
pub(crate) use definitions::{CONTROLLER, announced, consumer};
pub use definitions::{node_consumer, own_streams};
pub use grants::{controller_grant, system_grant};

use crate::plan::{Accounts, Plan, Share};
use crate::subject::{self, filter};

/// Works out everything the bus is to hold for these records.
pub fn derive(records: &Records, bounds: &Bounds) -> Plan {
    let mut plan = Plan::new(accounts());
    for stream in own_streams(bounds) {
        plan.add_stream(stream);
    }
    for consumer in definitions::own_consumers(records, bounds) {
        plan.add_consumer(consumer);
    }
    plan.grants
        .insert(Principal::Controller, controller_grant(&records.bus));
    plan.reads
        .insert(Principal::Controller, controller_reads(records));
    derive_nodes(records, bounds, &mut plan);
    derive_seats(records, bounds, &mut plan);
    derive_modules(records, &mut plan);
    derive_instances(records, &mut plan);
    derive_joiners(records, &mut plan);
    plan
}

fn derive_nodes(records: &Records, bounds: &Bounds, plan: &mut Plan) {
    for (node, record) in &records.nodes {
        let principal = Principal::Node(node.clone());
        plan.add_consumer(node_consumer(node, bounds));
        plan.reads.insert(
            principal.clone(),
            BTreeSet::from([subject::declare(node).into()]),
        );
        plan.add_user(
            &record.key,
            principal,
            grants::node_grant(node, &records.bus),
        );
    }
}

fn derive_seats(records: &Records, bounds: &Bounds, plan: &mut Plan) {
    for seat in records.declared.seats.keys() {
        plan.add_stream(definitions::seat_stream(seat, bounds));
        let holder = holder(records, seat).cloned().map(Principal::Module);
        plan.add_consumer(definitions::seat_consumer(seat, holder));
    }
}

fn derive_modules(records: &Records, plan: &mut Plan) {
    for (module, manifest) in &records.declared.modules {
        let held: BTreeSet<&SeatName> = manifest
            .can_hold
            .iter()
            .filter(|seat| holder(records, seat) == Some(module))
            .collect();
        let principal = Principal::Module(module.clone());
        if let Some(consumer) = definitions::module_consumer(manifest) {
            plan.add_consumer(consumer);
        }
        let follows = manifest
            .follows
            .iter()
            .map(|event| subject::event(event).into());
        let reads = follows.chain(held.iter().map(|seat| subject::works(seat)));
        plan.reads.insert(principal.clone(), reads.collect());
        let grant = grants::module_grant(manifest, &held, records);
        plan.grants.insert(principal, grant);
    }
}

fn derive_instances(records: &Records, plan: &mut Plan) {
    for (instance, record) in &records.instances {
        let module = Principal::Module(instance.module.clone());
        let Some(grant) = plan.grants.get(&module) else {
            continue;
        };
        if runs(records, instance, record) {
            let grant = grants::instance_grant(instance, grant);
            plan.add_user(&record.key, Principal::Instance(instance.clone()), grant);
        }
    }
}

fn derive_joiners(records: &Records, plan: &mut Plan) {
    for (token, record) in &records.tokens {
        if record.spent.as_ref().is_some_and(|spent| spent.arrived) {
            continue;
        }
        let principal = Principal::Joiner(token.clone());
        plan.add_user(&record.key, principal, grants::joiner_grant(token));
    }
}

/// Whether a module runs on a node under this credential: the node is enrolled, the module placed there, and the
/// credential sealed to the key the node has now. One sealed to a key it had before is in the hands of whoever has the
/// old host.
fn runs(records: &Records, instance: &InstanceRef, record: &InstanceRecord) -> bool {
    let placement = records.declared.placements.get(&instance.module);
    records
        .nodes
        .get(&instance.node)
        .zip(placement)
        .is_some_and(|(node, placement)| {
            record.sealed_to == node.box_key && placement.on.selects(&instance.node, &node.labels)
        })
}

/// Who holds a seat: the module assigned to it, if it is declared and still lists the seat.
fn holder<'a>(records: &'a Records, seat: &SeatName) -> Option<&'a ModuleName> {
    let registered = records.declared.seats.contains_key(seat);
    records
        .holder(seat)
        .filter(|module| registered && records.declared.can_hold(module, seat).is_ok())
}

fn controller_reads(records: &Records) -> BTreeSet<Filter> {
    records
        .declared
        .modules
        .keys()
        .map(|module| subject::event(&announced(module)).into())
        .chain([subject::controls()])
        .collect()
}

fn accounts() -> Accounts {
    let share = |text: &str| filter(text.to_owned());
    Accounts {
        mesh_exports: BTreeSet::from([
            Share::Stream(share("mesh.deliver.>")),
            Share::Stream(share("mesh.inbox.>")),
            Share::Service(share("$JS.ACK.>")),
            Share::Service(subject::controls()),
            Share::Service(subject::events()),
            Share::Service(share("mesh.seat.>")),
        ]),
        edge_exports: BTreeSet::from([Share::Stream(subject::heartbeats())]),
    }
}
