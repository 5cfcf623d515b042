//! The model bus: keeps what is published until it is settled, and delivers it late, twice or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_control::{Message, MessageKey, Queue};
use mesh_derive::Plan;
use mesh_model::{Declaration, NodeName, Principal, PublicKey, TokenId};

/// A message in the queue of what the controller must not miss.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) message: Message,
    /// How often it was delivered.
    pub(super) deliveries: u64,
}

/// A node's newest declaration on the bus.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) sequence: u64,
    pub(super) declaration: Declaration,
    /// The one whose place it took.
    pub(super) before: Option<Declaration>,
    pub(super) acknowledged: bool,
    /// It is not delivered again before.
    pub(super) working_until: u64,
}

#[derive(Debug, Default)]
pub(super) struct Bus {
    sequence: u64,
    pub(super) control: BTreeMap<MessageKey, Waiting>,
    pub(super) told: BTreeMap<NodeName, Told>,
    pub(super) parked: Vec<MessageKey>,
    pub(super) plan: Option<Arc<Plan>>,
}

impl Bus {
    pub(super) fn publish(&mut self, message: Message) -> MessageKey {
        self.sequence += 1;
        let key = MessageKey {
            bus: mesh_model::BusKind::Nats,
            queue: Queue::Control,
            sequence: self.sequence,
        };
        let deliveries = 0;
        self.control.insert(
            key,
            Waiting {
                message,
                deliveries,
            },
        );
        key
    }

    pub(super) fn declare(&mut self, declaration: Declaration) -> u64 {
        self.sequence += 1;
        let node = declaration.node.clone();
        let before = self.told.remove(&node).map(|told| told.declaration);
        self.told.insert(
            node,
            Told {
                sequence: self.sequence,
                declaration,
                before,
                acknowledged: false,
                working_until: 0,
            },
        );
        self.sequence
    }

    /// Whether whoever has this key is this node, as far as the bus knows.
    pub(super) fn admits(&self, key: &PublicKey, node: &NodeName) -> bool {
        let plan = self.plan.as_ref();
        plan.and_then(|plan| plan.users.get(key)) == Some(&Principal::Node(node.clone()))
    }

    pub(super) fn admits_joiner(&self, token: &TokenId) -> bool {
        let joiner = Principal::Joiner(token.clone());
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.grants.contains_key(&joiner))
    }

    /// Whether a node's consumer waits for it.
    pub(super) fn serves(&self, node: &NodeName) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| {
            plan.grants.contains_key(&Principal::Node(node.clone()))
                && plan.consumers.keys().any(|c| c.name() == node.as_str())
        })
    }
}
