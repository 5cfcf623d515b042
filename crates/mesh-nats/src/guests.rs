//! Users the server knows for a while, beside those of the plan: as whom a proof connects.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_bus::{Disturbance, Disturbed};
use mesh_derive::Plan;
use mesh_derive::proof::with_probers;
use mesh_model::{Principal, PublicKey};
use tokio::sync::watch;

/// Who is a guest now, and as of when the server knows.
#[derive(Debug)]
pub(crate) struct Guests {
    now: Mutex<Staying>,
    known: watch::Sender<u64>,
}

/// Each change has a number of its own.
#[derive(Debug, Default)]
struct Staying {
    change: u64,
    keys: BTreeMap<PublicKey, Principal>,
}

impl Default for Guests {
    fn default() -> Self {
        Self {
            now: Mutex::default(),
            known: watch::Sender::new(0),
        }
    }
}

impl Guests {
    fn now(&self) -> MutexGuard<'_, Staying> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan with the guests of now among its users, and the number of the change that made them so. A guest whose
    /// principal the plan does not know any more is none of them.
    pub(crate) fn among<'a>(&self, plan: &'a Plan) -> (Cow<'a, Plan>, u64) {
        let now = self.now();
        let mut keys = now.keys.clone();
        keys.retain(|key, of| plan.grants.contains_key(of) && !plan.users.contains_key(key));
        let with = if keys.is_empty() {
            None
        } else {
            with_probers(plan, &keys).ok()
        };
        (with.map_or(Cow::Borrowed(plan), Cow::Owned), now.change)
    }

    /// Whether somebody waits until the server knows the guests of this change.
    pub(crate) fn are_awaited(&self, change: u64) -> bool {
        change > *self.known.borrow()
    }

    /// The server knows the guests as of this change.
    pub(crate) fn are_known(&self, change: u64) {
        self.known.send_if_modified(|known| {
            let later = change > *known;
            *known = (*known).max(change);
            later
        });
    }

    async fn known_as_of(&self, change: u64) {
        // The sender lives as long as the guests do, which this is one of.
        let mut known = self.known.subscribe();
        let _known = known.wait_for(|known| *known >= change).await;
    }

    fn replace(&self, keys: BTreeMap<PublicKey, Principal>) -> u64 {
        let mut now = self.now();
        now.change += 1;
        now.keys = keys;
        now.change
    }
}

/// Guests, for as long as this lives. Their coming and their going are made true by the controller's own next assertion:
/// nobody else writes users.
#[derive(Debug)]
pub(crate) struct Stay {
    guests: Arc<Guests>,
    disturbed: Arc<Disturbed>,
    change: u64,
}

impl Stay {
    /// Lets these in.
    pub(crate) fn begin(
        guests: &Arc<Guests>,
        disturbed: &Arc<Disturbed>,
        keys: BTreeMap<PublicKey, Principal>,
    ) -> Self {
        let change = guests.replace(keys);
        disturbed.tell(Disturbance::Definitions);
        Self {
            guests: Arc::clone(guests),
            disturbed: Arc::clone(disturbed),
            change,
        }
    }

    /// Waits until the server knows them. May be dropped.
    pub(crate) async fn known(&self) {
        self.guests.known_as_of(self.change).await;
    }

    /// Ends, and waits until the server knows them no more. May be dropped.
    pub(crate) async fn end(self) {
        let guests = Arc::clone(&self.guests);
        drop(self);
        let gone = guests.now().change;
        guests.known_as_of(gone).await;
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.guests.replace(BTreeMap::new());
        self.disturbed.tell(Disturbance::Definitions);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use mesh_derive::{Bounds, derive};
    use mesh_model::{BusFacts, Records};

    use super::*;

    fn key(byte: u8) -> PublicKey {
        PublicKey::from_raw([byte; 32])
    }

    #[test]
    fn guests_are_users_while_they_stay_and_only_of_principals_there_are() {
        let mut records = Records::new("home".parse().unwrap(), BusFacts::default());
        let plan = derive(&records, &Bounds::default());
        let guests = Arc::new(Guests::default());
        let disturbed = Arc::new(Disturbed::default());
        let a: Principal = "node/a".parse().unwrap();
        let stay = Stay::begin(&guests, &disturbed, [(key(1), a.clone())].into());
        assert_eq!(
            disturbed.heard().now_or_never(),
            Some(Disturbance::Definitions)
        );
        // The plan knows no such node.
        assert!(guests.among(&plan).0.users.is_empty());

        records.nodes.insert("a".parse().unwrap(), node());
        let plan = derive(&records, &Bounds::default());
        let (with, change) = guests.among(&plan);
        assert_eq!(with.users.get(&key(1)), Some(&a));
        assert_eq!(with.users.len(), plan.users.len() + 1);
        assert_eq!(stay.known().now_or_never(), None);
        guests.are_known(change);
        assert_eq!(stay.known().now_or_never(), Some(()));

        let mut ending = Box::pin(stay.end());
        assert_eq!(ending.as_mut().now_or_never(), None);
        assert_eq!(
            disturbed.heard().now_or_never(),
            Some(Disturbance::Definitions)
        );
        let (without, later) = guests.among(&plan);
        assert_eq!(*without, plan);
        assert!(later > change);
        assert!(guests.are_awaited(later));
        guests.are_known(later);
        assert_eq!(ending.now_or_never(), Some(()));
    }

    fn node() -> mesh_model::NodeRecord {
        mesh_model::NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: key(9),
            box_key: mesh_model::BoxPublicKey::from_raw([9; 32]),
            labels: BTreeMap::new(),
            token: "t".parse().unwrap(),
            enrolled: mesh_model::Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        }
    }
}
