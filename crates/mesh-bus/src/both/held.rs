//! What each of two buses may hold, as far as this controller has asserted it, and on which of them somebody is.

use std::collections::BTreeMap;

use mesh_derive::Plan;
use mesh_model::{BusKind, Principal};

/// Plans of which each bus shows one, or a mixture: several, while one is being asserted or could not be to its end. Of a
/// bus that is not there nothing is known.
pub(super) type Held = BTreeMap<BusKind, Vec<Plan>>;

/// What this controller has brought the buses to.
#[derive(Debug, Default)]
pub(super) struct Known {
    held: Held,
    /// Who is where, home first; of the plan that both show.
    places: BTreeMap<Principal, Vec<BusKind>>,
}

impl Known {
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    /// A bus is being brought to this.
    pub(super) fn begin(&mut self, bus: BusKind, plan: &Plan) {
        let Some(held) = self.held.get_mut(&bus) else {
            return;
        };
        if !held.contains(plan) {
            held.push(plan.clone());
        }
        if held.len() > AT_ONCE {
            self.held.remove(&bus);
        }
    }

    /// A bus shows this.
    pub(super) fn shows(&mut self, bus: BusKind, plan: Plan) {
        self.held.insert(bus, vec![plan]);
    }

    /// Both show their parts of this plan.
    pub(super) fn complete(&mut self, plan: &Plan) {
        self.places = places(plan);
    }

    /// Where somebody is, home first. The controller is on both.
    pub(super) fn places(&self, who: &Principal) -> Vec<BusKind> {
        if *who == Principal::Controller {
            return BusKind::ALL.to_vec();
        }
        self.places.get(who).cloned().unwrap_or_default()
    }
}

/// On which buses each has a key. At home it is the one that the whole plan knows.
fn places(plan: &Plan) -> BTreeMap<Principal, Vec<BusKind>> {
    let mut places: BTreeMap<Principal, Vec<BusKind>> = BTreeMap::new();
    for at_home in [true, false] {
        for (bus, part) in &plan.parts {
            let users = part.users.iter();
            let those = users.filter(|(key, _)| plan.users.contains_key(*key) == at_home);
            for (_, who) in those {
                places.entry(who.clone()).or_default().push(*bus);
            }
        }
    }
    places
}

/// Plans a bus may be a mixture of, before it is known no more.
const AT_ONCE: usize = 4;
