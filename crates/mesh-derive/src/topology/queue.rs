//! Where messages wait, and for whom.

use std::fmt;

use mesh_model::{InstanceRef, ModuleName, NodeName, Principal, SeatName, TokenId};

use super::Binding;
use super::exchange::{ASK, Exchange, LOG, MARK, PARKED_UNDER, binding};
use super::pattern::{escaped, exactly, named};
use super::rights::Key;
use crate::subject;

/// A queue of the mesh's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// A node's newest declaration.
    Node(NodeName),
    /// What a node is asked for at once.
    Ask(NodeName),
    /// What a module follows: one queue for all its instances.
    Module(ModuleName),
    /// A seat's work, from the seat's registration on.
    Seat(SeatName),
    /// The answer to the holder of a token.
    Answer(TokenId),
    /// Nodes' reports.
    Reports,
    /// Requests to be enrolled.
    Enrolments,
    /// Modules' announcements, for the controller.
    Announcements,
    /// Signs of life.
    Heartbeats,
    /// What of logs nodes were asked for.
    Logs,
    /// Which commit of the controller's store was the last.
    Mark,
    /// What was let go.
    Parked,
}

/// Queues that have their limits in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueClass {
    /// [`Queue::Node`].
    Node,
    /// [`Queue::Ask`].
    Ask,
    /// [`Queue::Module`].
    Module,
    /// [`Queue::Seat`].
    Seat,
    /// [`Queue::Answer`].
    Answer,
    /// [`Queue::Reports`].
    Reports,
    /// [`Queue::Enrolments`].
    Enrolments,
    /// [`Queue::Announcements`].
    Announcements,
    /// [`Queue::Heartbeats`].
    Heartbeats,
    /// [`Queue::Logs`].
    Logs,
    /// [`Queue::Mark`].
    Mark,
    /// [`Queue::Parked`].
    Parked,
}

impl QueueClass {
    /// Every class there is.
    pub const ALL: [Self; 12] = [
        Self::Node,
        Self::Ask,
        Self::Module,
        Self::Seat,
        Self::Answer,
        Self::Reports,
        Self::Enrolments,
        Self::Announcements,
        Self::Heartbeats,
        Self::Logs,
        Self::Mark,
        Self::Parked,
    ];

    /// What every queue of the class is called, or begins with where there are several.
    pub(super) const fn root(self) -> &'static str {
        match self {
            Self::Node => "node.",
            Self::Ask => ASK,
            Self::Module => "mod.",
            Self::Seat => "seat.",
            Self::Answer => "enrol.",
            Self::Reports => "ctl.report",
            Self::Enrolments => "ctl.enrol",
            Self::Announcements => "ctl.events",
            Self::Heartbeats => "ctl.beat",
            Self::Logs => "ctl.log",
            Self::Mark => "ctl.mark",
            Self::Parked => "parked",
        }
    }

    /// What the policy of the class is called: `mesh-` and the class.
    pub fn policy_name(self) -> String {
        format!(
            "mesh-{}",
            self.root().trim_end_matches('.').replace('.', "-")
        )
    }

    /// Which queues the policy is about: all of the class and no other.
    pub fn pattern(self) -> String {
        exactly([], [self.branch()])
    }

    /// The same as a part of a pattern.
    pub(super) fn branch(self) -> String {
        let root = self.root();
        if root.ends_with('.') {
            named(root)
        } else {
            escaped(root)
        }
    }
}

impl Queue {
    /// The controller's own.
    pub const OF_CONTROLLER: [Self; 7] = [
        Self::Reports,
        Self::Enrolments,
        Self::Announcements,
        Self::Heartbeats,
        Self::Logs,
        Self::Mark,
        Self::Parked,
    ];

    /// Which limits it has.
    pub const fn class(&self) -> QueueClass {
        match self {
            Self::Node(_) => QueueClass::Node,
            Self::Ask(_) => QueueClass::Ask,
            Self::Module(_) => QueueClass::Module,
            Self::Seat(_) => QueueClass::Seat,
            Self::Answer(_) => QueueClass::Answer,
            Self::Reports => QueueClass::Reports,
            Self::Enrolments => QueueClass::Enrolments,
            Self::Announcements => QueueClass::Announcements,
            Self::Heartbeats => QueueClass::Heartbeats,
            Self::Logs => QueueClass::Logs,
            Self::Mark => QueueClass::Mark,
            Self::Parked => QueueClass::Parked,
        }
    }

    /// What it is called on the broker.
    pub fn name(&self) -> String {
        let root = self.class().root();
        match self {
            Self::Node(node) | Self::Ask(node) => format!("{root}{node}"),
            Self::Module(module) => format!("{root}{module}"),
            Self::Seat(seat) => format!("{root}{seat}"),
            Self::Answer(token) => format!("{root}{token}"),
            _ => root.to_owned(),
        }
    }

    /// Which one is called so; nothing for a name that is none of the mesh's.
    pub fn named(name: &str) -> Option<Self> {
        let own = Self::OF_CONTROLLER.into_iter();
        if let Some(queue) = own.into_iter().find(|queue| queue.class().root() == name) {
            return Some(queue);
        }
        let (kind, name) = name.split_once('.')?;
        match kind {
            "node" => name.parse().ok().map(Self::Node),
            "ask" => name.parse().ok().map(Self::Ask),
            "mod" => name.parse().ok().map(Self::Module),
            "seat" => name.parse().ok().map(Self::Seat),
            "enrol" => name.parse().ok().map(Self::Answer),
            _ => None,
        }
    }

    /// Whether somebody may be who it is for. A seat is any module's that holds it.
    pub(super) fn is_for(&self, principal: &Principal) -> bool {
        match (self, principal) {
            (Self::Node(node) | Self::Ask(node), Principal::Node(reader)) => node == reader,
            (Self::Module(module), Principal::Instance(InstanceRef { module: of, .. })) => {
                module == of
            }
            (Self::Seat(_), Principal::Instance(_)) => true,
            (Self::Answer(token), Principal::Joiner(reader)) => token == reader,
            (_, Principal::Controller) => Self::OF_CONTROLLER.contains(self),
            _ => false,
        }
    }

    /// Where the controller writes what is in it, if nobody else puts anything into it.
    pub(super) fn only_written(&self) -> Option<(Exchange, Key)> {
        if !matches!(
            self,
            Self::Node(_) | Self::Ask(_) | Self::Answer(_) | Self::Mark | Self::Parked
        ) {
            return None;
        }
        let Binding { exchange, key, .. } = self.own_binding()?;
        let under = key.strip_suffix(".#").map(str::to_owned);
        Some((exchange, under.map_or(Key::Is(key), Key::Under)))
    }

    /// What brings messages into it, unless that is what its owner follows: then the key is left open.
    pub(super) fn source(&self) -> (Exchange, Option<String>) {
        let (exchange, key) = match self {
            Self::Node(node) => (Exchange::Declarations, node.to_string()),
            Self::Ask(node) => (Exchange::Declarations, format!("{ASK}{node}")),
            Self::Module(_) | Self::Announcements => return (Exchange::Events, None),
            Self::Seat(seat) => (Exchange::Seats, format!("{seat}.*")),
            Self::Answer(token) => (Exchange::Answers, token.to_string()),
            Self::Reports => (Exchange::Control, "report.*".to_owned()),
            Self::Enrolments => (Exchange::Control, "enrol.*".to_owned()),
            Self::Heartbeats => (Exchange::Heartbeats, "*".to_owned()),
            Self::Logs => (Exchange::Heartbeats, format!("{LOG}*")),
            Self::Mark => (Exchange::Control, MARK.to_owned()),
            Self::Parked => (Exchange::Control, format!("{PARKED_UNDER}.#")),
        };
        (exchange, Some(key))
    }

    /// Whether this key is that of all that is carried to it from the other bus of a mesh of two.
    pub(super) fn is_carried_by(&self, exchange: Exchange, key: &str) -> bool {
        let Self::Module(module) = self else {
            return false;
        };
        let carried = binding(&subject::carries(module));
        carried.is_some_and(|(from, all)| from == exchange && all == key)
    }

    /// The one binding of a queue whose messages do not depend on what anybody follows.
    pub(super) fn own_binding(&self) -> Option<Binding> {
        let (exchange, key) = self.source();
        key.map(|key| Binding {
            exchange,
            key,
            queue: self.clone(),
        })
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
