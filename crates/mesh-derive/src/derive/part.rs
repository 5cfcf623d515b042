//! What of a plan each bus holds, in a mesh of two.
//!
//! Streams, and consumers of modules and seats, are on both: an event and a piece of work wait where they were published.
//! Whose key is known where follows from each node's own bus, and so does who reads. A consumer all of whose readers are on
//! the other bus is read by the controller: it carries each message there, under the id it has, and settles it once that
//! bus has it. So what each is delivered is what one bus would deliver, and a message is never carried back.
//!
//! What the controller may to carry is a constant ([`carrier_grant`]), whoever is where. A NATS server reads its authority
//! once; and on RabbitMQ what names every module and seat is soon longer than a pattern may be.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    BusKind, ConsumerRef, ModuleName, Moving, Principal, PublicKey, Records, Selects,
};

use crate::derive::{carrier_grant, runs};
use crate::plan::Plan;
use crate::subject;

/// Completes a plan with what each of these buses holds; with one there is nothing to tell apart.
pub fn in_parts(plan: &mut Plan, records: &Records, buses: &BTreeSet<BusKind>) {
    if buses.len() > 1 {
        let parts = buses.iter().map(|bus| (*bus, part(plan, records, *bus)));
        plan.parts = parts.collect();
    }
}

/// What of a plan, which was derived from these records, this bus holds.
pub fn part(plan: &Plan, records: &Records, bus: BusKind) -> Plan {
    let users = users(plan, records, bus);
    let (here, there) = (instances(records, bus), instances(records, bus.other()));
    let on: BTreeSet<&Principal> = users.values().collect();
    let is_on = |principal: &Principal| match principal {
        Principal::Controller | Principal::Module(_) => true,
        Principal::Node(_) | Principal::Instance(_) | Principal::Joiner(_) => {
            on.contains(principal)
        }
    };
    let mut part = Plan {
        accounts: plan.accounts.clone(),
        streams: plan.streams.clone(),
        consumers: plan.consumers.clone(),
        grants: of(&plan.grants, is_on),
        reads: of(&plan.reads, is_on),
        users: users.clone(),
        retiring: {
            let retiring = plan.retiring.iter().filter(|(_, of)| is_on(of));
            retiring
                .map(|(key, of)| (key.clone(), of.clone()))
                .collect()
        },
        parts: BTreeMap::new(),
        carried: BTreeSet::new(),
    };
    part.consumers.retain(|_, consumer| {
        let node = matches!(consumer.owner, Some(Principal::Node(_)));
        !node || consumer.owner.as_ref().is_some_and(is_on)
    });
    part.admit_carried();
    let owned = part.consumers.values().filter_map(|consumer| {
        let Some(Principal::Module(module)) = &consumer.owner else {
            return None;
        };
        Some((consumer.consumer.clone(), module.clone()))
    });
    let elsewhere = owned.filter(|(_, module)| there.contains(module) && !here.contains(module));
    let carried: BTreeSet<ConsumerRef> = elsewhere.map(|(consumer, _)| consumer).collect();
    part.carried = carried;
    let carrier = carrier_grant(&records.bus);
    part.grants.insert(Principal::Controller, carrier);
    part
}

impl Plan {
    /// Events may come to a module from the other bus as well.
    fn admit_carried(&mut self) {
        let events = subject::events_stream();
        if let Some(stream) = self.streams.get_mut(&events) {
            stream.subjects.insert(subject::all_carries());
        }
        for consumer in self.consumers.values_mut() {
            if let Some(Principal::Module(module)) = &consumer.owner
                && *consumer.consumer.stream() == events
                && let Selects::Only(selected) = &mut consumer.selects
            {
                let carried = subject::carries(module);
                let reads = self.reads.entry(Principal::Module(module.clone()));
                reads.or_default().insert(carried.clone());
                selected.insert(carried);
            }
        }
    }
}

fn of<V: Clone>(
    all: &BTreeMap<Principal, V>,
    is_on: impl Fn(&Principal) -> bool,
) -> BTreeMap<Principal, V> {
    let those = all.iter().filter(|(principal, _)| is_on(principal));
    those
        .map(|(principal, of)| (principal.clone(), of.clone()))
        .collect()
}

/// Whose key is known on a bus. Of those with one key the plan has decided who has it.
fn users(plan: &Plan, records: &Records, bus: BusKind) -> BTreeMap<PublicKey, Principal> {
    let nodes = records.nodes.iter().flat_map(|(node, record)| {
        let moving = match &record.moving {
            Some(Moving::Proving { to, key, .. }) if *to == bus => Some(key),
            _ => None,
        };
        let own = (record.bus == bus).then_some(&record.key);
        let keys = own.into_iter().chain(moving);
        keys.map(|key| (key.clone(), Principal::Node(node.clone())))
    });
    let joiners = records
        .tokens
        .iter()
        .filter(|(_, record)| record.bus == bus);
    let joiners = joiners.map(|(id, record)| (record.key.clone(), Principal::Joiner(id.clone())));
    let instances = records.instances.iter();
    let instances = instances.filter(|(_, record)| record.bus == bus);
    let instances = instances.map(|(of, it)| (it.key.clone(), Principal::Instance(of.clone())));
    nodes
        .chain(joiners)
        .chain(instances)
        .filter(|(key, principal)| match plan.users.get(key) {
            Some(has) => has == principal,
            // Nobody else's: the key of a node on the bus it is to move to.
            None => matches!(principal, Principal::Node(_)),
        })
        .collect()
}

/// The modules that run on a bus.
fn instances(records: &Records, bus: BusKind) -> BTreeSet<ModuleName> {
    let there = records
        .instances
        .iter()
        .filter(|(instance, record)| record.bus == bus && runs(records, instance, record));
    there.map(|(instance, _)| instance.module.clone()).collect()
}
