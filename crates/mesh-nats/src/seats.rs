//! Who may work which seat on a server, by the file of users it was told to read.

use std::collections::BTreeSet;

use mesh_bus::{HandOver, Readers, SeatAuthority, hand_over};
use mesh_derive::Plan;
use mesh_model::{BusFacts, ConsumerRef, Filter, Grant, PublicKey};

use crate::holding::allowed;

/// What a server lets each key do, as far as the file tells.
pub(crate) struct Told {
    /// Nothing where there is no file, or it is not understood.
    users: Option<Vec<User>>,
    /// The server has read that file, and none since.
    is_read: bool,
}

/// A key, and what it may do; nothing where that is not understood.
type User = (Option<PublicKey>, Option<Grant>);

impl Told {
    /// By the file as it is, and as the server is known to have read it last.
    pub(crate) fn of(on_disk: Option<&str>, read: Option<&str>) -> Self {
        let users = on_disk.and_then(allowed).map(|users| {
            let user = |(key, may): (Option<String>, BTreeSet<(&str, String)>)| {
                (key.and_then(|key| PublicKey::new(key).ok()), grant(&may))
            };
            users.into_iter().map(user).collect()
        });
        Self {
            users,
            is_read: on_disk.is_some() && on_disk == read,
        }
    }

    /// In which steps it is brought to a plan.
    pub(crate) fn hand_over(&self, plan: &Plan, facts: &BusFacts) -> HandOver {
        hand_over(plan, facts, |seat| self.readers(seat, plan, facts))
    }

    fn readers(&self, seat: &ConsumerRef, plan: &Plan, facts: &BusFacts) -> Readers {
        let mut readers = Readers {
            known: BTreeSet::new(),
            others: !self.is_read || self.users.is_none(),
        };
        let authority = SeatAuthority::of(seat, facts);
        for (key, grant) in self.users.iter().flatten() {
            let able = grant
                .as_ref()
                .zip(authority.as_ref())
                .is_none_or(|(grant, authority)| authority.is_in(grant));
            let whose = |key| plan.users.get(key).or_else(|| plan.retiring.get(key));
            match key.as_ref().and_then(whose) {
                Some(who) if able => {
                    readers.known.insert(who.clone());
                }
                None if able => readers.others = true,
                _ => {}
            }
        }
        readers
    }
}

/// What a user may do, whatever the queues it may join are called.
fn grant(may: &BTreeSet<(&str, String)>) -> Option<Grant> {
    let mut grant = Grant::default();
    for (side, text) in may {
        let subject = text.split_whitespace().next()?;
        match *side {
            "publish" => grant.publish.insert(Filter::new(subject).ok()?),
            "subscribe" => grant.subscribe.insert(Filter::new(subject).ok()?),
            // What is denied beside it makes nobody's authority larger.
            _ => false,
        };
    }
    Some(grant)
}

#[cfg(test)]
mod tests;
