//! The derivation itself, one principal after another. `docs/derivation.md` gives each rule its id.

mod bounds;
mod change;
mod definitions;
mod grants;
mod part;

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    Allow, ConsumerSpec, Filter, Grant, InstanceRecord, InstanceRef, Manifest, ModuleName, Moving,
    NodeName, Principal, PublicKey, Records, SeatName, StreamSpec, TokenRecord,
};

pub use bounds::Bounds;
pub(crate) use definitions::{CONTROLLER, announced, consumer};
pub use definitions::{node_consumer, own_streams};
pub use grants::{carrier_grant, controller_grant, system_grant};
pub use part::{in_parts, part};

use crate::ack::{Acks, acks};
use crate::plan::{Accounts, Plan, Share};
use crate::subject;

/// Works out everything the bus is to hold for these records.
pub fn derive(records: &Records, bounds: &Bounds) -> Plan {
    let acks = Acks::of(&records.bus);
    let mut parts = Parts::default();
    for stream in own_streams(bounds) {
        parts.streams.push(stream);
    }
    let own = definitions::own_consumers(records, bounds);
    parts.consumers.extend(own);
    let reads = Some(controller_reads(records));
    let grant = controller_grant(&records.bus);
    parts.principal(Principal::Controller, grant, reads, None);
    for (node, record) in &records.nodes {
        let (grant, reads) = (grants::node_grant(node, &acks), node_reads(node));
        parts.consumers.push(node_consumer(node, bounds));
        let principal = Principal::Node(node.clone());
        parts.principal(principal, grant, Some(reads), Some(&record.key));
    }
    for seat in records.declared.seats.keys() {
        parts.streams.push(definitions::seat_stream(seat, bounds));
        parts.consumers.push(seat_consumer(records, seat));
    }
    for (module, manifest) in &records.declared.modules {
        let held = held(records, manifest);
        let grant = grants::module_grant(manifest, &held, records, &acks);
        let reads = Some(module_reads(manifest, &held));
        parts
            .consumers
            .extend(definitions::module_consumer(manifest));
        parts.principal(Principal::Module(module.clone()), grant, reads, None);
    }
    parts.instances(records);
    for (token, record) in records.tokens.iter().filter(|(_, record)| joins(record)) {
        let grant = grants::joiner_grant(token);
        let principal = Principal::Joiner(token.clone());
        parts.principal(principal, grant, None, Some(&record.key));
    }
    let mut plan = parts.plan();
    plan.retiring = retiring(records, &plan);
    plan
}

/// Keys that were replaced, of instances that run. One that is somebody's own is his alone.
fn retiring(records: &Records, plan: &Plan) -> BTreeMap<PublicKey, Principal> {
    let instances = records.instances.iter();
    let retiring = instances.filter_map(|(instance, record)| {
        let key = &record.life.retiring.as_ref()?.key;
        let good = !plan.users.contains_key(key) && runs(records, instance, record);
        let principal = Principal::Instance(instance.clone());
        let good = good && plan.users.get(&record.key) == Some(&principal);
        good.then(|| (key.clone(), principal))
    });
    retiring.collect()
}

/// What was derived so far, in the order of the plan's maps: those are made at once, which costs no search.
#[derive(Default)]
struct Parts {
    streams: Vec<StreamSpec>,
    consumers: Vec<ConsumerSpec>,
    grants: Vec<(Principal, Grant)>,
    reads: Vec<(Principal, Allow)>,
    users: Vec<(PublicKey, Principal)>,
}

impl Parts {
    fn principal(
        &mut self,
        principal: Principal,
        grant: Grant,
        reads: Option<Allow>,
        key: Option<&PublicKey>,
    ) {
        let reads = reads.map(|reads| (principal.clone(), reads));
        self.reads.extend(reads);
        let user = key.map(|key| (key.clone(), principal.clone()));
        self.users.extend(user);
        self.grants.push((principal, grant));
    }

    /// After the modules, whose authority the instances have.
    fn instances(&mut self, records: &Records) {
        let modules: Vec<(ModuleName, Grant)> = self
            .grants
            .iter()
            .filter_map(|(of, grant)| match of {
                Principal::Module(module) => Some((module.clone(), grant.clone())),
                _ => None,
            })
            .collect();
        let mut modules = modules.iter().peekable();
        for (instance, record) in &records.instances {
            while modules
                .next_if(|(module, _)| *module < instance.module)
                .is_some()
            {}
            if let Some((module, grant)) = modules.peek()
                && *module == instance.module
                && runs(records, instance, record)
            {
                let grant = grants::instance_grant(instance, grant);
                let principal = Principal::Instance(instance.clone());
                self.principal(principal, grant, None, Some(&record.key));
            }
        }
    }

    fn plan(mut self) -> Plan {
        // Of those with one key the first keeps it: nobody's authority is ever replaced by another's, and the check
        // names who is left without.
        self.users.sort();
        self.users.dedup_by(|later, first| later.0 == first.0);
        let streams = self.streams.into_iter();
        let consumers = self.consumers.into_iter();
        Plan {
            accounts: accounts(),
            streams: streams.map(|it| (it.name.clone(), it)).collect(),
            consumers: consumers.map(|it| (it.consumer.clone(), it)).collect(),
            grants: self.grants.into_iter().collect(),
            reads: self.reads.into_iter().collect(),
            users: self.users.into_iter().collect(),
            retiring: BTreeMap::new(),
            parts: BTreeMap::new(),
            carried: BTreeSet::new(),
        }
    }
}

/// Whether the holder of a token may still ask to become a node.
fn joins(record: &TokenRecord) -> bool {
    record.spent.as_ref().is_none_or(|spent| !spent.arrived)
}

/// Whether a module runs on a node under this credential: the node is enrolled, the module placed there, and the
/// credential sealed to the key the node has now. One sealed to a key it had before is in the hands of whoever has the
/// old host. It is for the bus the node is on; while the node leaves another, it is for none.
fn runs(records: &Records, instance: &InstanceRef, record: &InstanceRecord) -> bool {
    let placement = records.declared.placements.get(&instance.module);
    records
        .nodes
        .get(&instance.node)
        .zip(placement)
        .is_some_and(|(node, placement)| {
            record.sealed_to == node.box_key
                && record.bus == node.bus
                && !matches!(node.moving, Some(Moving::Leaving { .. }))
                && placement.on.selects(&instance.node, &node.labels)
        })
}

fn seat_consumer(records: &Records, seat: &SeatName) -> ConsumerSpec {
    let holder = holder(records, seat).cloned().map(Principal::Module);
    definitions::seat_consumer(seat, holder)
}

/// The seats a module holds.
fn held<'a>(records: &Records, manifest: &'a Manifest) -> BTreeSet<&'a SeatName> {
    let seats = manifest.can_hold.iter();
    seats
        .filter(|seat| holder(records, seat) == Some(&manifest.module))
        .collect()
}

fn node_reads(node: &NodeName) -> Allow {
    BTreeSet::from([subject::declare(node).into()])
}

fn module_reads(manifest: &Manifest, held: &BTreeSet<&SeatName>) -> Allow {
    let follows = manifest.follows.iter();
    let follows = follows.map(|event| subject::event(event).into());
    follows
        .chain(held.iter().map(|seat| subject::works(seat)))
        .collect()
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

/// What has to cross between the two accounts, whatever was declared.
pub(crate) fn accounts() -> Accounts {
    Accounts {
        mesh_exports: BTreeSet::from([
            Share::Stream(subject::delivered()),
            Share::Stream(subject::inboxes()),
            Share::Service(acks()),
            Share::Service(subject::controls()),
            Share::Service(subject::events()),
            Share::Service(subject::all_works()),
        ]),
        edge_exports: BTreeSet::from([
            Share::Stream(subject::heartbeats()),
            Share::Stream(subject::logs()),
        ]),
    }
}
