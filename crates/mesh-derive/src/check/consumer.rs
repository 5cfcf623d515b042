//! One consumer held against the grant of whoever must bind and acknowledge it.

use mesh_model::{
    BusFacts, ConsumerKind, ConsumerSpec, Filter, Grant, Principal, Selects, Subject,
};

use crate::ack::{Acks, domain_token};
use crate::check::Mismatch;
use crate::subject::{self, filter};

/// Holds one consumer against the grant of its owner: whether the owner can bind it, settle what it brings, and is the
/// one to read it. A consumer nobody owns needs nobody's grant.
///
/// What a module follows is not in its grant, so here its consumer may select any event and nothing but events;
/// [`Plan::check`](crate::Plan::check) knows which.
#[expect(
    clippy::result_large_err,
    reason = "found once before a plan is applied, never on a message's way"
)]
pub fn check(spec: &ConsumerSpec, grant: &Grant, bus: &BusFacts) -> Result<(), Mismatch> {
    let found = match (&spec.owner, invalid_domain(bus)) {
        (Some(_), Some(invalid)) => Some(invalid),
        _ => mismatch(spec, grant, &Acks::of(bus), &mut String::new()),
    };
    found.map_or(Ok(()), Err)
}

/// The first thing wrong with it, on a bus whose domain a subject can carry. `buffer` is for what is looked up.
pub(super) fn mismatch(
    spec: &ConsumerSpec,
    grant: &Grant,
    acks: &Acks,
    buffer: &mut String,
) -> Option<Mismatch> {
    let owner = spec.owner.as_ref()?;
    pull_cannot_bind(spec, owner, grant)
        .or_else(|| reads_anothers(spec, owner))
        .or_else(|| cannot_ack(spec, owner, grant, acks, buffer))
        .or_else(|| cannot_hear(spec, owner, grant))
}

pub(super) fn invalid_domain(bus: &BusFacts) -> Option<Mismatch> {
    let domain = bus.domain.as_ref()?;
    domain_token(bus)
        .is_none()
        .then(|| Mismatch::InvalidDomain {
            domain: domain.clone(),
        })
}

/// To read a pull consumer is to ask the API for its next message; only the controller is where the API is.
fn pull_cannot_bind(spec: &ConsumerSpec, owner: &Principal, grant: &Grant) -> Option<Mismatch> {
    let consumer = &spec.consumer;
    if spec.kind != ConsumerKind::Pull {
        return None;
    }
    let (stream, name) = (consumer.stream(), consumer.name());
    let next = subject::subject(format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"));
    let binds = *owner == Principal::Controller && grant.publishes(&next);
    (!binds).then(|| Mismatch::PullCannotBind {
        consumer: consumer.clone(),
        owner: owner.clone(),
    })
}

fn reads_anothers(spec: &ConsumerSpec, owner: &Principal) -> Option<Mismatch> {
    let wrong = |filter: &Filter| Mismatch::ReadsAnothers {
        consumer: spec.consumer.clone(),
        owner: owner.clone(),
        filter: filter.clone(),
    };
    let seat = subject::seat_of(spec.consumer.stream());
    let may_read = match owner {
        Principal::Controller => return empty(spec),
        Principal::Node(node) => vec![subject::declare(node).into()],
        Principal::Module(module) => match &seat {
            Some(seat) => vec![subject::works(seat)],
            None => vec![subject::events(), subject::carries(module)],
        },
        Principal::Instance(_) | Principal::Joiner(_) => Vec::new(),
    };
    match &spec.selects {
        // Only the queue of a seat is one reader's as a whole.
        Selects::Everything => {
            let whole =
                may_read.is_empty() || seat.is_none() || matches!(owner, Principal::Node(_));
            whole.then(|| wrong(&filter(">".to_owned())))
        }
        Selects::Only(filters) => empty(spec).or_else(|| {
            let anothers = filters
                .iter()
                .find(|f| !may_read.iter().any(|may| f.is_subset_of(may)));
            anothers.map(wrong)
        }),
    }
}

fn empty(spec: &ConsumerSpec) -> Option<Mismatch> {
    let empty = matches!(&spec.selects, Selects::Only(filters) if filters.is_empty());
    empty.then(|| Mismatch::EmptyFilter {
        consumer: spec.consumer.clone(),
    })
}

fn cannot_ack(
    spec: &ConsumerSpec,
    owner: &Principal,
    grant: &Grant,
    acks: &Acks,
    buffer: &mut String,
) -> Option<Mismatch> {
    let mut listed = |tokens: &[&str]| {
        buffer.clear();
        for token in tokens {
            buffer.push_str(if buffer.is_empty() { "" } else { "." });
            buffer.push_str(token);
        }
        grant.publish.contains(buffer.as_str())
    };
    let (older, newer) = acks.tokens(&spec.consumer);
    if listed(&older) && listed(&newer) {
        return None;
    }
    let granted = |ack: &Filter| grant.publish.iter().any(|by| ack.is_subset_of(by));
    let missing = acks
        .filters(&spec.consumer)
        .into_iter()
        .find(|ack| !granted(ack))?;
    Some(Mismatch::CannotAck {
        consumer: spec.consumer.clone(),
        owner: owner.clone(),
        missing,
    })
}

fn cannot_hear(spec: &ConsumerSpec, owner: &Principal, grant: &Grant) -> Option<Mismatch> {
    let ConsumerKind::Push { deliver, group, .. } = &spec.kind else {
        return None;
    };
    let granted = granted(grant, deliver);
    match (group, &granted) {
        (None, Some(Alone)) => return None,
        (Some(delivers), Some(InGroups(groups))) if groups.iter().eq([delivers]) => return None,
        _ => {}
    }
    let (consumer, owner) = (spec.consumer.clone(), owner.clone());
    match (group, granted) {
        (_, None) => Some(Mismatch::DeliverNotSubscribable {
            consumer,
            owner,
            deliver: deliver.clone(),
        }),
        (Some(delivers), Some(InGroups(groups))) => Some(Mismatch::QueueGroupDifferent {
            consumer,
            owner,
            delivers: delivers.clone(),
            granted: groups.join(", "),
        }),
        (delivers, Some(granted)) => Some(Mismatch::QueueGroupMissing {
            consumer,
            owner,
            deliver: deliver.clone(),
            delivers: delivers.clone(),
            granted: match granted {
                Alone => None,
                InGroups(groups) => Some(groups.join(", ")),
            },
        }),
    }
}

/// How a grant lets its owner subscribe one subject.
enum Granted {
    Alone,
    InGroups(Vec<String>),
}
use Granted::{Alone, InGroups};

fn granted(grant: &Grant, deliver: &Subject) -> Option<Granted> {
    if grant.subscribes(&deliver.into(), None) {
        return Some(Alone);
    }
    let groups: Vec<String> = grant
        .queues
        .iter()
        .filter(|allowed| allowed.filter.matches(deliver))
        .map(|allowed| allowed.queue.to_string())
        .collect();
    (!groups.is_empty()).then_some(InGroups(groups))
}
