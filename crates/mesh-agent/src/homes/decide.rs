//! What a declaration means for where a node is: a function of values.

use mesh_model::{BusKind, Home};

/// Where a node is when a declaration came, and over what it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its bus.
    pub(super) home: BusKind,
    /// The one it was offered.
    pub(super) offered: Option<BusKind>,
    /// It heard this declaration at home.
    pub(super) heard_at_home: bool,
    /// It heard it over the one it was offered.
    pub(super) heard_over_offer: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Stay,
    /// Be on the offered bus as well, as who the offer says; the same offer again changes nothing.
    Take,
    /// Leave the offered bus.
    Decline,
    /// The offered bus is home; leave the other.
    Move,
    /// The offered bus is home, which this host did not hear; from there it is offered the one it left.
    MoveAndTake,
    /// It is declared at home where nothing on this host leads.
    Astray,
    /// It is offered the bus it is on.
    Nonsense,
}

/// What a declaration of this home means for a node that stands here.
pub(super) fn decide(standing: Standing, declared: &Home) -> Step {
    match declared {
        // Nobody is offered the bus it is on: whoever is offered this one is on the other.
        Home::Offered(offer) if offer.bus == standing.home => match standing.offered {
            Some(_) if standing.heard_over_offer => Step::MoveAndTake,
            _ => Step::Nonsense,
        },
        Home::Offered(_) => Step::Take,
        Home::On(bus) if *bus == standing.home => match standing.offered {
            Some(_) => Step::Decline,
            None => Step::Stay,
        },
        Home::On(bus) if Some(*bus) == standing.offered => Step::Move,
        Home::On(_) => Step::Astray,
        // The mesh has one bus, which is the one that said so.
        Home::Here => match standing {
            Standing { offered: None, .. } => Step::Stay,
            Standing {
                heard_at_home: true,
                ..
            } => Step::Decline,
            Standing {
                heard_over_offer: true,
                ..
            } => Step::Move,
            // Remembered, and not yet heard again: both are kept until one of them speaks.
            Standing { .. } => Step::Stay,
        },
    }
}

#[cfg(test)]
mod tests {
    use mesh_model::{BusFacts, BusPlace, Offer, Sealed};

    use super::*;

    fn offer(bus: BusKind) -> Home {
        Home::Offered(Box::new(Offer {
            bus,
            place: BusPlace {
                urls: vec![],
                ca: None,
                facts: BusFacts::default(),
            },
            credential: Sealed(vec![]),
        }))
    }

    #[test]
    fn what_is_declared_and_where_the_node_stands_say_what_to_do() {
        for home in BusKind::ALL {
            let other = home.other();
            let (none, some) = (None, Some(other));
            for (offered, at_home, over_offer, declared, step) in [
                (none, true, false, Home::Here, Step::Stay),
                (none, false, false, Home::Here, Step::Stay),
                (some, false, false, Home::Here, Step::Stay),
                (some, true, false, Home::Here, Step::Decline),
                (some, false, true, Home::Here, Step::Move),
                (some, true, true, Home::Here, Step::Decline),
                (none, true, false, Home::On(home), Step::Stay),
                (some, true, false, Home::On(home), Step::Decline),
                (some, false, false, Home::On(home), Step::Decline),
                (some, false, true, Home::On(other), Step::Move),
                (some, false, false, Home::On(other), Step::Move),
                (none, true, false, Home::On(other), Step::Astray),
                (none, true, false, offer(other), Step::Take),
                (some, true, true, offer(other), Step::Take),
                (some, false, false, offer(other), Step::Take),
                (none, true, false, offer(home), Step::Nonsense),
                (some, false, true, offer(home), Step::MoveAndTake),
                (some, false, false, offer(home), Step::Nonsense),
            ] {
                let standing = Standing {
                    home,
                    offered,
                    heard_at_home: at_home,
                    heard_over_offer: over_offer,
                };
                assert_eq!(
                    decide(standing, &declared),
                    step,
                    "{standing:?} {declared:?}"
                );
            }
        }
    }
}
