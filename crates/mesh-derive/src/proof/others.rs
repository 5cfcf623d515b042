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
pub(crate) struct Namesakes {
    pub(crate) node: NodeName,
    pub(crate) module: ModuleName,
    pub(crate) seat: SeatName,
    pub(crate) token: TokenId,
}

impl Namesakes {
    /// Nothing for a name nothing else may have: the controller's.
    pub(crate) fn of(principal: &Principal) -> Option<Self> {
        let (of, module, node) = match principal {
            Principal::Controller => return None,
            Principal::Node(node) => (node.as_str(), None, Some(node)),
            Principal::Module(module) => (module.as_str(), Some(module), None),
            Principal::Instance(of) => (of.module.as_str(), Some(&of.module), Some(&of.node)),
            Principal::Joiner(token) => (token.as_str(), None, None),
        };
        // A token may be called what nothing else may: it is held against what stands about here instead.
        let of = if of.parse::<SeatName>().is_ok() {
            of
        } else {
            ANYWHERE
        };
        Some(Self {
            node: node.cloned().or_else(|| of.parse().ok())?,
            module: module.cloned().or_else(|| of.parse().ok())?,
            seat: of.parse().ok()?,
            token: match principal {
                Principal::Joiner(token) => token.clone(),
                _ => of.parse().ok()?,
            },
        })
    }

    /// The principals there would be of that name.
    pub(crate) fn principals(&self) -> [Principal; 4] {
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
pub(crate) fn principals<'a>(
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
pub(crate) fn streams<'a>(
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
pub(crate) fn consumers<'a>(
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

/// In the middle of the alphabet.
const ANYWHERE: &str = "m";

/// Of the entries that are alike the one under a key, and besides as many around it as the extent allows, half of them
/// before it: the key may be that of whom they are held against.
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
    let rest = limit - found.len();
    found.extend(all.get_key_value(pivot));
    let after = all.range((Bound::Excluded(pivot), Bound::Unbounded));
    found.extend(after.take_while(|(key, _)| alike(key)).take(rest));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_a_key_are_on_both_sides_of_it_and_it_counts_for_none() {
        let all: BTreeMap<u32, u32> = (0..10).map(|key| (key, key)).collect();
        for (pivot, limit, expected) in [
            (5, Extent::Nearest(2), vec![4, 5, 6]),
            (0, Extent::Nearest(2), vec![0, 1, 2]),
            (9, Extent::Nearest(2), vec![8, 9]),
            (5, Extent::Nearest(0), vec![5]),
            (5, Extent::Whole, (0..10).collect()),
        ] {
            let found = nearest(&all, Some(&pivot), |_| true, limit);
            let mut found: Vec<u32> = found.into_iter().map(|(key, _)| *key).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{pivot} {limit:?}");
        }
    }

    #[test]
    fn a_token_has_namesakes_even_if_nothing_else_may_be_called_so() {
        for token in ["controller", "t1"] {
            let joiner = Principal::Joiner(token.parse().unwrap());
            let around = Namesakes::of(&joiner).unwrap();
            assert_eq!(around.token.as_str(), token);
        }
        assert!(Namesakes::of(&Principal::Controller).is_none());
    }
}
