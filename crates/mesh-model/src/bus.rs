//! Which buses there are, and how a node gets from one to another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{BusFacts, PublicKey, Sealed, Timestamp};

/// A kind of bus. On each a principal has a secret, and proves it in that bus's own way.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum BusKind {
    /// NATS: a server knows the public half of a key, and has the secret half sign. The loopback counts as one.
    #[default]
    Nats,
    /// RabbitMQ: a broker knows the hash of a password that follows from the secret half.
    Amqp,
}

impl BusKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Nats, Self::Amqp];

    /// The other of the two.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Nats => Self::Amqp,
            Self::Amqp => Self::Nats,
        }
    }

    /// What it is called in files and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Amqp => "amqp",
        }
    }
}

impl fmt::Display for BusKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no bus: write \"nats\" or \"amqp\"")]
pub struct InvalidBusKind(String);

impl FromStr for BusKind {
    type Err = InvalidBusKind;
    fn from_str(text: &str) -> Result<Self, InvalidBusKind> {
        let named = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        named.ok_or_else(|| InvalidBusKind(text.to_owned()))
    }
}

/// How hosts reach a bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusPlace {
    /// Where it is.
    pub urls: Vec<String>,
    /// Certificates of who vouches for it, in PEM; nothing where it does not encrypt.
    pub ca: Option<String>,
    /// What of it stands in subjects.
    pub facts: BusFacts,
}

/// A node on its way from one bus to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moving {
    /// It was offered the other, and is to prove that it hears and is heard there. Until then it stays where it is.
    Proving {
        /// The other bus.
        to: BusKind,
        /// Who it is there.
        key: PublicKey,
        /// The secret half, sealed to the node.
        credential: Sealed,
        /// When it was offered.
        since: Timestamp,
    },
    /// It has proven it, so that is its bus; on the one before, what it and its modules could do is being withdrawn. Its
    /// modules have authority on neither: nobody holds a seat twice.
    Leaving {
        /// The bus before.
        from: BusKind,
    },
}

/// Where a node is at home.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Home {
    /// Where it is: the mesh has one bus.
    #[default]
    Here,
    /// On this bus, and on no other any more.
    On(BusKind),
    /// Where it is; and it may go to another, once that works.
    Offered(Box<Offer>),
}

/// Another bus for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Which.
    pub bus: BusKind,
    /// Where it is reached.
    pub place: BusPlace,
    /// The secret the node proves itself with there, sealed to it.
    pub credential: Sealed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_is_read_as_it_is_written_and_nothing_else_is_one() {
        for kind in BusKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(kind.other().other(), kind);
            assert_ne!(kind.other(), kind);
        }
        for text in ["", "NATS", "rabbitmq", "nats "] {
            assert!(text.parse::<BusKind>().is_err(), "{text:?}");
        }
    }
}
