//! Who and what else there is in a plan, as far as it is held against one principal: the nearest names first.

use std::collections::BTreeMap;
use std::ops::Bound;

use mesh_model::{
    ConsumerRef, ConsumerSpec, InstanceRef, ModuleName, NodeName, Principal, SeatName, StreamName,
    StreamSpec, TokenId,
};

use crate::plan::Plan;
use crate::proof::Extent;
use crate::subject;

/// A principal's name, as everything that could be called the same.
pub(super) struct Namesakes {
    pub(super) node: NodeName,
    pub(super) module: ModuleName,
    pub(super) seat: SeatName,
    pub(super) token: TokenId,
}

impl Namesakes {
    /// Nothing for a name nothing else may have: the controller's.
    pub(super) fn of(principal: &Principal) -> Option<Self> {
        let (of, module, node) = match principal {
            Principal::Controller => return None,
            Principal::Node(node) => (node.as_str(), None, Some(node)),
            Principal::Module(module) => (module.as_str(), Some(module), None),
            Principal::Instance(of) => (of.module.as_str(), Some(&of.module), Some(&of.node)),
            Principal::Joiner(token) => (token.as_str(), None, None),
        };
        Some(Self {
            node: node.cloned().or_else(|| of.parse().ok())?,
            module: module.cloned().or_else(|| of.parse().ok())?,
            seat: of.parse().ok()?,
            token: of.parse().ok()?,
        })
    }

    /// The principals there would be of that name.
    pub(super) fn principals(&self) -> [Principal; 4] {
        let (node, module) = (self.node.clone(), self.module.clone());
        [
            Principal::Node(node.clone()),
            Principal::Module(module.clone()),
            Principal::Instance(InstanceRef { module, node }),
            Principal::Joiner(self.token.clone()),
        ]
    }
}

/// The principals that are held against one, of each kind the nearest.
pub(super) fn principals<'a>(
    plan: &'a Plan,
    around: Option<&Namesakes>,
    extent: Extent,
) -> Vec<&'a Principal> {
    let Some(around) = around else {
        let found = nearest(&plan.grants, None, |_| true, extent);
        return found.into_iter().map(|(principal, _)| principal).collect();
    };
    around
        .principals()
        .iter()
        .flat_map(|pivot| {
            let alike =
                |it: &Principal| std::mem::discriminant(it) == std::mem::discriminant(pivot);
            nearest(&plan.grants, Some(pivot), alike, extent)
        })
        .map(|(principal, _)| principal)
        // The controller, which is the first of all.
        .chain(plan.grants.keys().take(1))
        .collect()
}

/// The streams: the mesh's own, and the nearest seats'.
pub(super) fn streams<'a>(
    plan: &'a Plan,
    around: Option<&Namesakes>,
    extent: Extent,
) -> Vec<&'a StreamSpec> {
    let pivot = around.map(|around| subject::seat_stream(&around.seat));
    let is_seat = |name: &StreamName| subject::seat_of(name).is_some();
    let own = plan.streams.values().filter(|it| !is_seat(&it.name));
    let seats = nearest(&plan.streams, pivot.as_ref(), is_seat, extent);
    own.chain(seats.into_iter().map(|(_, spec)| spec)).collect()
}

/// The nearest consumers of each of those streams.
pub(super) fn consumers<'a>(
    plan: &'a Plan,
    around: Option<&Namesakes>,
    extent: Extent,
) -> Vec<&'a ConsumerSpec> {
    let name = around.map_or("", |around| around.seat.as_str());
    streams(plan, around, extent)
        .into_iter()
        .flat_map(|stream| {
            let stream = &stream.name;
            let name = if *stream == subject::nodes_stream() {
                around.map_or(name, |around| around.node.as_str())
            } else {
                name
            };
            let pivot = ConsumerRef::new(stream.clone(), name).ok();
            let here = |it: &ConsumerRef| it.stream() == stream;
            nearest(&plan.consumers, pivot.as_ref(), here, extent)
        })
        .map(|(_, spec)| spec)
        .collect()
}

/// Of the entries that are alike those around a key, at most as many as the extent allows: half of them before it.
fn nearest<'a, K: Ord, V>(
    all: &'a BTreeMap<K, V>,
    pivot: Option<&K>,
    alike: impl Fn(&K) -> bool,
    extent: Extent,
) -> Vec<(&'a K, &'a V)> {
    let limit = extent.limit();
    let Some(pivot) = pivot else {
        return all
            .iter()
            .filter(|(key, _)| alike(key))
            .take(limit)
            .collect();
    };
    let before = all.range((Bound::Unbounded, Bound::Excluded(pivot))).rev();
    let mut found: Vec<_> = before
        .take_while(|(key, _)| alike(key))
        .take(limit / 2)
        .collect();
    let after = all.range((Bound::Included(pivot), Bound::Unbounded));
    let rest = limit - found.len();
    found.extend(after.take_while(|(key, _)| alike(key)).take(rest));
    found
}
