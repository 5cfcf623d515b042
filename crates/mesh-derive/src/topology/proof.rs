//! What is asked of a running broker, to prove that it lets each user do what its rights say and nothing next to that.
//!
//! Only what to ask and what to expect is here; `mesh-amqp` asks, each attempt in such a way that nothing comes of it. What
//! could do something even so is tried only after an attempt that cannot, and needs the same permission, was refused: its
//! [gate](Attempt::gate).

mod attempt;
mod complement;

use std::collections::BTreeSet;
use std::fmt;

use mesh_model::{ConsumerKind, Principal};

pub use attempt::{At, Attempt, Bond};

use super::exchange::Address;
use super::lay::queue_of;
use super::queue::Queue;
use super::{Exchange, ExchangeKind, Key, Rights, Topology};
use crate::plan::Plan;
use crate::proof::{Act, Extent, WORD};
use crate::subject;

/// What an attempt is to come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// The broker does it.
    Allowed,
    /// The broker refuses it.
    Refused,
    /// The broker may do it: one before [`super::BrokerVersion::PROVES_SENDER`] holds a second key against nothing. Whoever
    /// reads it takes it for its sender's own.
    Held,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed => "must be allowed",
            Self::Refused => "must be refused",
            Self::Held => "must be held by the reader",
        })
    }
}

/// An attempt, and what is to come of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// What is attempted.
    pub attempt: Attempt,
    /// What is to come of it.
    pub expected: Expected,
}

/// What is asked of a broker about one principal, in a stable order and each once: it logs in; then everything next to its
/// rights, of which what needs a gate comes after all that needs none; then everything it may. Nothing for a principal
/// without rights. `topology` is of this plan.
pub fn probes(
    plan: &Plan,
    topology: &Topology,
    principal: &Principal,
    extent: Extent,
) -> Vec<Probe> {
    let Some(rights) = topology.users.get(principal) else {
        return Vec::new();
    };
    let next_to_it = complement::attempts(plan, topology, principal, extent);
    let mut next_to_it: Vec<Attempt> = next_to_it
        .into_iter()
        .filter(|attempt| expected(topology, principal, attempt) != Expected::Allowed)
        .collect();
    next_to_it.sort_by_key(|attempt| attempt.gate().is_some());
    let all = [Attempt::Connect].into_iter();
    all.chain(next_to_it)
        .chain(allowed(topology, rights))
        .map(|attempt| Probe {
            expected: expected(topology, principal, &attempt),
            attempt,
        })
        .collect()
}

/// Everything a user may, each entry of its rights as one attempt; of a class that is read whole, one of what there is.
fn allowed(topology: &Topology, rights: &Rights) -> BTreeSet<Attempt> {
    let published = addresses(rights).into_iter().map(Attempt::Publish);
    let classes = rights.read_all.iter().filter_map(|class| {
        let mut queues = topology.queues.keys();
        queues.find(|queue| queue.class() == *class)
    });
    let read = rights.read.iter().chain(classes);
    let read = read.map(|it| Attempt::Consume(it.name()));
    published.chain(read).collect()
}

/// One place for each entry of what a user may publish.
fn addresses(rights: &Rights) -> BTreeSet<At> {
    let direct = rights.write.iter();
    let direct = direct.filter(|it| it.kind() == ExchangeKind::Direct);
    let topic = rights.keys.iter().flat_map(|(exchange, keys)| {
        let keys = keys.iter().map(Key::concrete);
        keys.map(move |key| At::of(*exchange, key))
    });
    topic
        .chain(direct.map(|it| At::of(*it, WORD.to_owned())))
        .collect()
}

/// What is to come of any attempt of a principal: what its rights say of it.
pub fn expected(topology: &Topology, principal: &Principal, attempt: &Attempt) -> Expected {
    let Some(rights) = topology.users.get(principal) else {
        return Expected::Refused;
    };
    let may = match attempt {
        Attempt::Connect => true,
        Attempt::Publish(at) => rights.may_publish(&at.exchange, &at.key),
        Attempt::Copy { at, to } => {
            let own = rights.may_publish(&at.exchange, &at.key);
            if own && !topology.broker.version.proves_sender() {
                return Expected::Held;
            }
            own && rights.may_publish(&at.exchange, to)
        }
        Attempt::Consume(queue) | Attempt::Get(queue) | Attempt::Purge(queue) => {
            rights.may_read(queue)
        }
        // Nobody may be another, or make, unmake or bind anything.
        Attempt::Impersonate { .. }
        | Attempt::DeclareQueue(_)
        | Attempt::DeleteQueue(_)
        | Attempt::DeclareExchange(_)
        | Attempt::DeleteExchange(_)
        | Attempt::Bind(_)
        | Attempt::Unbind(_)
        | Attempt::BindExchange(_) => false,
    };
    if may {
        Expected::Allowed
    } else {
        Expected::Refused
    }
}

/// What an act of the mesh's is on a broker. Nothing for one that has no place there: an acknowledgement takes no authority,
/// nobody has an inbox but a joiner and a node, which is asked there, and what is read is a queue, as a whole.
pub fn attempt_of(plan: &Plan, act: &Act) -> Option<Attempt> {
    match act {
        Act::Connect => Some(Attempt::Connect),
        Act::Inject { .. } => None,
        Act::Publish(subject) => {
            let Address { exchange, key } = Address::of(subject)?;
            Some(Attempt::Publish(At::of(exchange, key)))
        }
        Act::Subscribe { filter, queue } => {
            let delivered = plan.consumers.values().find_map(|consumer| {
                let ConsumerKind::Push { deliver, group, .. } = &consumer.kind else {
                    return None;
                };
                let there =
                    deliver.as_str() == filter.as_str() && group.as_deref() == queue.as_deref();
                there.then(|| queue_of(consumer))?
            });
            let answers = || {
                let joiners = plan.grants.keys().filter_map(|principal| match principal {
                    Principal::Joiner(token) => Some((token, subject::inbox(principal))),
                    _ => None,
                });
                let mut own = joiners.filter(|(_, inbox)| queue.is_none() && inbox == filter);
                own.next().map(|(token, _)| Queue::Answer(token.clone()))
            };
            let asked = || {
                let nodes = plan.grants.keys().filter_map(|principal| match principal {
                    Principal::Node(node) => Some((node, subject::inbox(principal))),
                    _ => None,
                });
                let mut own = nodes.filter(|(_, inbox)| queue.is_none() && inbox == filter);
                own.next().map(|(node, _)| Queue::Ask(node.clone()))
            };
            let said = || {
                let said = [
                    (subject::heartbeats(), Queue::Heartbeats),
                    (subject::logs(), Queue::Logs),
                ];
                let mut said = said.into_iter().filter(|_| queue.is_none());
                said.find_map(|(on, queue)| (*filter == on).then_some(queue))
            };
            let read = delivered.or_else(answers).or_else(asked).or_else(said)?;
            Some(Attempt::Consume(read.name()))
        }
    }
}

impl Key {
    /// One key it stands for.
    fn concrete(&self) -> String {
        match self {
            Self::Is(key) => key.clone(),
            Self::Under(word) => format!("{word}.{WORD}"),
            Self::Any => WORD.to_owned(),
        }
    }

    /// Whether a key is one of these.
    fn allows(&self, key: &str) -> bool {
        match self {
            Self::Is(own) => own == key,
            Self::Under(word) => key
                .strip_prefix(word.as_str())
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(is_a_line),
            Self::Any => is_a_line(key),
        }
    }
}

impl Rights {
    /// Whether it may publish to what is called so under this key.
    pub fn may_publish(&self, exchange: &str, key: &str) -> bool {
        let Some(exchange) = Exchange::named(exchange) else {
            return false;
        };
        let keys = || self.keys.get(&exchange).into_iter().flatten();
        self.write.contains(&exchange)
            && (exchange.kind() == ExchangeKind::Direct || keys().any(|own| own.allows(key)))
    }

    /// Whether it may read what is called so.
    pub fn may_read(&self, queue: &str) -> bool {
        let named = Queue::named(queue);
        named.is_some_and(|it| self.read.contains(&it) || self.read_all.contains(&it.class()))
    }
}

/// What a pattern's dot and plus take.
fn is_a_line(text: &str) -> bool {
    !text.is_empty() && !text.contains('\n')
}
