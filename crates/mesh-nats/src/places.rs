//! Where each consumer stands in its stream, as it was last seen: one that somebody deleted goes on from there.
//!
//! Of those alone that begin with what is new: any other reads, made again, whatever its stream still has.

use std::collections::{BTreeMap, BTreeSet};

use mesh_bus::Finding;
use mesh_derive::Plan;
use mesh_model::{ConsumerRef, ConsumerSpec, DeliverPolicy, StreamName};

use crate::api::{FoundConsumer, FoundStream, Position};

/// The places, as long as this controller runs.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// When each stream was made, in the server's words.
    made: BTreeMap<StreamName, String>,
    /// Up to which message everything is settled.
    floors: BTreeMap<ConsumerRef, u64>,
    /// Those of whose place nothing was known when they had to be made.
    unknown: BTreeSet<ConsumerRef>,
}

/// How a consumer begins that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// As it is declared.
    AsDeclared,
    /// It was there before, and goes on with this message.
    GoingOn(u64),
    /// As it is declared, but it may have been there before, and nobody knows how far it had come.
    Unknown,
}

impl Places {
    /// A stream as it is found. In one that was made anew, or has lost its end, no place of before means anything.
    pub(crate) fn saw_stream(&mut self, stream: &StreamName, found: &FoundStream) {
        let before = self.made.insert(stream.clone(), found.created.clone());
        let another = before.is_some_and(|before| before != found.created);
        let last = found.state.last_seq;
        for (_, floor) in self
            .floors
            .iter_mut()
            .filter(|(of, _)| of.stream() == stream)
        {
            if another || *floor > last {
                *floor = 0;
            }
        }
    }

    /// This controller made a stream: who read it before reads it from its beginning.
    pub(crate) fn made_stream(&mut self, stream: &StreamName) {
        self.made.remove(stream);
        for (_, floor) in self
            .floors
            .iter_mut()
            .filter(|(of, _)| of.stream() == stream)
        {
            *floor = 0;
        }
    }

    /// The consumers of a stream as they are found.
    pub(crate) fn saw(&mut self, plan: &Plan, stream: &StreamName, found: &[FoundConsumer]) {
        for consumer in found {
            let Ok(name) = ConsumerRef::new(stream.clone(), consumer.name.clone()) else {
                continue;
            };
            if let Some(spec) = plan.consumers.get(&name) {
                self.stands(spec, consumer.ack_floor);
            }
        }
    }

    /// A consumer stands here.
    pub(crate) fn stands(&mut self, spec: &ConsumerSpec, floor: Position) {
        if spec.deliver_policy == DeliverPolicy::New {
            self.floors.insert(spec.consumer.clone(), floor.stream_seq);
        }
    }

    /// How a consumer begins that is not there. `first` is this controller's first look at the server, and `held` what was
    /// ever stored in the stream before that: what it finds missing then may have been there.
    pub(crate) fn begins(&mut self, spec: &ConsumerSpec, first: bool, held: u64) -> Begins {
        if spec.deliver_policy != DeliverPolicy::New {
            return Begins::AsDeclared;
        }
        match self.floors.get(&spec.consumer) {
            Some(floor) => Begins::GoingOn(floor.saturating_add(1)),
            None if first && held > 0 => {
                self.unknown.insert(spec.consumer.clone());
                Begins::Unknown
            }
            None => Begins::AsDeclared,
        }
    }

    /// Forgets who is no longer derived: declared again, it is new.
    pub(crate) fn keep(&mut self, plan: &Plan) {
        self.floors.retain(|of, _| plan.consumers.contains_key(of));
        self.unknown.retain(|of| plan.consumers.contains_key(of));
    }

    /// Those that may have missed something.
    pub(crate) fn findings(&self) -> impl Iterator<Item = Finding> {
        self.unknown.iter().map(|consumer| Finding {
            warning: true,
            text: may_have_missed(consumer),
        })
    }
}

/// The streams in which places are kept.
pub(crate) fn streams(plan: &Plan) -> BTreeSet<&StreamName> {
    let specs = plan.consumers.values();
    let kept = specs.filter(|spec| spec.deliver_policy == DeliverPolicy::New);
    kept.map(|spec| spec.consumer.stream()).collect()
}

/// What to tell of a consumer whose place is unknown.
pub(crate) fn may_have_missed(consumer: &ConsumerRef) -> String {
    format!(
        "consumer {consumer} was not on the server when this controller first looked, and was made to begin with what is new: if it \
         was deleted while no controller ran, what waited in it was skipped; stream {} still has it",
        consumer.stream()
    )
}

#[cfg(test)]
mod tests {
    use mesh_derive::{Bounds, derive, subject};
    use mesh_model::{BusFacts, Records};

    use super::*;
    use crate::api::StreamState;

    fn plan() -> Plan {
        let bus = BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        };
        derive(&Records::new("m".parse().unwrap(), bus), &Bounds::default())
    }

    fn spec() -> ConsumerSpec {
        let plan = plan();
        let mut spec = plan.consumers.values().next().unwrap().clone();
        spec.consumer = ConsumerRef::new(subject::events_stream(), "m").unwrap();
        spec.deliver_policy = DeliverPolicy::New;
        spec
    }

    fn stream(created: &str, last_seq: u64) -> FoundStream {
        FoundStream {
            config: serde_json::Map::new(),
            created: created.to_owned(),
            state: StreamState {
                last_seq,
                ..StreamState::default()
            },
            ts: String::new(),
        }
    }

    fn standing_at_5() -> Places {
        let mut places = Places::default();
        places.saw_stream(&subject::events_stream(), &stream("once", 9));
        places.stands(&spec(), Position { stream_seq: 5 });
        places
    }

    #[test]
    fn one_that_was_there_goes_on_after_what_it_settled() {
        let mut places = standing_at_5();
        places.saw_stream(&subject::events_stream(), &stream("once", 20));
        assert_eq!(places.begins(&spec(), false, 20), Begins::GoingOn(6));
        assert_eq!(places.findings().count(), 0);
    }

    #[test]
    fn one_that_is_new_begins_with_what_is_new() {
        let mut places = Places::default();
        assert_eq!(places.begins(&spec(), false, 20), Begins::AsDeclared);
        assert_eq!(places.begins(&spec(), true, 0), Begins::AsDeclared);
        // As does one that was gone from the plan meanwhile.
        let mut places = standing_at_5();
        places.keep(&plan());
        assert_eq!(places.begins(&spec(), false, 20), Begins::AsDeclared);
    }

    #[test]
    fn one_that_a_controller_finds_missing_at_its_first_look_is_told_of() {
        let mut places = Places::default();
        assert_eq!(places.begins(&spec(), true, 20), Begins::Unknown);
        let found: Vec<_> = places.findings().map(|finding| finding.text).collect();
        assert!(matches!(&found[..], [one] if one.contains("EVENTS/m") && one.contains("skipped")));
    }

    #[test]
    fn in_a_stream_made_anew_it_begins_at_the_beginning() {
        let mut places = standing_at_5();
        places.made_stream(&subject::events_stream());
        assert_eq!(places.begins(&spec(), false, 0), Begins::GoingOn(1));
        // By whomever, and also where it ends before the place.
        for (created, last) in [("again", 20), ("once", 4)] {
            let mut places = standing_at_5();
            places.saw_stream(&subject::events_stream(), &stream(created, last));
            assert_eq!(places.begins(&spec(), false, last), Begins::GoingOn(1));
        }
    }

    #[test]
    fn one_that_reads_everything_needs_no_place() {
        let mut places = Places::default();
        let spec = ConsumerSpec {
            deliver_policy: DeliverPolicy::All,
            ..spec()
        };
        places.stands(&spec, Position { stream_seq: 5 });
        assert_eq!(places.begins(&spec, true, 20), Begins::AsDeclared);
    }
}
