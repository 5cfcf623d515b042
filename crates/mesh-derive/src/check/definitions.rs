//! Consumers against one another, and the numbers in them that a server takes for something else.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{ConsumerKind, ConsumerRef, ConsumerSpec, Principal, StreamName, Subject};

use crate::check::mismatch::{DefinitionFault, Mismatch};
use crate::check::plan::deliver;
use crate::plan::Plan;
use crate::subject;

/// Seconds an unsettled message may take to come again: nothing is to a server 30 s, and with more a crashed reader's
/// work waits for as long.
const ACK_WAIT: (u32, u32) = (1, 600);
/// Seconds of silence before a server says that it is there. It refuses less than a tenth of one.
const HEARTBEAT: (u32, u32) = (1, 120);
/// Messages out at once: none is to a server a thousand.
const PENDING: (u32, u32) = (1, 65_536);

impl Plan {
    pub(super) fn check_definitions(&self, found: &mut Vec<Mismatch>) {
        let mut faults = Vec::new();
        for spec in self.consumers.values() {
            numbers(spec, &mut faults);
        }
        self.check_delivers(&mut faults);
        self.check_names(&mut faults);
        found.extend(faults.into_iter().map(Mismatch::Definition));
    }

    /// Each delivers to a subject of its own, below the one root that nobody may publish on.
    fn check_delivers(&self, faults: &mut Vec<DefinitionFault>) {
        let root = subject::delivered();
        let mut delivers: Vec<(&Subject, &ConsumerRef)> = Vec::new();
        for spec in self.consumers.values() {
            let Some(deliver) = deliver(spec) else {
                continue;
            };
            if !root.matches(deliver) {
                faults.push(DefinitionFault::DeliversElsewhere {
                    consumer: spec.consumer.clone(),
                    deliver: deliver.clone(),
                });
            }
            delivers.push((deliver, &spec.consumer));
        }
        delivers.sort_unstable();
        for same in delivers.chunk_by(|one, next| one.0 == next.0) {
            for (at, (deliver, consumer)) in same.iter().enumerate() {
                let others = same.iter().skip(at + 1);
                faults.extend(others.map(|(_, with)| DefinitionFault::DeliverTwice {
                    consumer: (*consumer).clone(),
                    with: (*with).clone(),
                    deliver: (*deliver).clone(),
                }));
            }
        }
    }

    /// A file system that does not tell case apart would keep both in one folder.
    fn check_names(&self, faults: &mut Vec<DefinitionFault>) {
        let mut streams: BTreeMap<String, &StreamName> = BTreeMap::new();
        for name in self.streams.keys() {
            if let Some(other) = streams.insert(name.as_str().to_ascii_lowercase(), name) {
                faults.push(DefinitionFault::EqualButForCase {
                    name: name.to_string(),
                    other: other.to_string(),
                });
            }
        }
        let upper = |consumer: &&ConsumerRef| consumer.name().contains(char::is_uppercase);
        let mut folded: BTreeSet<ConsumerRef> = BTreeSet::new();
        for consumer in self.consumers.keys().filter(upper) {
            let lower = consumer.name().to_ascii_lowercase();
            let Ok(lower) = ConsumerRef::new(consumer.stream().clone(), lower) else {
                continue;
            };
            if self.consumers.contains_key(&lower) || folded.contains(&lower) {
                faults.push(DefinitionFault::EqualButForCase {
                    name: consumer.to_string(),
                    other: lower.to_string(),
                });
            }
            folded.insert(lower);
        }
    }
}

fn numbers(spec: &ConsumerSpec, faults: &mut Vec<DefinitionFault>) {
    let mut within = |what: &'static str, found: u32, (least, most): (u32, u32)| {
        if !(least..=most).contains(&found) {
            faults.push(DefinitionFault::OutOfBounds {
                consumer: spec.consumer.clone(),
                what,
                found,
                least,
                most,
            });
        }
    };
    within("ack wait in seconds", spec.ack_wait_secs, ACK_WAIT);
    within("messages out at once", spec.max_ack_pending, PENDING);
    let ConsumerKind::Push {
        group,
        idle_heartbeat_secs,
        ..
    } = &spec.kind
    else {
        return;
    };
    let to_a_node = matches!(spec.owner, Some(Principal::Node(_)));
    match idle_heartbeat_secs {
        Some(secs) => {
            within("idle heartbeat in seconds", *secs, HEARTBEAT);
            if group.is_some() {
                faults.push(DefinitionFault::HeartbeatInGroup {
                    consumer: spec.consumer.clone(),
                });
            }
        }
        None if to_a_node => faults.push(DefinitionFault::NoHeartbeat {
            consumer: spec.consumer.clone(),
        }),
        None => {}
    }
}
