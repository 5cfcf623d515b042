//! What one user may do: write to exchanges, under keys; read queues; configure nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::exchange::{Exchange, ExchangeKind};
use super::pattern::{ANYTHING, NOTHING, exactly, under};
use super::queue::{Queue, QueueClass};

/// The exact authority of one user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights {
    /// Where it may publish.
    pub write: BTreeSet<Exchange>,
    /// Under which keys, for each topic exchange it may reach. One that is not listed would allow every key.
    pub keys: BTreeMap<Exchange, BTreeSet<Key>>,
    /// What it may read.
    pub read: BTreeSet<Queue>,
    /// Of which classes it may read every queue, whichever there are.
    pub read_all: BTreeSet<QueueClass>,
}

/// A routing key somebody may publish under.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Exactly this.
    Is(String),
    /// Anything under this word.
    Under(String),
    /// Whatever there is.
    Any,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(key) => f.write_str(key),
            Self::Under(word) => write!(f, "{word}.#"),
            Self::Any => f.write_str("#"),
        }
    }
}

impl Rights {
    /// What it may declare, bind or delete: nothing, whoever it is.
    pub const CONFIGURE: &'static str = NOTHING;

    /// The pattern of exchanges it may write to.
    pub fn write_pattern(&self) -> String {
        exactly(self.write.iter().map(|exchange| exchange.as_str()), [])
    }

    /// The pattern of queues it may read.
    pub fn read_pattern(&self) -> String {
        let names: Vec<String> = self.read.iter().map(Queue::name).collect();
        let classes = self.read_all.iter().map(|class| class.branch());
        exactly(names.iter().map(String::as_str), classes)
    }

    /// For each topic exchange, the pattern of keys it may write. Keys it may bind by are always [`NOTHING`].
    pub fn topic_patterns(&self) -> impl Iterator<Item = (Exchange, String)> {
        let topics = self.keys.iter();
        topics
            .filter(|(exchange, _)| exchange.kind() == ExchangeKind::Topic)
            .map(|(exchange, keys)| (*exchange, key_pattern(keys)))
    }
}

fn key_pattern(keys: &BTreeSet<Key>) -> String {
    let names = keys.iter().filter_map(|key| match key {
        Key::Is(key) => Some(key.as_str()),
        Key::Under(_) | Key::Any => None,
    });
    let wider = keys.iter().filter_map(|key| match key {
        Key::Under(word) => Some(under(word)),
        Key::Any => Some(ANYTHING.to_owned()),
        Key::Is(_) => None,
    });
    exactly(names, wider)
}
