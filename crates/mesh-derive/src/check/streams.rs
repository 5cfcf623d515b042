//! Streams against one another and against their consumers.

use std::collections::BTreeMap;

use mesh_model::{ConsumerRef, ConsumerSpec, DeliverPolicy, Filter, Retention, StreamName};

use crate::check::overlap::Meetings;
use crate::check::plan::{deliver, selected, server_subjects};
use crate::check::{DefinitionFault, Mismatch};
use crate::plan::Plan;

impl Plan {
    pub(super) fn check_streams(&self, found: &mut Vec<Mismatch>) {
        let stored = self.stored();
        let server = server_subjects();
        for (subject, stream) in self.subjects() {
            stored.with(subject, &mut |(met, with)| {
                if (stream, subject) < (*with, *met) {
                    found.push(Mismatch::StreamsOverlap {
                        stream: stream.clone(),
                        subject: subject.clone(),
                        with: (*with).clone(),
                        met: (*met).clone(),
                    });
                }
            });
            if matches!(subject.tokens().next(), Some("*" | ">")) {
                found.push(Mismatch::Definition(DefinitionFault::LeadingWildcard {
                    stream: stream.clone(),
                    subject: subject.clone(),
                }));
            }
            if server.iter().any(|own| own.overlaps(subject)) {
                found.push(Mismatch::StoresServer {
                    stream: stream.clone(),
                    subject: subject.clone(),
                });
            }
        }
        for spec in self.consumers.values() {
            let Some(deliver) = deliver(spec) else {
                continue;
            };
            stored.with(&deliver.into(), &mut |(_, stream)| {
                found.push(Mismatch::DeliverStored {
                    consumer: spec.consumer.clone(),
                    deliver: deliver.clone(),
                    stream: (*stream).clone(),
                });
            });
        }
        self.check_counts(found);
    }

    fn check_counts(&self, found: &mut Vec<Mismatch>) {
        let mut counts: BTreeMap<&StreamName, usize> = BTreeMap::new();
        for consumer in self.consumers.keys() {
            *counts.entry(consumer.stream()).or_default() += 1;
        }
        for (stream, count) in counts {
            let limit = self.streams.get(stream).map(|spec| spec.max_consumers);
            if let Some(limit) = limit
                && count > usize::try_from(limit).unwrap_or(usize::MAX)
            {
                found.push(Mismatch::TooManyConsumers {
                    stream: stream.clone(),
                    count,
                    limit,
                });
            }
        }
    }

    /// On a work queue each message has one reader, whatever is selected, and that one reads from the first.
    pub(super) fn check_work_queues(&self, found: &mut Vec<Mismatch>) {
        let mut readers: BTreeMap<&StreamName, Vec<(&Filter, &ConsumerRef)>> = BTreeMap::new();
        for spec in self.consumers.values() {
            if let Some(stream) = self.streams.get(spec.consumer.stream())
                && stream.retention == Retention::WorkQueue
            {
                found.extend(not_from_the_first(spec));
                let selected = selected(spec, stream).map(|filter| (filter, &spec.consumer));
                readers.entry(&stream.name).or_default().extend(selected);
            }
        }
        for readers in readers.values().filter(|readers| readers.len() > 1) {
            two_readers(readers, found);
        }
    }

    /// What the streams store.
    pub(super) fn stored(&self) -> Meetings<'_, (&Filter, &StreamName)> {
        Meetings::of(
            self.subjects()
                .map(|(subject, of)| (subject, (subject, of))),
        )
    }

    fn subjects(&self) -> impl Iterator<Item = (&Filter, &StreamName)> {
        self.streams.values().flat_map(|stream| {
            let subjects = stream.subjects.iter();
            subjects.map(|subject| (subject, &stream.name))
        })
    }
}

/// A server refuses any other start there (10101).
fn not_from_the_first(spec: &ConsumerSpec) -> Option<Mismatch> {
    (spec.deliver_policy != DeliverPolicy::All).then(|| {
        Mismatch::Definition(DefinitionFault::NotFromTheFirst {
            consumer: spec.consumer.clone(),
        })
    })
}

fn two_readers(readers: &[(&Filter, &ConsumerRef)], found: &mut Vec<Mismatch>) {
    let meetings = Meetings::of(readers.iter().map(|reader| (reader.0, reader)));
    for (filter, consumer) in readers {
        meetings.with(filter, &mut |(met, with)| {
            if consumer < with {
                found.push(Mismatch::OverlappingFilters {
                    consumer: (*consumer).clone(),
                    filter: (*filter).clone(),
                    with: (*with).clone(),
                    met: (*met).clone(),
                });
            }
        });
    }
}
