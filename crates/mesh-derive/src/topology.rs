//! The same plan as a RabbitMQ broker holds it: exchanges, queues, bindings, policies, and who may do what.
//!
//! [`topology`] is computed from a [`Plan`] and from nothing else that was declared, so that a mesh over AMQP and one over
//! NATS cannot differ in who hears whom. What is wrong is mostly unwritable here: nobody has a right to configure, there is
//! no way to name the default exchange, a pattern is made of whole names. The rest is found by [`Topology::check`].

mod broker;
mod check;
mod exchange;
mod fault;
mod lay;
mod pattern;
mod policy;
pub mod proof;
mod queue;
mod rights;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::Principal;

pub use broker::{BrokerFacts, BrokerVersion, InvalidVersion, QueueKind};
pub use check::NAME_LIMIT;
pub use exchange::{Address, Exchange, ExchangeKind};
pub use fault::TopologyFault;
pub use lay::topology;
pub use pattern::NOTHING;
pub use policy::{LONGEST_HELD, Overflow, Policy};
pub use queue::{Queue, QueueClass};
pub use rights::{Key, Rights};
pub use user::{EPOCH_LENGTH, controller_login, login, principal_of, user_name, whose_login};

/// Everything a broker is to hold in its virtual host. The exchanges are [`Exchange::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// What the broker is.
    pub broker: BrokerFacts,
    /// Every queue, and what kind of one.
    pub queues: BTreeMap<Queue, QueueKind>,
    /// What brings messages into the queues. They are made by whoever provisions the broker: nobody binds for himself.
    pub bindings: BTreeSet<Binding>,
    /// The keys of events that the reader of a queue was declared to hear: what its bindings are held against.
    pub follows: BTreeMap<Queue, BTreeSet<String>>,
    /// The limits of each class of queues: exactly one policy has effect on a queue.
    pub policies: BTreeMap<QueueClass, Policy>,
    /// Whether this is one of two buses, between which the controller carries: only then may it read what is for others.
    pub of_two: bool,
    /// Everybody with a credential, and what each may do.
    pub users: BTreeMap<Principal, Rights>,
}

/// Messages of an exchange whose key fits go into a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// From where.
    pub exchange: Exchange,
    /// Which key; for a topic exchange `*` stands for one word and `#` for any number.
    pub key: String,
    /// To where.
    pub queue: Queue,
}
