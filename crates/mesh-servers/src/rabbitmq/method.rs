//! What each method of AMQP 0-9-1 requires of a user: `rabbit_channel` of rabbitmq-server, whose words the rest repeats.

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
