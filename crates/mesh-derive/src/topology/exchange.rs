//! Where is published: one exchange for each purpose, and what each of the mesh's subjects is there.

use std::fmt;

use mesh_model::{Filter, Subject};

use crate::subject;

/// An exchange of the mesh's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exchange {
    /// Declarations, by node; and what a node is asked for at once.
    Declarations,
    /// What is for the controller alone: reports, requests to be enrolled, its own mark, what was parked.
    Control,
    /// Signs of life, by node, and what of logs it was asked for. They are published as not to be kept.
    Heartbeats,
    /// Answers to enrolments, by token.
    Answers,
    /// Events, by module.
    Events,
    /// Work, by seat and sender.
    Seats,
    /// Events from the other bus of a mesh of two, by whom they are carried to.
    Carried,
}

/// How an exchange reads a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKind {
    /// The whole key is the name of where to. A broker holds keys against nothing.
    Direct,
    /// The key is words between dots, and held against what its sender may write.
    Topic,
}

impl ExchangeKind {
    /// The broker's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Topic => "topic",
        }
    }
}

impl Exchange {
    /// Every exchange there is.
    pub const ALL: [Self; 7] = [
        Self::Declarations,
        Self::Control,
        Self::Heartbeats,
        Self::Answers,
        Self::Events,
        Self::Seats,
        Self::Carried,
    ];

    /// What it is called on the broker.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Declarations => "mesh.decl",
            Self::Control => "mesh.ctl",
            Self::Heartbeats => "mesh.beat",
            Self::Answers => "mesh.enrol",
            Self::Events => "mesh.ev",
            Self::Seats => "mesh.seat",
            Self::Carried => "mesh.carry",
        }
    }

    /// Which one is called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }

    /// How it reads a key. Whatever more than one may write to is a topic exchange: only there are keys held against
    /// permissions.
    pub const fn kind(self) -> ExchangeKind {
        match self {
            Self::Declarations | Self::Answers => ExchangeKind::Direct,
            Self::Control | Self::Heartbeats | Self::Events | Self::Seats | Self::Carried => {
                ExchangeKind::Topic
            }
        }
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where one message is published: an exchange and a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The exchange.
    pub exchange: Exchange,
    /// The routing key.
    pub key: String,
}

impl Address {
    /// Where what NATS has on this subject is published; nothing for a subject that is none of the mesh's, or is NATS's
    /// own: acknowledgements, and the epoch.
    pub fn of(subject: &Subject) -> Option<Self> {
        let (exchange, key) = place(subject.as_str())?;
        Some(Self { exchange, key })
    }

    /// The subject this stands for, so that [`subject::heard`] tells what a message is on either bus.
    pub fn subject(&self) -> Option<Subject> {
        let key = &self.key;
        let text = match self.exchange {
            Exchange::Declarations => match key.strip_prefix(ASK) {
                Some(node) => format!("mesh.inbox.node.{node}.ask"),
                None => format!("mesh.node.{key}.declare"),
            },
            Exchange::Control if key == MARK => return Some(subject::mark()),
            Exchange::Control if key.starts_with(PARKED) => format!("mesh.{key}"),
            Exchange::Control => format!("mesh.control.{key}"),
            Exchange::Heartbeats if key.starts_with(LOG) => format!("mesh.{key}"),
            Exchange::Heartbeats => format!("mesh.heartbeat.{key}"),
            Exchange::Answers => format!("mesh.inbox.joiner.{key}.answer"),
            Exchange::Events => format!("mesh.mod.{key}"),
            Exchange::Seats => format!("mesh.seat.{key}"),
            Exchange::Carried => format!("mesh.carry.{key}"),
        };
        Subject::new(text).ok()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.exchange, self.key)
    }
}

/// What a consumer's filter is as the key of a binding.
pub(super) fn binding(filter: &Filter) -> Option<(Exchange, String)> {
    let (exchange, key) = place(filter.as_str())?;
    // `>` stands for one word at least, `#` for none as well.
    let key = match key.strip_suffix('>') {
        Some(head) => format!("{head}*.#"),
        None => key,
    };
    Some((exchange, key))
}

fn place(text: &str) -> Option<(Exchange, String)> {
    let text = text.strip_prefix("mesh.")?;
    let (family, rest) = text.split_once('.')?;
    let key = |rest: &str| rest.to_owned();
    Some(match family {
        "control" => (Exchange::Control, key(rest)),
        "parked" => (Exchange::Control, key(text)),
        "ctl" if rest == MARK => (Exchange::Control, key(rest)),
        "heartbeat" => (Exchange::Heartbeats, key(rest)),
        "log" => (Exchange::Heartbeats, key(text)),
        "mod" => (Exchange::Events, key(rest)),
        "seat" => (Exchange::Seats, key(rest)),
        "carry" => (Exchange::Carried, key(rest)),
        "node" => (Exchange::Declarations, key(rest.strip_suffix(".declare")?)),
        // Of all inboxes only joiners' are on this bus, and where nodes are asked.
        "inbox" if rest == ">" => (Exchange::Answers, key(rest)),
        "inbox" if rest.starts_with("node.") => {
            let node = rest.strip_prefix("node.")?.strip_suffix(".ask")?;
            (Exchange::Declarations, format!("{ASK}{node}"))
        }
        "inbox" => {
            let token = rest.strip_prefix("joiner.")?.split('.').next()?;
            (Exchange::Answers, key(token))
        }
        _ => return None,
    })
}

/// The key of the controller's mark.
pub(super) const MARK: &str = "mark";
/// What the key begins with by which a node is asked.
pub(super) const ASK: &str = "ask.";
/// What the key of everything of logs begins with.
pub(super) const LOG: &str = "log.";
/// What the key of everything parked begins with.
const PARKED: &str = "parked.";
/// The word all that is parked is under.
pub(super) const PARKED_UNDER: &str = "parked";
