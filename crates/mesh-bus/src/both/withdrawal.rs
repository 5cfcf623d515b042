//! In which steps two buses are brought to a plan: what is withdrawn on one is so before anything is granted on the other.
//!
//! Streams and consumers give nobody anything, so they come with the first step. What does is who is a user, what each
//! user may, and what the controller reads for the other bus. An entry that lies in one there was before is not new.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::{Plan, subject};
use mesh_model::{
    Allow, BusKind, ConsumerKind, Filter, Grant, Principal, PublicKey, QueueSubscription,
};

use super::held::Held;

/// What each bus is to hold.
pub(super) type Parts = BTreeMap<BusKind, Plan>;

/// One step: what each of these buses is brought to, in any order. It is taken before the next is begun.
pub(super) type Step = BTreeMap<BusKind, Plan>;

/// The steps from what the buses may hold to what they are to hold. Where that is known of neither, because a controller
/// before asserted it, care is only taken that nobody begins to read a seat's queue on one bus before everybody who may
/// not has stopped on the other.
pub(super) fn steps(held: &Held, next: &Parts) -> Vec<Step> {
    let unknown = next.iter().filter(|(bus, _)| !held.contains_key(bus));
    let unknown: Vec<(&BusKind, &Plan)> = unknown.collect();
    match unknown.as_slice() {
        [] => {}
        [(bus, plan)] => return steps_around(**bus, plan, held, next),
        _ => return first_steps(next),
    }
    let changes = |bus: BusKind, changes: fn(&Plan, &Plan) -> bool| {
        let held = held.get(&bus).into_iter().flatten();
        let next = next.get(&bus);
        next.is_some_and(|next| held.into_iter().any(|held| changes(held, next)))
    };
    let loses = |bus| changes(bus, |held, next| !within(held, next));
    let gains = |bus| changes(bus, |held, next| !within(next, held));
    let (mut withdrawing, mut granting) = (Step::new(), Step::new());
    for (bus, plan) in next {
        if !gains(*bus) || !loses(bus.other()) {
            withdrawing.insert(*bus, plan.clone());
            continue;
        }
        granting.insert(*bus, plan.clone());
        if loses(*bus) {
            withdrawing.insert(*bus, without_what_is_new_to(held.get(bus), plan));
        }
    }
    let steps = [withdrawing, granting].into_iter();
    steps.filter(|step| !step.is_empty()).collect()
}

/// Where of one nothing is known: what the others lose first, then that one, and last what the others gain. Nobody there
/// loses what he keeps, however long the one is away.
fn steps_around(unknown: BusKind, plan: &Plan, held: &Held, next: &Parts) -> Vec<Step> {
    let others = || next.iter().filter(|(bus, _)| **bus != unknown);
    let less = others().map(|(bus, plan)| (*bus, without_what_is_new_to(held.get(bus), plan)));
    let whole = others().map(|(bus, plan)| (*bus, plan.clone()));
    let (less, whole): (Step, Step) = (less.collect(), whole.collect());
    let last = (less != whole).then_some(whole);
    let steps = [less, Step::from([(unknown, plan.clone())])].into_iter();
    steps.chain(last).collect()
}

/// One bus after the other. The first is the one with fewer holders of seats; where it has any, they begin to read last.
fn first_steps(next: &Parts) -> Vec<Step> {
    let mut order: Vec<(&BusKind, &Plan)> = next.iter().collect();
    order.sort_by_key(|(_, plan)| readers_of_seats(plan));
    let mut steps = Vec::new();
    let mut last = None;
    for (bus, plan) in order {
        let first = steps.is_empty();
        if first && readers_of_seats(plan) > 0 {
            steps.push(Step::from([(*bus, without_readers_of_seats(plan))]));
            last = Some(Step::from([(*bus, plan.clone())]));
        } else {
            steps.push(Step::from([(*bus, plan.clone())]));
        }
    }
    steps.extend(last);
    steps
}

/// Whether all that one plan gives anybody the other does, too.
fn within(plan: &Plan, other: &Plan) -> bool {
    let users = plan.users.iter();
    let mut users = users.filter(|(key, of)| other.users.get(*key) != Some(*of));
    let retiring = plan.retiring.iter();
    let mut retiring = retiring.filter(|(key, of)| !knows(other, key, of));
    users.next().is_none()
        && retiring.next().is_none()
        && plan.carried.is_subset(&other.carried)
        && principals(plan).into_iter().all(|of| {
            let (grant, other) = (plan.grants.get(of), other.grants.get(of));
            grant.is_none_or(|grant| other.is_some_and(|other| *grant == covered(grant, other)))
        })
}

/// The same of each of the plans a bus may show.
fn without_what_is_new_to(held: Option<&Vec<Plan>>, plan: &Plan) -> Plan {
    let held = held.into_iter().flatten();
    held.fold(plan.clone(), |less, held| without_what_is_new(held, less))
}

/// A plan's definitions, and of what it gives that which was there before.
fn without_what_is_new(before: &Plan, mut less: Plan) -> Plan {
    less.users
        .retain(|key, of| before.users.get(key) == Some(of));
    less.retiring.retain(|key, of| knows(before, key, of));
    less.carried.retain(|it| before.carried.contains(it));
    let users: BTreeSet<Principal> = principals(&less).into_iter().cloned().collect();
    less.grants.retain(|of, grant| {
        // What a module may is what its instances may, and a grant of who is no user gives nothing.
        if matches!(of, Principal::Module(_)) {
            return true;
        }
        let held = before.grants.get(of).filter(|_| users.contains(of));
        if let Some(held) = held {
            *grant = covered(grant, held);
        }
        held.is_some()
    });
    less
}

/// Whether somebody has a key already, for good or for a while longer.
fn knows(plan: &Plan, key: &PublicKey, of: &Principal) -> bool {
    plan.users.get(key) == Some(of) || plan.retiring.get(key) == Some(of)
}

/// Those who can do anything.
fn principals(plan: &Plan) -> BTreeSet<&Principal> {
    let users = plan.users.values().chain(plan.retiring.values());
    users.chain([&Principal::Controller]).collect()
}

/// What of a grant another gives as well.
fn covered(grant: &Grant, other: &Grant) -> Grant {
    let of = |entries: &Allow, other: &Allow| -> Allow {
        let within = |entry: &&Filter| other.iter().any(|wide| entry.is_subset_of(wide));
        entries.iter().filter(within).cloned().collect()
    };
    let subscribed =
        |entry: &&QueueSubscription| other.subscribes(&entry.filter, Some(entry.queue.as_str()));
    Grant {
        publish: of(&grant.publish, &other.publish),
        subscribe: of(&grant.subscribe, &other.subscribe),
        queues: grant.queues.iter().filter(subscribed).cloned().collect(),
    }
}

/// How many read a seat's queue, the controller aside: what it reads it only brings to who does.
fn readers_of_seats(plan: &Plan) -> usize {
    let seats = seats_deliver(plan);
    let reads = |of: &&&Principal| {
        let grant = plan.grants.get(**of);
        let mut queues = grant.into_iter().flat_map(|grant| &grant.queues);
        ***of != Principal::Controller && queues.any(|entry| seats.contains(&entry.filter))
    };
    principals(plan).iter().filter(reads).count()
}

fn without_readers_of_seats(plan: &Plan) -> Plan {
    let (seats, mut less) = (seats_deliver(plan), plan.clone());
    for (of, grant) in &mut less.grants {
        if matches!(of, Principal::Instance(_)) {
            grant.queues.retain(|entry| !seats.contains(&entry.filter));
        }
    }
    less
}

/// Where the consumers of seats deliver.
fn seats_deliver(plan: &Plan) -> BTreeSet<Filter> {
    let seats = plan.consumers.values();
    let seats = seats.filter(|spec| subject::seat_of(spec.consumer.stream()).is_some());
    let deliver = seats.filter_map(|spec| match &spec.kind {
        ConsumerKind::Push { deliver, .. } => Some(deliver.clone().into()),
        ConsumerKind::Pull => None,
    });
    deliver.collect()
}

#[cfg(test)]
mod tests;
