//! A node's way from one bus to the other, one durable step after another: offered, proven, left.
//!
//! Until it has reported there, on the declaration that offers it, it stays where it is, and nothing is taken from it. Then
//! that bus is its own; and its modules may do something there only once they may do nothing where they were.

use mesh_model::{BusKind, Moving, NodeName, NodeRecord, Principal, Records, Report, Timestamp};

use super::Controller;
use super::lane::{Origin, audit};
use crate::effect::{Effect, Note};
use crate::message::MessageKey;
use crate::placement::{Mint, settle_instances};
use crate::spread::standing;

/// A step on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It works there.
    Proven,
    /// What it could do where it was is withdrawn.
    Left,
    /// It was not heard there in time.
    GivenUp,
}

impl<M: Mint> Controller<M> {
    /// A report that came over the bus a node was offered proves that it hears and is heard there.
    pub(super) fn hear_from(
        &mut self,
        key: MessageKey,
        report: &Report,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let node = &report.id.node;
        let offered = self.offered(node) == Some(key.bus);
        let told = self.declarations.get(node);
        if offered && told.is_some_and(|told| told.generation == report.id.generation) {
            let node = node.clone();
            self.queue_step(&node, Step::Proven);
            self.advance(now, effects);
            // The report is settled, and comes no more: where the step cannot be stored now, it is taken later.
            self.proven.insert(node, key.bus);
        }
    }

    /// The bus a node is to prove itself on.
    fn offered(&self, node: &NodeName) -> Option<BusKind> {
        match self.records.nodes.get(node)?.moving.as_ref()? {
            Moving::Proving { to, .. } => Some(*to),
            Moving::Leaving { .. } => None,
        }
    }

    /// A proof is of the offer that stands.
    pub(super) fn forget_proofs(&mut self) {
        let mut proven = std::mem::take(&mut self.proven);
        proven.retain(|node, bus| self.offered(node) == Some(*bus));
        self.proven = proven;
    }

    /// Nodes that have left go on once the bus shows it, and those not heard in time stay.
    pub(super) fn go_on_moving(&mut self, now: Timestamp) {
        let (current, patience) = (self.bus_is_current(), self.settings.move_patience);
        let steps = self.records.nodes.iter().filter_map(|(node, record)| {
            let step = match record.moving.as_ref()? {
                Moving::Leaving { .. } => current.then_some(Step::Left),
                Moving::Proving { to, .. } if self.proven.get(node) == Some(to) => {
                    Some(Step::Proven)
                }
                Moving::Proving { since, .. } => {
                    (now.since(*since) >= patience).then_some(Step::GivenUp)
                }
            };
            Some((node.clone(), step?))
        });
        let steps: Vec<(NodeName, Step)> = steps.collect();
        if self.lane.is_empty() {
            for (node, step) in steps {
                self.queue_step(&node, step);
            }
        }
    }

    pub(super) fn begin_step(
        &mut self,
        node: &NodeName,
        step: Step,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let mut next = self.records.clone();
        let Some(record) = next.nodes.get_mut(node) else {
            return;
        };
        let Some(what) = take(node, record, step) else {
            return;
        };
        if let Err(error) =
            settle_instances(&mut next, &standing(&self.records), now, &mut self.mint)
        {
            let why = error.to_string();
            effects.push(Effect::Note(Note::Node(node.clone(), why)));
            return;
        }
        next.revision = next.revision.next();
        let who = Principal::Node(node.clone()).to_string();
        let audit = audit(&next, now, &who, &what);
        self.store_change(Origin::Nobody, next, Some(audit), effects);
    }
}

/// The records there are once every node on its way has arrived, its modules with it; nothing where none is.
pub(super) fn arrived(records: &Records) -> Option<Records> {
    let mut nodes = records.nodes.values();
    if nodes.all(|record| record.moving.is_none()) {
        return None;
    }
    let mut arrived = records.clone();
    for record in arrived.nodes.values_mut() {
        if let Some(Moving::Proving { to, key, .. }) = record.moving.take() {
            (record.bus, record.key) = (to, key);
        }
    }
    for (instance, record) in &mut arrived.instances {
        if let Some(node) = arrived.nodes.get(&instance.node) {
            record.bus = node.bus;
        }
    }
    Some(arrived)
}

/// Takes a step, if that is where the node is, and says what it was.
fn take(node: &NodeName, record: &mut NodeRecord, step: Step) -> Option<String> {
    let what = match (step, record.moving.take()?) {
        (Step::Proven, Moving::Proving { to, key, .. }) => {
            let from = std::mem::replace(&mut record.bus, to);
            record.key = key;
            record.moving = Some(Moving::Leaving { from });
            format!("node {node} works on {to} and leaves {from}")
        }
        (Step::Left, Moving::Leaving { from }) => {
            format!("node {node} has left {from}; its bus is {}", record.bus)
        }
        (Step::GivenUp, Moving::Proving { to, .. }) => {
            let stays = record.bus;
            format!("node {node} was not heard on {to} in time and stays on {stays}")
        }
        (_, elsewhere) => {
            record.moving = Some(elsewhere);
            return None;
        }
    };
    Some(what)
}
