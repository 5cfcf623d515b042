//! In which steps one bus is brought to a plan: whoever no longer holds a seat may not work it before another may.
//!
//! It is decided from what the live server lets whom do. What a controller remembers is not enough: one that is killed
//! between the two steps leaves a server of which the next knows only what it finds there.

use std::collections::BTreeSet;

use mesh_derive::{Plan, ack_filters, subject};
use mesh_model::{
    BusFacts, ConsumerKind, ConsumerRef, Filter, Grant, Principal, QueueSubscription,
};

/// Who may read or settle the work of one seat on a live server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readers {
    /// Those who are known to, under a key of the plan's.
    pub known: BTreeSet<Principal>,
    /// Anybody else may, or it cannot be ruled out.
    pub others: bool,
}

/// How a bus is brought to a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandOver {
    /// What it is brought to first, and is known to show before the plan itself is asserted; nothing where no seat goes
    /// from one to another.
    pub first: Option<Plan>,
    /// The consumers of seats that nobody reads then, and somebody does with the plan: what is out with whoever read them
    /// before is nobody's.
    pub given: BTreeSet<ConsumerRef>,
}

/// The steps to a plan from what a server allows. Only what begins anew waits for the second: whoever keeps a seat keeps
/// it throughout.
pub fn hand_over(
    plan: &Plan,
    facts: &BusFacts,
    readers: impl Fn(&ConsumerRef) -> Readers,
) -> HandOver {
    let mut steps = HandOver::default();
    for seat in SeatAuthority::of_seats(plan, facts) {
        let wanted = seat.holders(plan);
        let now = readers(&seat.consumer);
        let begins = |who: &&&Principal| !now.known.contains(**who);
        let begin: BTreeSet<&Principal> = wanted.iter().filter(begins).copied().collect();
        if begin.is_empty() {
            continue;
        }
        let (stay, leave): (Vec<&Principal>, Vec<&Principal>) =
            now.known.iter().partition(|who| wanted.contains(who));
        if stay.is_empty() {
            steps.given.insert(seat.consumer.clone());
        }
        if now.others || !leave.is_empty() {
            let first = steps.first.get_or_insert_with(|| plan.clone());
            for who in begin {
                if let Some(grant) = first.grants.get_mut(who) {
                    seat.take_from(grant);
                }
            }
        }
    }
    steps
}

/// What it takes to work one seat: to hear its work, and to settle it. Either is authority over it.
#[derive(Debug, Clone)]
pub struct SeatAuthority {
    consumer: ConsumerRef,
    deliver: Filter,
    acks: [Filter; 2],
}

impl SeatAuthority {
    /// Over the seat whose consumer this is; nothing where it is no seat's.
    pub fn of(consumer: &ConsumerRef, facts: &BusFacts) -> Option<Self> {
        let seat = subject::seat_of(consumer.stream())?;
        Some(Self {
            consumer: consumer.clone(),
            deliver: subject::deliver_seat(&seat).into(),
            acks: ack_filters(consumer, facts),
        })
    }

    fn of_seats<'a>(plan: &'a Plan, facts: &'a BusFacts) -> impl Iterator<Item = Self> + 'a {
        let pushed = plan.consumers.values();
        let pushed = pushed.filter(|spec| matches!(spec.kind, ConsumerKind::Push { .. }));
        pushed.filter_map(|spec| Self::of(&spec.consumer, facts))
    }

    /// The instances a plan lets work it.
    fn holders<'a>(&self, plan: &'a Plan) -> BTreeSet<&'a Principal> {
        let users = plan.users.values();
        let holders = users.filter(|who| {
            let grant = plan.grants.get(who);
            matches!(who, Principal::Instance(_)) && grant.is_some_and(|grant| self.is_in(grant))
        });
        holders.collect()
    }

    /// Whether a grant gives any of it.
    pub fn is_in(&self, grant: &Grant) -> bool {
        grant.queues.iter().any(|entry| self.reads(entry))
            || grant.subscribe.iter().any(|entry| self.hears(entry))
            || grant.publish.iter().any(|entry| self.settles(entry))
    }

    fn take_from(&self, grant: &mut Grant) {
        grant.queues.retain(|entry| !self.reads(entry));
        grant.subscribe.retain(|entry| !self.hears(entry));
        grant.publish.retain(|entry| !self.settles(entry));
    }

    fn reads(&self, entry: &QueueSubscription) -> bool {
        self.hears(&entry.filter)
    }

    fn hears(&self, entry: &Filter) -> bool {
        self.deliver.is_subset_of(entry)
    }

    fn settles(&self, entry: &Filter) -> bool {
        self.acks.iter().any(|ack| ack.is_subset_of(entry))
    }
}

#[cfg(test)]
mod tests;
