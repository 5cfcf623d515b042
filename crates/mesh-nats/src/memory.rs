//! What a server was brought to last, and where it is another since.

use std::collections::{BTreeMap, BTreeSet};

use mesh_bus::{BusError, Disturbance, Finding};
use mesh_derive::{Plan, subject};
use mesh_model::{ConsumerRef, StreamName};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{Api, FoundConsumer, FoundStream};
use crate::authority::Loaded;
use crate::definition::{Fields, consumer_fields, differences};
use crate::places::{self, Places};
use crate::stalls::Stalls;

/// What was asserted last: by it one knows what the mesh itself no longer derives, and what a sweep must find.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) streams: BTreeMap<StreamName, Fields>,
    pub(crate) consumers: BTreeSet<ConsumerRef>,
    /// How many consumers each stream had.
    pub(crate) counts: BTreeMap<StreamName, u64>,
    /// Where each consumer stands.
    pub(crate) places: Places,
    /// Those that are full.
    stalls: Stalls,
    /// Those that were found to be others, as they were found.
    drifted: BTreeMap<ConsumerRef, Fields>,
    pub(crate) loaded: Loaded,
    /// All of it: what a server is held against when somebody asks.
    pub(crate) plan: Option<Plan>,
}

impl Memory {
    /// What an advisory tells of, if that was asserted: `kind.action.stream` or `kind.action.stream.consumer`.
    pub(crate) fn touched(&self, advisory: &str) -> Option<Disturbance> {
        let mut words = advisory.split('.').skip(2);
        let stream = StreamName::new(words.next()?).ok()?;
        match words.next() {
            None => self
                .streams
                .contains_key(&stream)
                .then(|| Disturbance::of(&stream)),
            Some(name) => {
                let consumer = ConsumerRef::new(stream, name).ok()?;
                let ours = self.consumers.contains(&consumer);
                ours.then_some(Disturbance::Definitions)
            }
        }
    }

    /// Whether a consumer was asserted.
    pub(crate) fn is_own(&self, consumer: &ConsumerRef) -> bool {
        self.consumers.contains(consumer)
    }

    /// The first that was asserted and is no longer there, or not as it was. One call, or one for each 256 streams, and one
    /// for each stream whose consumers are looked at: a wide look takes in all that could stall.
    pub(crate) async fn disturbed(
        &mut self,
        api: &Api,
        wide: bool,
    ) -> Result<Option<Disturbance>, BusError> {
        let found = api.streams().await?;
        let found: BTreeMap<&str, &FoundStream> = found
            .iter()
            .filter_map(|stream| Some((stream.name()?, stream)))
            .collect();
        for (name, declared) in &self.streams {
            let Some(found) = found.get(name.as_str()) else {
                return Ok(Some(Disturbance::of(name)));
            };
            self.places.saw_stream(name, found);
            let had = self.counts.entry(name.clone()).or_default();
            let has = found.state.consumer_count;
            if has < *had || !differences(declared, &found.config).is_empty() {
                return Ok(Some(Disturbance::Definitions));
            }
            // One that somebody adds must not hide that another is gone.
            *had = has;
        }
        let mut drifted = false;
        for stream in self.looked_at(&found, wide) {
            let consumers = api.consumers(&stream).await?;
            drifted |= self.saw_consumers(&stream, &consumers, Instant::now());
        }
        Ok(drifted.then_some(Disturbance::Definitions))
    }

    /// The streams whose consumers are looked at: those in which places are kept, and for a wide look whichever holds
    /// something. Of the stream of declarations every node has one message at most.
    fn looked_at(&self, found: &BTreeMap<&str, &FoundStream>, wide: bool) -> Vec<StreamName> {
        let Some(plan) = &self.plan else {
            return Vec::new();
        };
        let kept = places::streams(plan);
        let nodes = subject::nodes_stream();
        let holds = |stream: &StreamName| {
            let found = found.get(stream.as_str());
            found.is_some_and(|found| found.state.messages > 0 && found.state.consumer_count > 0)
        };
        let looked_at = |stream: &&StreamName| {
            kept.contains(stream) || (wide && **stream != nodes && holds(stream))
        };
        plan.streams.keys().filter(looked_at).cloned().collect()
    }

    /// Takes down where the consumers of a stream stand. Whether one is another than it was asserted, if that was not told
    /// already: what cannot be brought back is not to be tried for ever.
    fn saw_consumers(
        &mut self,
        stream: &StreamName,
        found: &[FoundConsumer],
        now: Instant,
    ) -> bool {
        let Some(plan) = &self.plan else {
            return false;
        };
        self.places.saw(plan, stream, found);
        let mut drifted = false;
        for found in found {
            let name = ConsumerRef::new(stream.clone(), found.name.clone()).ok();
            let Some(spec) = name.and_then(|name| plan.consumers.get(&name)) else {
                continue;
            };
            if let Some(stalled) = self.stalls.look(spec, found, now) {
                tracing::warn!("{stalled}");
            }
            if differences(&consumer_fields(spec), &found.config).is_empty() {
                self.drifted.remove(&spec.consumer);
            } else {
                let config = found.config.clone();
                let told = self.drifted.insert(spec.consumer.clone(), config);
                drifted |= told.as_ref() != Some(&found.config);
            }
        }
        drifted
    }

    /// Consumers that stand still, and those that may have missed something.
    pub(crate) fn of_consumers(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.places.findings().collect();
        if let Some(plan) = &self.plan {
            findings.extend(self.stalls.findings(&plan.consumers, Instant::now()));
        }
        findings
    }

    /// Forgets of consumers that are no longer derived.
    pub(crate) fn keep(&mut self, plan: &Plan) {
        self.places.keep(plan);
        self.stalls.keep(&plan.consumers);
        self.drifted.retain(|of, _| plan.consumers.contains_key(of));
    }

    /// Streams that soon take no further consumer.
    pub(crate) fn nearly_full(&self) -> impl Iterator<Item = Finding> {
        self.streams.iter().filter_map(|(name, declared)| {
            let most = declared.get("max_consumers").and_then(Value::as_u64)?;
            let has = self.counts.get(name).copied().unwrap_or(0);
            (has * 10 >= most * 9).then(|| Finding {
                warning: true,
                text: format!("stream {name} has {has} of at most {most} consumers"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use mesh_model::BusFacts;

    use super::*;

    /// Of a mesh of nobody, brought there.
    fn asserted() -> (Memory, FoundConsumer) {
        let facts = BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        };
        let records = mesh_model::Records::new("m".parse().unwrap(), facts);
        let plan = mesh_derive::derive(&records, &mesh_derive::Bounds::default());
        let spec = plan.consumers.values().next().unwrap();
        let found = FoundConsumer {
            name: spec.consumer.name().to_owned(),
            config: consumer_fields(spec),
            ..FoundConsumer::default()
        };
        let memory = Memory {
            plan: Some(plan),
            ..Memory::default()
        };
        (memory, found)
    }

    #[test]
    fn a_change_is_told_of_once_however_often_it_is_seen() {
        let (mut memory, as_derived) = asserted();
        let mut saw = |found: &FoundConsumer| {
            let found = std::slice::from_ref(found);
            memory.saw_consumers(&subject::control_stream(), found, Instant::now())
        };
        let with = |field: &str, value: Value| {
            let mut config = as_derived.config.clone();
            config.insert(field.to_owned(), value);
            let name = as_derived.name.clone();
            FoundConsumer {
                name,
                config,
                ..FoundConsumer::default()
            }
        };
        assert!(!saw(&as_derived));
        // It cannot be brought back where it stands, and is not told of for ever.
        let replayed = with("replay_policy", "original".into());
        assert_eq!([saw(&replayed), saw(&replayed)], [true, false]);
        let waits = with("ack_wait", 1.into());
        assert_eq!([saw(&waits), saw(&waits)], [true, false]);
        assert!(!saw(&as_derived));
        assert!(saw(&waits), "it was brought back in between");
    }

    #[test]
    fn only_what_was_asserted_is_disturbed() {
        let mut memory = Memory::default();
        for stream in [subject::nodes_stream(), subject::control_stream()] {
            memory.streams.insert(stream, Fields::new());
        }
        let node = ConsumerRef::new(subject::nodes_stream(), "a").unwrap();
        memory.consumers.insert(node);
        for (advisory, touched) in [
            ("STREAM.DELETED.NODES", Some(Disturbance::Declarations)),
            ("STREAM.UPDATED.CONTROL", Some(Disturbance::Definitions)),
            ("CONSUMER.DELETED.NODES.a", Some(Disturbance::Definitions)),
            ("STREAM.DELETED.SOMEBODYS", None),
            ("CONSUMER.DELETED.NODES.somebodys", None),
            ("CONSUMER.DELETED.SOMEBODYS.a", None),
            ("STREAM.DELETED", None),
        ] {
            assert_eq!(memory.touched(advisory), touched, "{advisory}");
        }
    }
}
