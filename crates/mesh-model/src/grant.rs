//! Who a credential is for, and exactly what it may publish and subscribe.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::{Filter, InvalidName, ModuleName, NodeName, QueueGroup, Subject, TokenId};

/// One module on one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceRef {
    /// The module.
    pub module: ModuleName,
    /// The node.
    pub node: NodeName,
}

impl fmt::Display for InstanceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.module, self.node)
    }
}

/// Who a credential is for, written `controller`, `node/N`, `module/M`, `module/M@N`, `joiner/ID`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Principal {
    /// The one that decides.
    Controller,
    /// A node's agent.
    Node(NodeName),
    /// A module: what all its instances have in common. Holds no credential itself.
    Module(ModuleName),
    /// A module on a node: the module's authority and an inbox of its own.
    Instance(InstanceRef),
    /// The holder of a token.
    Joiner(TokenId),
}

impl Serialize for Principal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => f.write_str("controller"),
            Self::Node(node) => write!(f, "node/{node}"),
            Self::Module(module) => write!(f, "module/{module}"),
            Self::Instance(instance) => write!(f, "module/{instance}"),
            Self::Joiner(token) => write!(f, "joiner/{token}"),
        }
    }
}

/// A text that names no principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrincipal {
    /// Not one of the five forms.
    #[error("{0:?} is no principal: write controller, node/N, module/M, module/M@N or joiner/ID")]
    Form(String),
    /// The name in it is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl FromStr for Principal {
    type Err = InvalidPrincipal;
    fn from_str(text: &str) -> Result<Self, InvalidPrincipal> {
        if text == "controller" {
            return Ok(Self::Controller);
        }
        match text.split_once('/') {
            Some(("node", name)) => Ok(Self::Node(name.parse()?)),
            Some(("joiner", id)) => Ok(Self::Joiner(id.parse()?)),
            Some(("module", name)) => match name.split_once('@') {
                None => Ok(Self::Module(name.parse()?)),
                Some((module, node)) => Ok(Self::Instance(InstanceRef {
                    module: module.parse()?,
                    node: node.parse()?,
                })),
            },
            _ => Err(InvalidPrincipal::Form(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Principal {
    type Error = InvalidPrincipal;
    fn try_from(text: String) -> Result<Self, InvalidPrincipal> {
        text.parse()
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.to_string()
    }
}

/// A list of what is allowed. Empty allows nothing, and every renderer must say so: to a server, an empty list allows
/// everything.
pub type Allow = BTreeSet<Filter>;

/// A subscription that is allowed only as a member of a queue group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QueueSubscription {
    /// What may be subscribed.
    pub filter: Filter,
    /// In which group.
    pub queue: QueueGroup,
}

/// The exact authority of one principal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grant {
    /// What it may publish on.
    pub publish: Allow,
    /// What it may subscribe to.
    pub subscribe: Allow,
    /// What it may subscribe to as a member of a group only.
    pub queues: BTreeSet<QueueSubscription>,
}

impl Grant {
    /// How many entries it has.
    pub fn entries(&self) -> usize {
        self.publish.len() + self.subscribe.len() + self.queues.len()
    }

    /// Whether it may publish a message on `subject`.
    pub fn publishes(&self, subject: &Subject) -> bool {
        self.publish.iter().any(|allowed| allowed.matches(subject))
    }

    /// Whether it may subscribe to `filter`, as a member of `queue` where one is given. What may be subscribed alone may
    /// be subscribed in any group, and not the other way about.
    pub fn subscribes(&self, filter: &Filter, queue: Option<&str>) -> bool {
        self.subscribe
            .iter()
            .any(|allowed| filter.is_subset_of(allowed))
            || self.queues.iter().any(|allowed| {
                queue == Some(allowed.queue.as_str()) && filter.is_subset_of(&allowed.filter)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_granted_in_a_group_is_not_granted_alone() {
        let grant = Grant {
            publish: BTreeSet::from(["a.>".parse().unwrap()]),
            subscribe: BTreeSet::from(["b.*.c".parse().unwrap()]),
            queues: BTreeSet::from([QueueSubscription {
                filter: "d".parse().unwrap(),
                queue: "g".parse().unwrap(),
            }]),
        };
        for (filter, queue, expected) in [
            ("d", Some("g"), true),
            ("d", Some("h"), false),
            ("d", None, false),
            ("b.x.c", None, true),
            ("b.x.c", Some("g"), true),
            ("b.>", None, false),
            ("a.x", None, false),
        ] {
            let filter = filter.parse().unwrap();
            assert_eq!(
                grant.subscribes(&filter, queue),
                expected,
                "{filter} {queue:?}"
            );
        }
        assert!(grant.publishes(&"a.x".parse().unwrap()));
        assert!(!grant.publishes(&"a".parse().unwrap()));
    }

    #[test]
    fn principals_read_back_as_they_are_written() {
        for text in [
            "controller",
            "node/web-1",
            "module/mailer",
            "module/mailer@web-1",
            "joiner/a1b2",
        ] {
            let principal: Principal = text.parse().unwrap();
            assert_eq!(principal.to_string(), text);
        }
        for text in ["", "node", "node/web.01", "seat/x", "module/a@b@c"] {
            assert!(text.parse::<Principal>().is_err(), "{text}");
        }
    }
}
