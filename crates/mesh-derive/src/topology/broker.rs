//! What of a broker decides how a plan is written for it.

use std::fmt;
use std::str::FromStr;

/// What the broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerFacts {
    /// The virtual host the mesh has to itself.
    pub vhost: String,
    /// Its version: settings that one version needs another refuses.
    pub version: BrokerVersion,
    /// What kind of queues hold what must not be lost.
    pub queues: QueueKind,
    /// What the name of each of the mesh's users begins with, where a broker serves several meshes.
    pub users: String,
}

/// How a queue keeps its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKind {
    /// On one broker, on disk.
    Classic,
    /// On most of a cluster's brokers.
    Quorum,
}

impl QueueKind {
    /// The word for it in `x-queue-type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        }
    }
}

/// The version of a RabbitMQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerVersion {
    /// The first number.
    pub major: u16,
    /// The second.
    pub minor: u16,
    /// The third.
    pub patch: u16,
}

impl BrokerVersion {
    /// The oldest a mesh may be on: the oldest that all of it was measured on.
    pub const OLDEST: Self = Self::new(3, 10, 0);
    /// The first in which a routing key proves the sender: before it the keys in a message's `CC` header, by which it is
    /// routed as well, are held against no permission.
    pub const PROVES_SENDER: Self = Self::new(4, 0, 3);
    /// The first that takes a delivery limit of none and a consumer timeout in a policy; one before refuses the policy.
    pub(crate) const UNLIMITED: Self = Self::new(4, 0, 0);

    /// A version by its numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether the routing key alone proves the sender. Where it does not, a reader also asks that the `user_id` of a
    /// message is the sender's, which the broker does hold against the login.
    pub fn proves_sender(self) -> bool {
        self >= Self::PROVES_SENDER
    }
}

impl fmt::Display for BrokerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no RabbitMQ version: write three numbers, as in 4.0.5")]
pub struct InvalidVersion(pub String);

impl FromStr for BrokerVersion {
    type Err = InvalidVersion;
    /// Takes what a broker says of itself: three numbers, and perhaps what kind of a build it is.
    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let invalid = || InvalidVersion(text.to_owned());
        let numbers = text.split(['-', '+', '~']).next().ok_or_else(invalid)?;
        let mut parts = numbers.split('.').map(str::parse::<u16>);
        let mut next = || parts.next().and_then(Result::ok).ok_or_else(invalid);
        let version = Self::new(next()?, next()?, next()?);
        match parts.next() {
            None => Ok(version),
            Some(_) => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_a_broker_says_it_and_compared_by_number() {
        let version = |text: &str| text.parse::<BrokerVersion>();
        assert_eq!(version("3.10.8"), Ok(BrokerVersion::new(3, 10, 8)));
        assert_eq!(version("4.3.0-rc.1"), Ok(BrokerVersion::new(4, 3, 0)));
        for text in ["", "4", "4.0", "4.0.x", "4.0.3.1", "v4.0.3"] {
            assert_eq!(version(text), Err(InvalidVersion(text.to_owned())));
        }
        for (text, proves) in [
            ("4.0.2", false),
            ("4.0.3", true),
            ("4.0.10", true),
            ("3.13.7", false),
        ] {
            assert_eq!(version(text).unwrap().proves_sender(), proves, "{text}");
        }
    }
}
