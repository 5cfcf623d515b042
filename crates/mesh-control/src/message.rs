//! Which message is meant, what messages say once they are understood, and how they are settled.

use std::time::Duration;

use mesh_model::{BusKind, Enrolment, ModuleName, NodeName, PublicKey, Report, TokenId};

/// Which message: the same each time it is delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    /// On which bus it came.
    pub bus: BusKind,
    /// Where it waits.
    pub queue: Queue,
    /// Which one there.
    pub sequence: u64,
}

/// The two queues a controller takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// What it must not miss.
    Control,
    /// What modules say that it follows.
    Events,
}

/// How a controller settles a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Done with: the bus forgets it.
    Done,
    /// Not yet: the bus keeps it and sends it again after this long.
    Hold(Duration),
}

/// How a node settles a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeSettlement {
    /// Applied and reported, or superseded.
    Done,
    /// Still working on it.
    Working,
}

/// What a message to the controller says, once it is understood. Who says it comes from its subject alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A node reports.
    Report(NodeName, Report),
    /// The holder of a token wants to become a node.
    Enrolment(TokenId, Enrolment),
    /// A module says that it is there.
    Announced(ModuleName, Announcement),
    /// It could not be understood, and never will be.
    Malformed(String),
}

/// What a module says of itself when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The release it is.
    pub release: String,
    /// The node it runs on.
    pub node: NodeName,
    /// The key it has, where it says so.
    pub key: Option<PublicKey>,
}
