//! One thing a user attempts on a broker.

use std::fmt;

use mesh_model::Principal;

use crate::proof::WORD;
use crate::topology::Exchange;

/// Where somebody publishes, whether there is such a place or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The exchange; nothing is the one that reaches every queue.
    pub exchange: String,
    /// The routing key.
    pub key: String,
}

impl At {
    pub(super) fn of(exchange: Exchange, key: String) -> Self {
        Self {
            exchange: exchange.to_string(),
            key,
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exchange.as_str() {
            "" => f.write_str("the default exchange")?,
            named => f.write_str(named)?,
        }
        write!(f, " {:?}", self.key)
    }
}

/// What brings messages from somewhere to somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bond {
    /// To where.
    pub to: String,
    /// From which exchange.
    pub from: String,
    /// Under which key.
    pub key: String,
}

impl Bond {
    /// The same under a key nobody publishes under.
    fn of_nothing(&self) -> Self {
        Self {
            key: WORD.to_owned(),
            ..self.clone()
        }
    }

    fn is_of_nothing(&self) -> bool {
        self.key == WORD
    }
}

impl fmt::Display for Bond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {} by {:?}", self.to, self.from, self.key)
    }
}

/// One thing a user attempts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attempt {
    /// To log in.
    Connect,
    /// To publish.
    Publish(At),
    /// To publish where it may, and be another in `user_id`.
    Impersonate {
        /// Where.
        at: At,
        /// Who it would be.
        other: Principal,
    },
    /// To publish where it may, and have it routed by a second key as well (`CC`).
    Copy {
        /// Where.
        at: At,
        /// The second key.
        to: String,
    },
    /// To read a queue.
    Consume(String),
    /// To take one message of a queue.
    Get(String),
    /// To empty a queue.
    Purge(String),
    /// To make a queue.
    DeclareQueue(String),
    /// To remove one.
    DeleteQueue(String),
    /// To make an exchange.
    DeclareExchange(String),
    /// To remove one.
    DeleteExchange(String),
    /// To bind a queue.
    Bind(Bond),
    /// To take a queue's binding away.
    Unbind(Bond),
    /// To bind an exchange to another.
    BindExchange(Bond),
}

impl Attempt {
    /// What must have been refused before this is tried: it needs the same permission on the same thing, and nothing comes of
    /// it even where a broker wrongly allows it. Nothing where that is so of the attempt itself.
    pub fn gate(&self) -> Option<Self> {
        match self {
            Self::Get(queue) | Self::Purge(queue) => Some(Self::Consume(queue.clone())),
            Self::DeleteQueue(queue) => Some(Self::DeclareQueue(queue.clone())),
            Self::DeleteExchange(exchange) => Some(Self::DeclareExchange(exchange.clone())),
            Self::Bind(bond) if !bond.is_of_nothing() => Some(Self::Bind(bond.of_nothing())),
            Self::Unbind(bond) => Some(Self::Bind(bond.of_nothing())),
            Self::BindExchange(bond) if !bond.is_of_nothing() => {
                Some(Self::BindExchange(bond.of_nothing()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Publish(at) => write!(f, "publish {at}"),
            Self::Impersonate { at, other } => write!(f, "publish {at} as {other}"),
            Self::Copy { at, to } => write!(f, "publish {at} with a copy to {to:?}"),
            Self::Consume(queue) => write!(f, "consume {queue}"),
            Self::Get(queue) => write!(f, "get from {queue}"),
            Self::Purge(queue) => write!(f, "purge {queue}"),
            Self::DeclareQueue(queue) => write!(f, "declare queue {queue}"),
            Self::DeleteQueue(queue) => write!(f, "delete queue {queue}"),
            Self::DeclareExchange(exchange) => write!(f, "declare exchange {exchange}"),
            Self::DeleteExchange(exchange) => write!(f, "delete exchange {exchange}"),
            Self::Bind(bond) => write!(f, "bind queue {bond}"),
            Self::Unbind(bond) => write!(f, "unbind queue {bond}"),
            Self::BindExchange(bond) => write!(f, "bind exchange {bond}"),
        }
    }
}
