//! A broker as a test has it: the one that all share, or one of its own.

use std::ops::Deref;

use mesh_testkit::rabbitmq::Broker;

/// It, whosever it is.
#[derive(Debug)]
pub(crate) enum Lent {
    /// What is left on it stays there.
    Shared(&'static Broker),
    /// It ends with this, and all that is on it.
    Own(Box<Broker>),
}

impl Lent {
    /// Whether others find what is left on it.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

impl Deref for Lent {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        match self {
            Self::Shared(broker) => broker,
            Self::Own(broker) => broker,
        }
    }
}
