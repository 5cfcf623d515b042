//! Outward: the bus is brought to what follows from the records, and then nodes are told.

use std::sync::Arc;

use mesh_derive::topology::topology;
use mesh_derive::{Plan, derive, in_parts};
use mesh_model::{BusFacts, BusKind, Declaration, Generation, NodeName, Records, Timestamp};

use super::lane::Origin;
use super::moving::arrived;
use super::{Controller, Settings};
use crate::amend::CommandError;
use crate::effect::{Effect, Note};
use crate::pause::{Backoff, passed};
use crate::placement::Mint;

/// How far the bus is known to be what follows from the records.
#[derive(Debug, Default)]
pub(super) struct Assertion {
    /// The version the bus is to show; grows with every reason to look again.
    wanted: u64,
    /// The version it is known to show.
    asserted: u64,
    /// The version being brought there.
    running: Option<u64>,
    /// When to try again.
    backoff: Backoff,
    /// Who waits until the bus shows a version.
    waiting: Vec<(u64, Origin)>,
    /// When consumers were looked at last because a node heard nothing.
    looked: Timestamp,
    /// Another node hears nothing since.
    look: bool,
    /// What was derived last, while the records are the same.
    plan: Option<Arc<Plan>>,
}

impl Assertion {
    pub(super) fn is_current(&self) -> bool {
        self.asserted == self.wanted
    }
}

/// A node that is to be told.
#[derive(Debug, Clone)]
pub(super) struct Undeclared {
    /// Told only once the bus shows this version: its consumer has to be there first.
    after: u64,
    /// The bus may have it already.
    unless_there: bool,
    /// The generation on its way.
    running: Option<Generation>,
    /// When to try again.
    backoff: Backoff,
}

impl<M: Mint> Controller<M> {
    /// Definitions may have been changed by somebody else: look, mend, and look whether nodes' declarations are there.
    pub fn handle_disturbed(&mut self, now: Timestamp) -> Vec<Effect> {
        self.doubt_every_declaration();
        self.want_assertion(now)
    }

    /// The bus was reached, or was lost. While it is lost nothing is said to it; it is taken to be there at first. Told
    /// again that it is reached: of two, the one that was away is.
    pub fn handle_link(&mut self, up: bool, now: Timestamp) -> Vec<Effect> {
        self.linked(up, None, now)
    }

    /// Of two buses this one was lost, and the other is reached.
    pub fn handle_link_without(&mut self, away: BusKind, now: Timestamp) -> Vec<Effect> {
        self.linked(true, Some(away), now)
    }

    fn linked(&mut self, up: bool, away: Option<BusKind>, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        if up {
            self.watch.listens(self.link, away, now);
            self.assertion.backoff.retry_now();
            for undeclared in self.undeclared.values_mut() {
                undeclared.backoff.retry_now();
            }
        }
        self.link = up;
        self.retry_outward(now, &mut effects);
        effects
    }

    /// Definitions may have been changed by somebody else, and what nodes were told was not: look and mend.
    pub fn handle_touched(&mut self, now: Timestamp) -> Vec<Effect> {
        self.want_assertion(now)
    }

    /// The bus was brought to the plan of a version, or could not be.
    pub fn handle_asserted(
        &mut self,
        version: u64,
        result: Result<(), String>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.assertion.running != Some(version) {
            return effects;
        }
        self.assertion.running = None;
        if let Err(why) = result {
            self.not_asserted(why, now, &mut effects);
            return effects;
        }
        self.assertion.asserted = version;
        self.assertion.backoff = Backoff::default();
        for (after, origin) in std::mem::take(&mut self.assertion.waiting) {
            if after <= version {
                self.complete(origin, now, &mut effects);
            } else {
                self.assertion.waiting.push((after, origin));
            }
        }
        self.retry_outward(now, &mut effects);
        effects
    }

    /// A declaration is on the bus, or could not be put there.
    pub fn handle_declared(
        &mut self,
        node: &NodeName,
        generation: Generation,
        result: Result<(), String>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(undeclared) = self.undeclared.get_mut(node) else {
            return effects;
        };
        if undeclared.running != Some(generation) {
            return effects;
        }
        undeclared.running = None;
        match result {
            Ok(()) => {
                undeclared.backoff = Backoff::default();
                let current = self.declarations.get(node).map(|d| d.generation);
                if current == Some(generation) && undeclared.after <= self.assertion.asserted {
                    self.undeclared.remove(node);
                }
            }
            Err(why) => {
                if undeclared.backoff.failed(&why, now, self.settings.retry) {
                    effects.push(Effect::Note(Note::NotDeclared(node.clone(), why)));
                }
            }
        }
        self.declare(node, now, &mut effects);
        effects
    }

    /// Everything the bus is to hold for the records as they are.
    pub fn plan(&self) -> Plan {
        self.settings.plan(&self.records)
    }

    /// Whether what would be derived from these records holds together, now and once every node on its way is there: the
    /// steps of a move are nobody's commands, and there is nobody to refuse them to.
    pub(crate) fn sound(&self, records: &Records) -> Result<(), CommandError> {
        let holds = |records: &Records| {
            let plan = self.settings.plan(records);
            self.settings.sound(&plan, &records.bus)
        };
        holds(records).map_err(CommandError::Plan)?;
        let Some(arrived) = arrived(records) else {
            return Ok(());
        };
        holds(&arrived).map_err(|why| {
            CommandError::Plan(format!("once each node on its way has arrived: {why}"))
        })
    }

    /// The records are others: what was worked out from those before is forgotten, and what was known of nodes and
    /// instances that are none any more.
    pub(super) fn records_changed(&mut self) {
        self.assertion.plan = None;
        self.assertion.backoff.retry_now();
        let (nodes, instances) = (&self.records.nodes, &self.records.instances);
        self.declarations.retain(|node, _| nodes.contains_key(node));
        self.reports.retain(|node, _| nodes.contains_key(node));
        self.unstorable.retain(|node, _| nodes.contains_key(node));
        self.presence.retain(|node, _| nodes.contains_key(node));
        self.rivals.retain(|node, _| nodes.contains_key(node));
        self.undeclared.retain(|node, _| nodes.contains_key(node));
        self.announced.retain(|of, _| instances.contains_key(of));
        self.keyed
            .retain(|of, key| instances.get(of).is_some_and(|it| it.key == *key));
        self.forget_proofs();
    }

    pub(super) fn want_assertion(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.assertion.wanted += 1;
        self.assert(now, &mut effects);
        effects
    }

    /// Somebody waits until the bus shows the records as they are now.
    pub(super) fn await_bus(&mut self, origin: Origin, now: Timestamp, effects: &mut Vec<Effect>) {
        self.assertion.wanted += 1;
        self.assertion.waiting.push((self.assertion.wanted, origin));
        self.assert(now, effects);
    }

    fn assert(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let assertion = &mut self.assertion;
        let due = self.link && assertion.backoff.is_due(now, self.settings.retry);
        if self.beginning || assertion.is_current() || assertion.running.is_some() || !due {
            return;
        }
        let plan = if let Some(plan) = &assertion.plan {
            Arc::clone(plan)
        } else {
            let plan = self.settings.plan(&self.records);
            if let Err(why) = self.settings.sound(&plan, &self.records.bus) {
                // No plan that does not hold together is applied, wherever its records came from.
                return self.not_asserted(why, now, effects);
            }
            let plan = Arc::new(plan);
            assertion.plan = Some(Arc::clone(&plan));
            plan
        };
        let version = assertion.wanted;
        assertion.running = Some(version);
        effects.push(Effect::Assert { version, plan });
    }

    fn not_asserted(&mut self, why: String, now: Timestamp, effects: &mut Vec<Effect>) {
        let backoff = &mut self.assertion.backoff;
        if backoff.failed(&why, now, self.settings.retry) {
            effects.push(Effect::Note(Note::NotAsserted(why)));
        }
    }

    /// A new declaration takes the place of the one before, once the bus is ready for it.
    pub(super) fn tell(&mut self, declaration: Declaration) {
        let node = declaration.node.clone();
        self.declarations.insert(node.clone(), declaration);
        self.doubt(&node, false);
    }

    /// Nodes' declarations may not be on the bus any more.
    pub(super) fn doubt_every_declaration(&mut self) {
        let nodes: Vec<NodeName> = self.declarations.keys().cloned().collect();
        for node in nodes {
            self.doubt_unless_told_otherwise(&node);
        }
    }

    /// Declarations that were stored may never have reached the bus. A node that has answered its has heard it, whether or
    /// not the bus still has what it delivered: told the same again, each would only say the same again.
    pub(super) fn doubt_what_is_unanswered(&mut self) {
        let unanswered = self.declarations.iter().filter(|(node, told)| {
            let answered = self.reports.get(*node).and_then(|reports| reports.back());
            answered.is_none_or(|answer| answer.id.generation != told.generation)
        });
        let nodes: Vec<NodeName> = unanswered.map(|(node, _)| node.clone()).collect();
        for node in nodes {
            self.doubt_unless_told_otherwise(&node);
        }
    }

    fn doubt_unless_told_otherwise(&mut self, node: &NodeName) {
        let unless_there = self.undeclared.get(node).is_none_or(|u| u.unless_there);
        self.doubt(node, unless_there);
    }

    /// A node is told with the next version of the bus.
    pub(super) fn doubt(&mut self, node: &NodeName, unless_there: bool) {
        let before = self.undeclared.get(node);
        let running = before.and_then(|before| before.running);
        let mut backoff = before.map_or_else(Backoff::default, |before| before.backoff.clone());
        backoff.retry_now();
        let undeclared = Undeclared {
            after: self.assertion.wanted + 1,
            unless_there,
            running,
            backoff,
        };
        self.undeclared.insert(node.clone(), undeclared);
    }

    /// Tells a node the same again, so that it applies what it missed or reports what was let go.
    pub(super) fn tell_again(
        &mut self,
        node: &NodeName,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(presence) = self.presence.get_mut(node) {
            presence.behind = Some(now);
        }
        if self.undeclared.contains_key(node) || !self.declarations.contains_key(node) {
            return;
        }
        let what = "it differs from what it was told; it is told again".to_owned();
        effects.push(Effect::Note(Note::Node(node.clone(), what)));
        self.doubt(node, false);
        // It was told before, so the bus was ready for it: it need not be looked at as a whole.
        if let Some(undeclared) = self.undeclared.get_mut(node) {
            undeclared.after = self.assertion.asserted;
        }
        self.declare(node, now, effects);
    }

    /// A node hears nothing from its consumer: the bus is looked at as a whole, once for all that say so in a while.
    pub(super) fn look_at_consumers(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.assertion.look = true;
        self.look_if_due(now, effects);
    }

    fn look_if_due(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let assertion = &mut self.assertion;
        if assertion.look && passed(assertion.looked, now, self.settings.ask_again) {
            assertion.look = false;
            assertion.looked = now;
            effects.extend(self.want_assertion(now));
        }
    }

    fn declare(&mut self, node: &NodeName, now: Timestamp, effects: &mut Vec<Effect>) {
        let (asserted, retry) = (self.assertion.asserted, self.settings.retry);
        let Some(undeclared) = self.undeclared.get_mut(node) else {
            return;
        };
        let due = self.link && undeclared.backoff.is_due(now, retry);
        if undeclared.after > asserted || undeclared.running.is_some() || !due {
            return;
        }
        let Some(declaration) = self.declarations.get(node) else {
            return;
        };
        undeclared.running = Some(declaration.generation);
        effects.push(Effect::Declare {
            declaration: declaration.clone(),
            unless_there: undeclared.unless_there,
        });
    }

    pub(super) fn retry_outward(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let nodes: Vec<NodeName> = self.undeclared.keys().cloned().collect();
        for node in &nodes {
            self.declare(node, now, effects);
        }
        self.look_if_due(now, effects);
        self.assert(now, effects);
    }
}

impl Settings {
    /// What follows from these records, for each bus there is.
    fn plan(&self, records: &Records) -> Plan {
        let mut plan = derive(records, &self.bounds);
        let buses = self.places.keys().copied().collect();
        in_parts(&mut plan, records, &buses);
        plan
    }

    /// Whether a plan holds together, on the broker there is as well; if not, every way in which it does not.
    fn sound(&self, plan: &Plan, bus: &BusFacts) -> Result<(), String> {
        let mismatches = plan.check(bus);
        let mut sentences: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
        if let Some(broker) = &self.broker {
            let part = plan.parts.get(&BusKind::Amqp).unwrap_or(plan);
            let faults = topology(part, &self.bounds, broker).check();
            sentences.extend(faults.iter().map(ToString::to_string));
        }
        if sentences.is_empty() {
            return Ok(());
        }
        Err(sentences.join("; "))
    }
}
