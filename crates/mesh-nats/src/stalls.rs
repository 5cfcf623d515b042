//! Consumers that have as much out as they may, and get none of it settled: nothing more comes until somebody does.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_bus::Finding;
use mesh_model::{ConsumerRef, ConsumerSpec};
use tokio::time::Instant;

use crate::api::FoundConsumer;

/// Those that are full, as they were seen.
#[derive(Debug, Default)]
pub(crate) struct Stalls(BTreeMap<ConsumerRef, Full>);

/// A full consumer: as long as nothing of this moves.
#[derive(Debug, PartialEq, Eq)]
struct Full {
    floor: u64,
    delivered: u64,
    out: u64,
    since: Instant,
    told: bool,
}

impl Stalls {
    /// Looks at a consumer as it is found; what to say of it, once, when it has stalled. It has when in twice the time in
    /// which what is out has to be settled nothing was, and nothing new was sent.
    pub(crate) fn look(
        &mut self,
        spec: &ConsumerSpec,
        found: &FoundConsumer,
        now: Instant,
    ) -> Option<String> {
        let most = u64::from(spec.max_ack_pending);
        let (floor, delivered) = (found.ack_floor.stream_seq, found.delivered.stream_seq);
        let same = |full: &&mut Full| (full.floor, full.delivered) == (floor, delivered);
        if found.num_ack_pending < most {
            self.0.remove(&spec.consumer);
            return None;
        }
        let Some(full) = self.0.get_mut(&spec.consumer).filter(same) else {
            let full = Full {
                floor,
                delivered,
                out: found.num_ack_pending,
                since: now,
                told: false,
            };
            self.0.insert(spec.consumer.clone(), full);
            return None;
        };
        let settled_within = Duration::from_secs(u64::from(spec.ack_wait_secs) * 2);
        if full.told || now.duration_since(full.since) < settled_within {
            return None;
        }
        full.told = true;
        Some(stalled(spec, full, now))
    }

    /// Forgets those that are gone.
    pub(crate) fn keep(&mut self, derived: &BTreeMap<ConsumerRef, ConsumerSpec>) {
        self.0.retain(|consumer, _| derived.contains_key(consumer));
    }

    /// Those that have stalled.
    pub(crate) fn findings(
        &self,
        derived: &BTreeMap<ConsumerRef, ConsumerSpec>,
        now: Instant,
    ) -> Vec<Finding> {
        let told = self.0.iter().filter(|(_, full)| full.told);
        told.filter_map(|(consumer, full)| {
            let spec = derived.get(consumer)?;
            Some(Finding {
                warning: true,
                text: stalled(spec, full, now),
            })
        })
        .collect()
    }
}

fn stalled(spec: &ConsumerSpec, full: &Full, now: Instant) -> String {
    let whose = spec.owner.as_ref().map_or_else(
        || "which nobody reads".to_owned(),
        |owner| format!("of {owner}"),
    );
    format!(
        "consumer {} {whose} has {} messages out, as many as it may, and none was settled for {} s: nothing more is delivered \
         until its reader settles some; see what the reader waits for, or restart it",
        spec.consumer,
        full.out,
        now.duration_since(full.since).as_secs()
    )
}

#[cfg(test)]
mod tests {
    use mesh_derive::{Bounds, node_consumer};

    use super::*;
    use crate::api::Position;

    /// 10 messages may be out, for 60 s.
    fn spec() -> ConsumerSpec {
        ConsumerSpec {
            max_ack_pending: 10,
            ack_wait_secs: 60,
            ..node_consumer(&"a".parse().unwrap(), &Bounds::default())
        }
    }

    fn found(floor: u64, delivered: u64, out: u64) -> FoundConsumer {
        FoundConsumer {
            ack_floor: Position { stream_seq: floor },
            delivered: Position {
                stream_seq: delivered,
            },
            num_ack_pending: out,
            ..FoundConsumer::default()
        }
    }

    /// What is said of these looks, each after so many seconds.
    fn said(looks: &[(u64, FoundConsumer)]) -> Vec<(u64, String)> {
        let (mut stalls, began, spec) = (Stalls::default(), Instant::now(), spec());
        let mut said = Vec::new();
        for (after, found) in looks {
            let now = began + Duration::from_secs(*after);
            said.extend(stalls.look(&spec, found, now).map(|text| (*after, text)));
        }
        said
    }

    #[test]
    fn one_that_is_full_and_does_not_move_is_told_of_once() {
        let looks: Vec<_> = (0..10).map(|n| (n * 30, found(3, 13, 10))).collect();
        let [(120, text)] = &said(&looks)[..] else {
            panic!("{:?}", said(&looks))
        };
        for part in ["NODES/a", "of node/a", "10 messages", "for 120 s"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn one_that_moves_or_has_room_is_not_told_of() {
        let settles = (0..10).map(|n| (n * 30, found(n, n + 10, 10)));
        assert_eq!(said(&settles.collect::<Vec<_>>()), []);
        // One message is never settled, others are.
        let around = (0..10).map(|n| (n * 30, found(3, n + 13, 10)));
        assert_eq!(said(&around.collect::<Vec<_>>()), []);
        let room = (0..10).map(|n| (n * 30, found(3, 12, 9)));
        assert_eq!(said(&room.collect::<Vec<_>>()), []);
    }

    #[test]
    fn it_is_found_while_it_lasts_and_told_of_again_when_it_comes_again() {
        let (mut stalls, began, spec) = (Stalls::default(), Instant::now(), spec());
        let derived = BTreeMap::from([(spec.consumer.clone(), spec.clone())]);
        let at = |after| began + Duration::from_secs(after);
        let mut look = |after, found| {
            let said = stalls.look(&spec, &found, at(after)).is_some();
            (said, stalls.findings(&derived, at(after)).len())
        };
        assert_eq!(look(0, found(3, 13, 10)), (false, 0));
        assert_eq!(look(119, found(3, 13, 10)), (false, 0));
        assert_eq!(look(120, found(3, 13, 10)), (true, 1));
        assert_eq!(look(150, found(3, 13, 10)), (false, 1));
        assert_eq!(look(180, found(13, 13, 0)), (false, 0));
        assert_eq!(look(210, found(13, 23, 10)), (false, 0));
        assert_eq!(look(330, found(13, 23, 10)), (true, 1));
    }
}
