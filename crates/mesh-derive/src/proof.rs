//! What is asked of a running server, to prove that it holds exactly a plan: every act a principal may do, and those
//! next to them that it may not.
//!
//! Only what to ask and what to expect is here. Each act is chosen so that nothing comes of it even where a server
//! wrongly allows it, as long as it is carried out as [`Manner`] says; `mesh-nats` does that.

mod allowed;
mod complement;
mod harmless;
mod manner;
mod near;
pub(crate) mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mesh_model::{
    BusFacts, ConsumerRef, Filter, Principal, PublicKey, QueueGroup, StreamName, Subject,
};
use serde::{Deserialize, Serialize};

pub(crate) use allowed::WORD;
pub use manner::{BROKEN_JSON, Manner, manner};

use crate::plan::Plan;
use crate::subject::inbox;

/// One thing a principal attempts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// To connect with its key.
    Connect,
    /// To publish.
    Publish(Subject),
    /// To subscribe.
    Subscribe {
        /// To what.
        filter: Filter,
        /// In which group, if in one.
        queue: Option<QueueGroup>,
    },
    /// To publish where it may, and have the server answer where it may not. The last token of the reply names
    /// something that does not exist; whoever asks makes it unlike any other.
    Inject {
        /// Where it publishes.
        subject: Subject,
        /// Where the answer would be a call of the API.
        reply: Subject,
    },
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Publish(subject) => write!(f, "publish {subject}"),
            Self::Subscribe {
                filter,
                queue: None,
            } => write!(f, "subscribe {filter}"),
            Self::Subscribe {
                filter,
                queue: Some(queue),
            } => write!(f, "subscribe {filter} in group {queue}"),
            Self::Inject { subject, reply } => {
                write!(f, "publish {subject} with the reply {reply}")
            }
        }
    }
}

/// What an act is to come to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// The server takes it, and so much is seen of that.
    Allowed(Evidence),
    /// The server refuses it, and says so.
    Refused,
    /// The server takes it, and does nothing with the reply.
    NoEffect,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed(Evidence::Taken) => f.write_str("must be allowed"),
            Self::Allowed(evidence) => write!(f, "must be allowed and {evidence}"),
            Self::Refused => f.write_str("must be refused"),
            Self::NoEffect => f.write_str("must have no effect"),
        }
    }
}

/// What shows that an allowed act arrived.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Nothing but that it is not refused.
    Taken,
    /// The stream answers, in the publisher's inbox.
    Stream(StreamName),
    /// The consumer answers, in the publisher's inbox.
    Consumer(ConsumerRef),
    /// The API answers, in the publisher's inbox.
    Api,
    /// It is heard in the account that holds JetStream.
    HeardInMesh,
    /// The publisher hears it itself.
    HeardBySelf,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("taken"),
            Self::Stream(stream) => write!(f, "answered by {stream}"),
            Self::Consumer(consumer) => write!(f, "answered by {consumer}"),
            Self::Api => f.write_str("answered by the API"),
            Self::HeardInMesh => f.write_str("heard by the controller"),
            Self::HeardBySelf => f.write_str("heard in its own inbox"),
        }
    }
}

/// An act, and what is to come of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Probe {
    /// What is attempted.
    pub act: Act,
    /// What is to come of it.
    pub expected: Expected,
}

/// How much of everybody else is held against a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// All of it: the work grows with the square of the mesh.
    Whole,
    /// Of each kind of thing those of so many nearest names: the work grows with the mesh.
    Nearest(usize),
}

impl Extent {
    /// The whole for a mesh of up to 50 principals, and the 2 nearest of each kind for a larger one: a server writes a
    /// line in its log for each refusal, of some 230 bytes.
    pub fn of(plan: &Plan) -> Self {
        if plan.grants.len() <= 50 {
            Self::Whole
        } else {
            Self::Nearest(2)
        }
    }

    fn limit(self) -> usize {
        match self {
            Self::Whole => usize::MAX,
            Self::Nearest(limit) => limit,
        }
    }
}

/// What is asked of a server about one principal, in a stable order and each once: it connects; then everything next to
/// its grant that it must be refused; then replies that name the API; then everything it is allowed, the answers of which
/// show that those replies have been dealt with. Nothing for a principal without a grant.
pub fn probes(plan: &Plan, principal: &Principal, bus: &BusFacts, extent: Extent) -> Vec<Probe> {
    let Some(grant) = plan.grants.get(principal) else {
        return Vec::new();
    };
    let allowed = allowed::acts(grant);
    let refused: BTreeSet<Act> = complement::acts(plan, principal, bus, extent)
        .into_iter()
        .filter(|act| expected(plan, principal, act) == Expected::Refused)
        .filter(|act| may_be_tried(plan, act))
        .collect();
    [Act::Connect]
        .into_iter()
        .chain(refused)
        .chain(injections(principal, &allowed))
        .chain(allowed.iter().cloned())
        .map(|act| Probe {
            expected: expected(plan, principal, &act),
            act,
        })
        .collect()
}

/// Whether it is known that nothing comes of an act, even where a server wrongly allows it.
pub fn may_be_tried(plan: &Plan, act: &Act) -> bool {
    match act {
        Act::Connect | Act::Subscribe { .. } => true,
        Act::Publish(subject) => manner(plan, subject) != Manner::Never,
        Act::Inject { subject, reply } => {
            manner(plan, subject) != Manner::Never && INJECTED.map(injected).contains(reply)
        }
    }
}

/// What is to come of any act of a principal: what the plan says of it.
pub fn expected(plan: &Plan, principal: &Principal, act: &Act) -> Expected {
    let Some(grant) = plan.grants.get(principal) else {
        return Expected::Refused;
    };
    let may = match act {
        Act::Connect => true,
        Act::Publish(subject) | Act::Inject { subject, .. } => grant.publishes(subject),
        Act::Subscribe { filter, queue } => grant.subscribes(filter, queue.as_deref()),
    };
    match act {
        _ if !may => Expected::Refused,
        Act::Connect | Act::Subscribe { .. } => Expected::Allowed(Evidence::Taken),
        Act::Publish(subject) => Expected::Allowed(evidence(plan, principal, subject)),
        Act::Inject { reply, .. } if grant.publishes(reply) => Expected::Allowed(Evidence::Taken),
        Act::Inject { .. } => Expected::NoEffect,
    }
}

/// What is seen of a message that may be published.
fn evidence(plan: &Plan, principal: &Principal, subject: &Subject) -> Evidence {
    let manner = manner(plan, subject);
    if manner == Manner::Heartbeat {
        return Evidence::HeardInMesh;
    }
    let own = inbox(principal);
    let hears = |grant: &mesh_model::Grant| grant.subscribes(&own, None);
    if !plan.grants.get(principal).is_some_and(hears) {
        return Evidence::Taken;
    }
    match manner {
        Manner::Stored(stream) => Evidence::Stream(stream),
        Manner::Settling(Some(consumer)) => Evidence::Consumer(consumer),
        Manner::Api => Evidence::Api,
        Manner::Plain if own.matches(subject) => Evidence::HeardBySelf,
        Manner::Heartbeat | Manner::Settling(None) | Manner::Plain | Manner::Never => {
            Evidence::Taken
        }
    }
}

/// The trick of the reply, on everything that may be published. Who may call the API anyway needs no trick.
fn injections(principal: &Principal, allowed: &[Act]) -> Vec<Act> {
    if *principal == Principal::Controller {
        return Vec::new();
    }
    let published = allowed.iter().filter_map(|act| match act {
        Act::Publish(subject) => Some(subject),
        _ => None,
    });
    let inject = |subject: &Subject| {
        INJECTED.map(|verb| Act::Inject {
            subject: subject.clone(),
            reply: injected(verb),
        })
    };
    published.flat_map(inject).collect()
}

fn injected(verb: &str) -> Subject {
    crate::subject::subject(format!("$JS.API.{verb}.{NO_STREAM}"))
}

/// Verbs that would do harm, were there such a stream.
const INJECTED: [&str; 3] = ["STREAM.DELETE", "STREAM.PURGE", "STREAM.CREATE"];
/// No plan has a stream of this name: it is none of the mesh's, and no seat's.
pub const NO_STREAM: &str = "MESH-PROBE";

/// Whom to make a key for in order to prove the plan: everybody with a grant but the controller, which has its own.
pub fn probed(plan: &Plan) -> impl Iterator<Item = &Principal> {
    plan.grants
        .keys()
        .filter(|principal| **principal != Principal::Controller)
}

/// A key that cannot be a prober's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProber {
    /// There is nobody to be.
    #[error("{0} has no grant, so nobody can connect as it")]
    NoGrant(Principal),
    /// Somebody has it.
    #[error("the key made for {of} is the key of {owner}; make another")]
    Taken {
        /// For whom it was made.
        of: Principal,
        /// Whose it is.
        owner: Principal,
    },
}

/// The plan with further users of the same authority: the keys a proof connects with, beside everybody's own.
pub fn with_probers(
    plan: &Plan,
    keys: &BTreeMap<PublicKey, Principal>,
) -> Result<Plan, InvalidProber> {
    let mut with = plan.clone();
    for (key, principal) in keys {
        if *principal == Principal::Controller || !plan.grants.contains_key(principal) {
            return Err(InvalidProber::NoGrant(principal.clone()));
        }
        if let Some(owner) = with.users.insert(key.clone(), principal.clone()) {
            return Err(InvalidProber::Taken {
                of: principal.clone(),
                owner,
            });
        }
    }
    Ok(with)
}
