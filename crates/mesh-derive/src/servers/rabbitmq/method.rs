//! What each method of AMQP 0-9-1 requires of a user: `rabbit_channel` of rabbitmq-server, whose words the rest repeats.

use std::fmt;
use std::str::FromStr;

/// One of the three permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// To make and unmake.
    Configure,
    /// To put messages in.
    Write,
    /// To take messages out.
    Read,
}

/// On what a permission is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The queue of the method.
    Queue,
    /// A queue the broker names, `amq.gen-…`.
    GeneratedQueue,
    /// A queue made for one receiver of AMQP 1.0, `amq.dyn-…`.
    DynamicQueue,
    /// The exchange of the method.
    Exchange,
    /// The exchange that is bound to another.
    DestinationExchange,
    /// The exchange another is bound to.
    SourceExchange,
    /// Where an exchange sends what it cannot route.
    AlternateExchange,
    /// Where a queue sends what it drops.
    DeadLetterExchange,
    /// The exchange without a name, which reaches every queue.
    DefaultExchange,
}

/// What a user must be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    /// A permission on an object.
    On(Permission, Object),
    /// Any permission at all on an object.
    AnyOn(Object),
    /// The topic permission on each key (of CC and BCC too), where the exchange is of type topic and the user has a row
    /// for it; without a row everything is allowed.
    Topic(Permission),
}

/// A method with those of its arguments that change what it requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A method that no permission is asked for: settling, transactions, flow, the connection's own.
    Unchecked,
    /// `exchange.declare`, perhaps with an alternate exchange.
    ExchangeDeclare {
        /// Whether it names one.
        alternate: bool,
    },
    /// `exchange.declare` or `queue.declare` that only asks whether there is one.
    DeclarePassive(Object),
    /// `exchange.delete`.
    ExchangeDelete,
    /// `exchange.bind` and `exchange.unbind`.
    ExchangeBind,
    /// `queue.declare`, perhaps with a dead letter exchange, perhaps without a name.
    QueueDeclare {
        /// The queue's own name, or that the broker chooses one.
        queue: Object,
        /// Whether it names a dead letter exchange.
        dead_letter: bool,
    },
    /// `queue.delete`.
    QueueDelete,
    /// `queue.bind` and `queue.unbind`.
    QueueBind,
    /// `queue.purge`, `basic.consume`, `basic.get`.
    QueueRead,
    /// `basic.publish` to an exchange that has a name, or to the one that has none.
    Publish(Object),
    /// A receiver of AMQP 1.0 with a dynamic source.
    DynamicReceiver,
}

/// A text that names no method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no method of AMQP 0-9-1 whose requirements are known")]
pub struct UnknownOperation(pub String);

/// Whether a passive declare is answered, for a user with these permissions on the object: any will do since 4.2.7 and
/// 4.3.1; older brokers ask for `configure` (4.2.6, 4.3.0), or for nothing.
pub fn passive_declare_permitted(granted: &[Permission]) -> bool {
    !granted.is_empty()
}

impl Operation {
    /// What the user must be granted, all of it.
    pub fn requires(self) -> Vec<Requirement> {
        use Object::{AlternateExchange, DeadLetterExchange, DestinationExchange};
        use Object::{DynamicQueue, Exchange, Queue, SourceExchange};
        use Permission::{Configure, Read, Write};
        use Requirement::{AnyOn, On, Topic};
        match self {
            Self::Unchecked => vec![],
            Self::ExchangeDeclare { alternate: false } | Self::ExchangeDelete => {
                vec![On(Configure, Exchange)]
            }
            Self::ExchangeDeclare { alternate: true } => vec![
                On(Configure, Exchange),
                On(Read, Exchange),
                On(Write, AlternateExchange),
            ],
            Self::DeclarePassive(object) => vec![AnyOn(object)],
            Self::ExchangeBind => vec![
                On(Write, DestinationExchange),
                On(Read, SourceExchange),
                Topic(Read),
            ],
            Self::QueueDeclare { queue, dead_letter } => {
                let mut all = vec![On(Configure, queue)];
                if dead_letter {
                    all.extend([On(Read, queue), On(Write, DeadLetterExchange)]);
                }
                all
            }
            Self::QueueDelete => vec![On(Configure, Queue)],
            Self::QueueBind => vec![On(Write, Queue), On(Read, Exchange), Topic(Read)],
            Self::QueueRead => vec![On(Read, Queue)],
            Self::Publish(Exchange) => vec![On(Write, Exchange), Topic(Write)],
            Self::Publish(object) => vec![On(Write, object)],
            Self::DynamicReceiver => vec![On(Configure, DynamicQueue)],
        }
    }
}

impl Requirement {
    /// Whether it is asked for only of an exchange of type topic.
    pub fn is_conditional(self) -> bool {
        matches!(self, Self::Topic(_))
    }
}

/// The methods that are not looked at by themselves, class by class.
const UNCHECKED: [(&str, &[&str]); 7] = [
    (
        "connection",
        &[
            "start",
            "start-ok",
            "secure",
            "secure-ok",
            "tune",
            "tune-ok",
            "open",
            "open-ok",
            "close",
            "close-ok",
            "blocked",
            "unblocked",
            "update-secret",
            "update-secret-ok",
        ],
    ),
    (
        "channel",
        &["open", "open-ok", "flow", "flow-ok", "close", "close-ok"],
    ),
    ("access", &["request", "request-ok"]),
    (
        "basic",
        &[
            "qos",
            "qos-ok",
            "cancel",
            "cancel-ok",
            "ack",
            "nack",
            "reject",
            "recover",
            "recover-ok",
            "recover-async",
            "return",
            "deliver",
            "get-ok",
            "get-empty",
            "consume-ok",
        ],
    ),
    (
        "tx",
        &[
            "select",
            "select-ok",
            "commit",
            "commit-ok",
            "rollback",
            "rollback-ok",
        ],
    ),
    ("confirm", &["select", "select-ok"]),
    (
        "queue",
        &[
            "declare-ok",
            "bind-ok",
            "unbind-ok",
            "purge-ok",
            "delete-ok",
        ],
    ),
];

impl FromStr for Operation {
    type Err = UnknownOperation;

    /// `class.method`, then `passive`, `with ARGUMENT` or a word on what it is of.
    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        let unknown = || UnknownOperation(text.to_owned());
        let plain = text.to_ascii_lowercase().replace(['_', '\''], "-");
        let (method, more) = plain.split_once(' ').unwrap_or((&plain, ""));
        let passive = more.contains("passive");
        let dead_letter =
            more.contains("dead-letter") || more.contains("dead letter") || more.contains("dlx");
        let alternate = more.contains("alternate");
        Ok(match method {
            "exchange.declare" if passive => Self::DeclarePassive(Object::Exchange),
            "exchange.declare" => Self::ExchangeDeclare { alternate },
            "exchange.delete" => Self::ExchangeDelete,
            "exchange.bind" | "exchange.unbind" => Self::ExchangeBind,
            "queue.declare" if passive => Self::DeclarePassive(Object::Queue),
            "queue.declare" => Self::QueueDeclare {
                queue: named_by(more),
                dead_letter,
            },
            "queue.delete" => Self::QueueDelete,
            "queue.bind" | "queue.unbind" => Self::QueueBind,
            "basic.consume" | "basic.get" if more.contains("reply-to") => Self::Unchecked,
            "queue.purge" | "basic.consume" | "basic.get" => Self::QueueRead,
            "basic.publish" | "publish"
                if more.contains("default") || (method == "publish" && more.contains("queue")) =>
            {
                Self::Publish(Object::DefaultExchange)
            }
            "basic.publish" | "publish" => Self::Publish(Object::Exchange),
            "dynamic" => Self::DynamicReceiver,
            _ if is_unchecked(method) => Self::Unchecked,
            _ => return Err(unknown()),
        })
    }
}

fn named_by(more: &str) -> Object {
    let by_server = ["server-named", "server named", "generated", "unnamed"];
    if by_server.iter().any(|word| more.contains(word)) {
        Object::GeneratedQueue
    } else {
        Object::Queue
    }
}

fn is_unchecked(method: &str) -> bool {
    method.split_once('.').is_some_and(|(class, name)| {
        UNCHECKED
            .iter()
            .any(|(known, names)| *known == class && names.contains(&name))
            || (class == "exchange" && name.ends_with("-ok"))
    })
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

impl FromStr for Permission {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        match text {
            "configure" => Ok(Self::Configure),
            "write" => Ok(Self::Write),
            "read" => Ok(Self::Read),
            _ => Err(UnknownOperation(text.to_owned())),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::GeneratedQueue => "queue amq.gen-*",
            Self::DynamicQueue => "queue amq.dyn-*",
            Self::Exchange => "exchange",
            Self::DestinationExchange => "destination exchange",
            Self::SourceExchange => "source exchange",
            Self::AlternateExchange => "alternate exchange",
            Self::DeadLetterExchange => "dead letter exchange",
            Self::DefaultExchange => "exchange 'amq.default'",
        })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(permission, object) => write!(f, "{permission} {object}"),
            Self::AnyOn(object) => write!(f, "any one of configure|write|read on {object}"),
            Self::Topic(permission) => {
                write!(
                    f,
                    "topic {permission} permission on the routing key when set"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_by_its_arguments_too() {
        let requires = |text: &str| -> Vec<String> {
            let operation: Operation = text.parse().unwrap();
            operation
                .requires()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(
            requires("queue.declare with dead-letter-exchange"),
            [
                "configure queue",
                "read queue",
                "write dead letter exchange"
            ]
        );
        assert_eq!(requires("basic.nack"), Vec::<String>::new());
        assert_eq!(
            requires("queue.declare passive"),
            ["any one of configure|write|read on queue"]
        );
        assert!("basic.dance".parse::<Operation>().is_err());
    }
}
