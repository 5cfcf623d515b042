//! The same derivation for records of which little changed: only what the change touches is worked out again.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    InstanceRef, Manifest, ModuleName, NodeName, Principal, PublicKey, Records, SeatName, TokenId,
};

use crate::ack::Acks;
use crate::derive::{
    Bounds, CONTROLLER, consumer, controller_reads, definitions, derive, grants, held, holder,
    joins, module_reads, node_consumer, node_reads, retiring, runs, seat_consumer,
};
use crate::plan::Plan;
use crate::subject;

impl Plan {
    /// Makes this plan, which was derived from `before`, the one [`derive()`](derive) gives for `after` within the same
    /// bounds. What did not change is looked at and left. What each bus of a mesh of two holds is to be worked out anew.
    pub fn rederive(&mut self, before: &Records, after: &Records, bounds: &Bounds) {
        self.parts.clear();
        if before.bus != after.bus {
            // Every ack subject is another.
            *self = derive(after, bounds);
            return;
        }
        let touched = Touched::between(before, after);
        let mut change = Change {
            plan: self,
            before,
            after,
            bounds,
            acks: Acks::of(&after.bus),
            vacated: BTreeSet::new(),
        };
        change.nodes(&touched.nodes);
        change.seats(&touched.seats);
        change.modules(&touched.modules);
        change.instances(&touched.instances);
        change.joiners(&touched.tokens);
        change.inherit();
        if touched.declared {
            change.controller();
        }
        self.retiring = retiring(after, self);
    }
}

/// What is to be worked out again.
struct Touched<'a> {
    nodes: BTreeSet<&'a NodeName>,
    seats: BTreeSet<&'a SeatName>,
    modules: BTreeSet<&'a ModuleName>,
    instances: BTreeSet<&'a InstanceRef>,
    tokens: BTreeSet<&'a TokenId>,
    /// Whether there are other modules than before.
    declared: bool,
}

impl<'a> Touched<'a> {
    fn between(before: &'a Records, after: &'a Records) -> Self {
        let (was, is) = (&before.declared, &after.declared);
        let nodes = changed(&before.nodes, &after.nodes);
        let mut modules = changed(&was.modules, &is.modules);
        let both = |of: &ModuleName| was.modules.contains_key(of) && is.modules.contains_key(of);
        let declared = !modules.iter().all(|module| both(module));
        let seats: BTreeSet<&SeatName> = was
            .seats
            .keys()
            .chain(is.seats.keys())
            .filter(|seat| {
                let registered = was.seats.contains_key(*seat) == is.seats.contains_key(*seat);
                !registered || holder(before, seat) != holder(after, seat)
            })
            .collect();
        if !seats.is_empty() {
            // Who sends to a seat, or holds it, may do so only while it is registered.
            let of = |manifest: &Manifest| {
                let seat = |seat: &&SeatName| {
                    manifest.sends_to.contains(*seat) || manifest.can_hold.contains(*seat)
                };
                seats.iter().any(seat)
            };
            let concerned = is.modules.iter().filter(|(_, manifest)| of(manifest));
            modules.extend(concerned.map(|(module, _)| module));
        }
        let placed = changed(&was.placements, &is.placements);
        let mut instances = changed(&before.instances, &after.instances);
        if !(modules.is_empty() && placed.is_empty() && nodes.is_empty()) {
            let concerned = |of: &&InstanceRef| {
                modules.contains(&of.module)
                    || placed.contains(&of.module)
                    || nodes.contains(&of.node)
            };
            instances.extend(after.instances.keys().filter(concerned));
        }
        Self {
            nodes,
            seats,
            modules,
            instances,
            tokens: changed(&before.tokens, &after.tokens),
            declared,
        }
    }
}

/// The keys under which the two differ.
fn changed<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
) -> BTreeSet<&'a K> {
    let mut was = before.iter().peekable();
    let mut changed = BTreeSet::new();
    for (key, value) in after {
        while let Some((gone, _)) = was.next_if(|(old, _)| *old < key) {
            changed.insert(gone);
        }
        let old = was.next_if(|(old, _)| *old == key);
        if old.is_none_or(|(_, old)| old != value) {
            changed.insert(key);
        }
    }
    changed.extend(was.map(|(gone, _)| gone));
    changed
}

/// A plan on its way from the records before to those after.
struct Change<'a> {
    plan: &'a mut Plan,
    before: &'a Records,
    after: &'a Records,
    bounds: &'a Bounds,
    acks: Acks,
    /// Keys that are no longer who had them's: another may have had the same and been left without.
    vacated: BTreeSet<PublicKey>,
}

impl Change<'_> {
    fn nodes(&mut self, nodes: &BTreeSet<&NodeName>) {
        for node in nodes {
            let principal = Principal::Node((*node).clone());
            let derived = node_consumer(node, self.bounds);
            let is = self.after.nodes.get(*node).map(|record| &record.key);
            let was = self.before.nodes.get(*node).map(|record| &record.key);
            self.rekey(&principal, was, is);
            if is.is_none() {
                self.plan.consumers.remove(&derived.consumer);
                self.forget(&principal);
                continue;
            }
            let grant = grants::node_grant(node, &self.acks);
            let name = derived.consumer.clone();
            self.plan.consumers.insert(name, derived);
            self.plan.reads.insert(principal.clone(), node_reads(node));
            self.plan.grants.insert(principal, grant);
        }
    }

    fn seats(&mut self, seats: &BTreeSet<&SeatName>) {
        for seat in seats {
            let stream = definitions::seat_stream(seat, self.bounds);
            let consumer = seat_consumer(self.after, seat);
            if self.after.declared.seats.contains_key(*seat) {
                self.plan.streams.insert(stream.name.clone(), stream);
                let name = consumer.consumer.clone();
                self.plan.consumers.insert(name, consumer);
            } else {
                self.plan.streams.remove(&stream.name);
                self.plan.consumers.remove(&consumer.consumer);
            }
        }
    }

    fn modules(&mut self, modules: &BTreeSet<&ModuleName>) {
        for module in modules {
            let principal = Principal::Module((*module).clone());
            let name = consumer(subject::events_stream(), module.as_str());
            let manifest = self.after.declared.modules.get(*module);
            match manifest.and_then(definitions::module_consumer) {
                Some(derived) => {
                    self.plan.consumers.insert(name, derived);
                }
                None => {
                    self.plan.consumers.remove(&name);
                }
            }
            let Some(manifest) = manifest else {
                self.forget(&principal);
                continue;
            };
            let held = held(self.after, manifest);
            let grant = grants::module_grant(manifest, &held, self.after, &self.acks);
            let reads = module_reads(manifest, &held);
            self.plan.reads.insert(principal.clone(), reads);
            self.plan.grants.insert(principal, grant);
        }
    }

    /// After the modules, whose authority the instances have.
    fn instances(&mut self, instances: &BTreeSet<&InstanceRef>) {
        for instance in instances {
            let principal = Principal::Instance((*instance).clone());
            let module = Principal::Module(instance.module.clone());
            let record = self.after.instances.get(*instance);
            let record = record.filter(|record| runs(self.after, instance, record));
            let granted = self.plan.grants.get(&module).zip(record);
            let granted = granted
                .map(|(module, record)| (grants::instance_grant(instance, module), &record.key));
            let was = self.before.instances.get(*instance);
            let is = granted.as_ref().map(|(_, key)| *key);
            self.rekey(&principal, was.map(|record| &record.key), is);
            match granted {
                Some((grant, _)) => {
                    self.plan.grants.insert(principal, grant);
                }
                None => self.forget(&principal),
            }
        }
    }

    fn joiners(&mut self, tokens: &BTreeSet<&TokenId>) {
        for token in tokens {
            let principal = Principal::Joiner((*token).clone());
            let key = |records: &'_ Records| -> Option<PublicKey> {
                let record = records.tokens.get(*token);
                record
                    .filter(|record| joins(record))
                    .map(|record| record.key.clone())
            };
            let (was, is) = (key(self.before), key(self.after));
            self.rekey(&principal, was.as_ref(), is.as_ref());
            if is.is_some() {
                let grant = grants::joiner_grant(token);
                self.plan.grants.insert(principal, grant);
            } else {
                self.forget(&principal);
            }
        }
    }

    /// The controller hears of each module.
    fn controller(&mut self) {
        let events = consumer(subject::events_stream(), CONTROLLER);
        self.plan.consumers.remove(&events);
        let own = definitions::own_consumers(self.after, self.bounds);
        let own = own.map(|derived| (derived.consumer.clone(), derived));
        self.plan.consumers.extend(own);
        let reads = controller_reads(self.after);
        self.plan.reads.insert(Principal::Controller, reads);
    }

    fn forget(&mut self, principal: &Principal) {
        self.plan.grants.remove(principal);
        self.plan.reads.remove(principal);
    }

    fn rekey(&mut self, principal: &Principal, was: Option<&PublicKey>, is: Option<&PublicKey>) {
        if let Some(key) = was.filter(|key| is != Some(*key))
            && self.plan.users.get(key) == Some(principal)
        {
            self.plan.users.remove(key);
            self.vacated.insert(key.clone());
        }
        if let Some(key) = is {
            self.take(key, principal);
        }
    }

    /// Of those with one key the first has it.
    fn take(&mut self, key: &PublicKey, principal: &Principal) {
        match self.plan.users.get_mut(key) {
            Some(has) if *has <= *principal => {}
            Some(has) => *has = principal.clone(),
            None => {
                self.plan.users.insert(key.clone(), principal.clone());
            }
        }
    }

    /// Whoever was left without a key that is free now has it.
    fn inherit(&mut self) {
        if self.vacated.is_empty() {
            return;
        }
        let after = self.after;
        let vacated = std::mem::take(&mut self.vacated);
        let nodes = after.nodes.iter();
        let nodes = nodes.map(|(node, record)| (&record.key, Principal::Node(node.clone())));
        let instances = after.instances.iter();
        let instances =
            instances.map(|(of, record)| (&record.key, Principal::Instance(of.clone())));
        let tokens = after.tokens.iter();
        let tokens = tokens.map(|(token, record)| (&record.key, Principal::Joiner(token.clone())));
        for (key, principal) in nodes.chain(instances).chain(tokens) {
            if vacated.contains(key) && self.plan.grants.contains_key(&principal) {
                self.take(key, &principal);
            }
        }
    }
}
