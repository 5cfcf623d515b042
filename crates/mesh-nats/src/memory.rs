//! What a server was brought to last, and where it is another since.

use std::collections::{BTreeMap, BTreeSet};

use mesh_bus::{BusError, Disturbance, Finding};
use mesh_derive::Plan;
use mesh_model::{ConsumerRef, StreamName};
use serde_json::Value;

use crate::api::{Api, FoundStream};
use crate::authority::Loaded;
use crate::definition::{Fields, differences};

/// What was asserted last: by it one knows what the mesh itself no longer derives, and what a sweep must find.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) streams: BTreeMap<StreamName, Fields>,
    pub(crate) consumers: BTreeSet<ConsumerRef>,
    /// How many consumers each stream had.
    pub(crate) counts: BTreeMap<StreamName, u64>,
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

    /// The first that was asserted and is no longer there, or not as it was. One call, or one for each 256 streams.
    pub(crate) async fn disturbed(&mut self, api: &Api) -> Result<Option<Disturbance>, BusError> {
        let found = api.streams().await?;
        let found: BTreeMap<&str, &FoundStream> = found
            .iter()
            .filter_map(|stream| Some((stream.name()?, stream)))
            .collect();
        for (name, declared) in &self.streams {
            let Some(found) = found.get(name.as_str()) else {
                return Ok(Some(Disturbance::of(name)));
            };
            let had = self.counts.entry(name.clone()).or_default();
            let has = found.state.consumer_count;
            if has < *had || !differences(declared, &found.config).is_empty() {
                return Ok(Some(Disturbance::Definitions));
            }
            // One that somebody adds must not hide that another is gone.
            *had = has;
        }
        Ok(None)
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
    use mesh_derive::subject;

    use super::*;

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
