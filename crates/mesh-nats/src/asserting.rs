//! Bringing a server to a plan: read what there is, compare, write only what differs.
//!
//! In this order: what is missing is made before anybody who needs it can connect; who may no longer connect goes before
//! what they used does.

mod change;
mod seats;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use futures_util::{StreamExt, TryStreamExt, stream};
use mesh_bus::{Asserted, BusError};
use mesh_derive::Plan;
use mesh_model::{BusFacts, ConsumerRef, StreamName, StreamSpec};

use crate::api::{Api, FoundConsumer, FoundStream};
use crate::asserting::change::{change, changed, unchangeable};
use crate::authority::Authority;
use crate::definition::{Fields, differences, immutable, overlaid, stream_fields, stream_refuses};
use crate::memory::Memory;

/// One bringing of a server to a plan.
pub(crate) struct Asserting<'a> {
    pub(crate) api: &'a Api,
    pub(crate) authority: &'a Authority,
    pub(crate) facts: BusFacts,
    pub(crate) replicas: u8,
    pub(crate) plan: &'a Plan,
    pub(crate) done: Asserted,
    /// The first thing that could not be done while the rest could.
    pub(crate) refused: Option<BusError>,
}

type Consumers = BTreeMap<StreamName, Vec<FoundConsumer>>;

impl Asserting<'_> {
    /// Does it. `keep_epoch` runs once the streams are as far as they can be brought, whether or not that is all the way:
    /// a stream of declarations made anew takes none before the epoch begins once more. `first` says with which sequence
    /// a stream that is made begins.
    pub(crate) async fn run<F>(
        mut self,
        memory: &mut Memory,
        first: &BTreeMap<StreamName, u64>,
        keep_epoch: impl FnOnce() -> F,
    ) -> Result<Asserted, BusError>
    where
        F: Future<Output = Result<(), BusError>>,
    {
        self.own(memory);
        let found = self.api.streams().await?;
        let found: BTreeMap<String, FoundStream> = found
            .into_iter()
            .filter_map(|stream| Some((stream.name()?.to_owned(), stream)))
            .collect();
        for name in self.plan.streams.keys() {
            if let Some(found) = found.get(name.as_str()) {
                memory.places.saw_stream(name, found);
            }
        }
        let brought = self.bring_streams(&found, first, memory).await;
        if let Err(error) = keep_epoch().await {
            let refused = self.refused.filter(|_| !error.is_final());
            return Err(refused.unwrap_or(error));
        }
        brought?;
        let consumers = self.list_consumers(&found).await?;
        for (stream, consumers) in &consumers {
            memory.places.saw(self.plan, stream, consumers);
        }
        self.bring_consumers(&found, &consumers, memory).await?;
        self.bring_users(memory).await?;
        self.remove_consumers(memory, &consumers).await?;
        self.remove_streams(memory, &found).await?;
        self.remember(memory);
        self.refused.map_or(Ok(self.done), Err)
    }

    async fn bring_streams(
        &mut self,
        found: &BTreeMap<String, FoundStream>,
        first: &BTreeMap<StreamName, u64>,
        memory: &mut Memory,
    ) -> Result<(), BusError> {
        for (name, spec) in &self.plan.streams {
            let declared = stream_fields(spec, self.replicas);
            let Some(found) = found.get(name.as_str()) else {
                let mut config = overlaid(&declared, None);
                if let Some(first) = first.get(name) {
                    config.insert("first_seq".to_owned(), (*first).into());
                }
                memory.places.made_stream(name);
                let outcome = self.api.create_stream(name, config).await;
                self.note(format!("stream {name}: made"), outcome)?;
                continue;
            };
            self.bring_stream(spec, &declared, found).await?;
        }
        Ok(())
    }

    async fn bring_stream(
        &mut self,
        spec: &StreamSpec,
        declared: &Fields,
        found: &FoundStream,
    ) -> Result<(), BusError> {
        let differences = differences(declared, &found.config);
        if differences.is_empty() {
            return Ok(());
        }
        let name = &spec.name;
        if let Some(difference) = immutable(&differences, stream_refuses) {
            let remedy = format!(
                "what it holds would be lost with it: stop its publishers, let its readers empty it or copy it, delete stream {name}, and it is made anew"
            );
            self.refuse(unchangeable(format!("stream {name}"), difference, remedy));
            return Ok(());
        }
        let config = overlaid(declared, Some(&found.config));
        let outcome = self.api.update_stream(name, config).await;
        self.note(changed(&format!("stream {name}"), &differences), outcome)
    }

    /// The consumers of every stream that is of the plan and was there before.
    async fn list_consumers(
        &self,
        found: &BTreeMap<String, FoundStream>,
    ) -> Result<Consumers, BusError> {
        let mut there = Vec::new();
        for name in self.plan.streams.keys() {
            if found
                .get(name.as_str())
                .is_some_and(|stream| stream.state.consumer_count > 0)
            {
                there.push(name.clone());
            }
        }
        let api = self.api;
        stream::iter(there)
            .map(|name| async move {
                let consumers = api.consumers(&name).await?;
                Ok((name, consumers))
            })
            .buffered(STREAMS_IN_FLIGHT)
            .try_collect()
            .await
    }

    async fn bring_consumers(
        &mut self,
        streams: &BTreeMap<String, FoundStream>,
        found: &Consumers,
        memory: &mut Memory,
    ) -> Result<(), BusError> {
        let first = memory.plan.is_none();
        let by_name: BTreeMap<(&str, &str), &Fields> = found
            .iter()
            .flat_map(|(stream, consumers)| {
                consumers
                    .iter()
                    .map(|consumer| ((stream.as_str(), consumer.name.as_str()), &consumer.config))
            })
            .collect();
        let mut changes = Vec::new();
        for (consumer, spec) in &self.plan.consumers {
            let there = by_name.get(&(consumer.stream().as_str(), consumer.name()));
            let held = streams.get(consumer.stream().as_str());
            let held = held.map_or(0, |stream| stream.state.last_seq);
            let begins = || memory.places.begins(spec, first, held);
            match change(spec, there.copied(), begins) {
                Ok(Some(change)) => changes.push((consumer.clone(), change)),
                Ok(None) => {}
                Err(error) => self.refuse(error),
            }
        }
        let api = self.api;
        let outcomes: Vec<_> = stream::iter(changes)
            .map(|(consumer, change)| async move {
                let words = change.in_words(&consumer);
                let outcome = change.carry_out(api, &consumer).await;
                (consumer, words, outcome)
            })
            .buffer_unordered(WRITES_IN_FLIGHT)
            .collect()
            .await;
        let mut ends = None;
        for (consumer, words, outcome) in outcomes {
            let spec = self.plan.consumers.get(&consumer);
            if let (Some(spec), Ok(Some(stands))) = (spec, &outcome) {
                memory.places.stands(spec, *stands);
            }
            let noted = self.note(words, outcome.map(drop));
            ends = ends.or_else(|| noted.err());
        }
        if let Some(error) = ends {
            return Err(error);
        }
        Ok(())
    }

    /// Deletes consumers this controller derived before and no longer does, and lists those nobody derived.
    async fn remove_consumers(
        &mut self,
        memory: &Memory,
        found: &Consumers,
    ) -> Result<(), BusError> {
        for (stream, consumers) in found {
            for consumer in consumers {
                let Ok(name) = ConsumerRef::new(stream.clone(), consumer.name.clone()) else {
                    self.done
                        .strays
                        .push(format!("consumer {stream}/{}", consumer.name));
                    continue;
                };
                if self.plan.consumers.contains_key(&name) {
                    continue;
                }
                if memory.consumers.contains(&name) {
                    let outcome = self.api.delete_consumer(&name).await;
                    self.note(format!("consumer {name}: deleted"), outcome)?;
                } else {
                    self.done.strays.push(format!("consumer {name}"));
                }
            }
        }
        Ok(())
    }

    /// Deletes streams this controller derived before and no longer does, unless they hold something; lists the rest.
    async fn remove_streams(
        &mut self,
        memory: &Memory,
        found: &BTreeMap<String, FoundStream>,
    ) -> Result<(), BusError> {
        for (name, stream) in found {
            let held = stream.state.messages;
            let valid = StreamName::new(name.as_str());
            if valid
                .as_ref()
                .is_ok_and(|name| self.plan.streams.contains_key(name))
            {
                continue;
            }
            let ours = valid.ok().filter(|name| memory.streams.contains_key(name));
            match ours {
                Some(name) if held == 0 => {
                    let outcome = self.api.delete_stream(&name).await;
                    self.note(format!("stream {name}: deleted"), outcome)?;
                }
                _ => self
                    .done
                    .strays
                    .push(format!("stream {name} ({held} messages)")),
            }
        }
        Ok(())
    }

    /// From here on all of this is the mesh's own, even if the assertion ends before its end.
    fn own(&self, memory: &mut Memory) {
        memory.streams.extend(self.declared_streams());
        memory.consumers.extend(self.plan.consumers.keys().cloned());
    }

    /// What is no longer derived was deleted, or else it is a stray from now on: except what could not be deleted.
    fn remember(&self, memory: &mut Memory) {
        memory.streams = self.declared_streams().collect();
        if self.refused.is_none() {
            memory.consumers = self.plan.consumers.keys().cloned().collect();
        }
        memory.keep(self.plan);
        memory.plan = Some(self.plan.clone());
        memory.counts = BTreeMap::new();
        for consumer in self.plan.consumers.keys() {
            *memory.counts.entry(consumer.stream().clone()).or_default() += 1;
        }
    }

    fn declared_streams(&self) -> impl Iterator<Item = (StreamName, Fields)> {
        let streams = self.plan.streams.iter();
        streams.map(|(name, spec)| (name.clone(), stream_fields(spec, self.replicas)))
    }

    /// Takes down what was written, or the first refusal; what is only away ends the whole.
    fn note(&mut self, words: String, outcome: Result<(), BusError>) -> Result<(), BusError> {
        match outcome {
            Ok(()) => self.done.written.push(words),
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => self.refuse(error),
        }
        Ok(())
    }

    fn refuse(&mut self, error: BusError) {
        tracing::error!(%error, "a definition could not be brought to the plan");
        self.refused.get_or_insert(error);
    }
}

/// Makes those of these streams that are not there, and leaves those that are as they are.
pub(crate) async fn make_missing(
    api: &Api,
    replicas: u8,
    streams: &[StreamSpec],
) -> Result<(), BusError> {
    let found = api.streams().await?;
    let found: BTreeSet<&str> = found.iter().filter_map(FoundStream::name).collect();
    for spec in streams {
        if !found.contains(spec.name.as_str()) {
            let config = overlaid(&stream_fields(spec, replicas), None);
            api.create_stream(&spec.name, config).await?;
        }
    }
    Ok(())
}

const WRITES_IN_FLIGHT: usize = 16;
const STREAMS_IN_FLIGHT: usize = 4;
