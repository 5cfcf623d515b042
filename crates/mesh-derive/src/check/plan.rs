//! A whole plan: every consumer against its owner's grant, every definition against all the others.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    BusFacts, ConsumerKind, ConsumerRef, ConsumerSpec, Filter, Principal, Retention, Selects,
    StreamName, StreamSpec, Subject,
};

use crate::ack::ack_filters;
use crate::check::overlap::Meetings;
use crate::check::{Mismatch, check};
use crate::plan::Plan;
use crate::subject::filter;

impl Plan {
    /// Everything in the plan that does not serve what it must serve, in a stable order; none when it may be applied.
    #[must_use]
    pub fn check(&self, bus: &BusFacts) -> Vec<Mismatch> {
        let mut found = Vec::new();
        self.check_streams(&mut found);
        for spec in self.consumers.values() {
            self.check_consumer(spec, bus, &mut found);
        }
        self.check_work_queues(&mut found);
        self.check_hearing(&mut found);
        self.check_users(&mut found);
        self.check_grants(&mut found);
        self.check_private(bus, &mut found);
        found.sort();
        found.dedup();
        found
    }

    fn check_streams(&self, found: &mut Vec<Mismatch>) {
        let mut counts: BTreeMap<&StreamName, usize> = BTreeMap::new();
        for consumer in self.consumers.keys() {
            *counts.entry(consumer.stream()).or_default() += 1;
        }
        let stored: Vec<(&Filter, &StreamName)> = self
            .streams
            .values()
            .flat_map(|stream| {
                stream
                    .subjects
                    .iter()
                    .map(|subject| (subject, &stream.name))
            })
            .collect();
        let meetings = Meetings::new(stored.iter().copied());
        for (subject, stream) in &stored {
            let others = meetings.with(subject);
            found.extend(
                others
                    .filter(|(met, with)| (*stream, *subject) < (**with, *met))
                    .map(|(met, with)| Mismatch::StreamsOverlap {
                        stream: (*stream).clone(),
                        subject: (*subject).clone(),
                        with: (*with).clone(),
                        met: met.clone(),
                    }),
            );
            if server_subjects().iter().any(|own| own.overlaps(subject)) {
                found.push(Mismatch::StoresServer {
                    stream: (*stream).clone(),
                    subject: (*subject).clone(),
                });
            }
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

    fn check_consumer(&self, spec: &ConsumerSpec, bus: &BusFacts, found: &mut Vec<Mismatch>) {
        let consumer = &spec.consumer;
        let Some(stream) = self.streams.get(consumer.stream()) else {
            found.push(Mismatch::NoStream {
                consumer: consumer.clone(),
            });
            return;
        };
        let outside = |filter: &&Filter| !stream.subjects.iter().any(|s| filter.is_subset_of(s));
        for filter in spec.selects.filters().filter(outside) {
            found.push(Mismatch::FilterOutsideStream {
                consumer: consumer.clone(),
                filter: filter.clone(),
            });
        }
        // A server refuses one filter inside another of the same consumer.
        let filters: Vec<&Filter> = spec.selects.filters().collect();
        let meetings = Meetings::new(filters.iter().map(|filter| (*filter, ())));
        for filter in filters {
            for (met, ()) in meetings.with(filter) {
                if filter != met && filter.is_subset_of(met) {
                    found.push(overlapping(consumer, filter, consumer, met));
                }
            }
        }
        let Some(owner) = &spec.owner else { return };
        let Some(grant) = self.grants.get(owner) else {
            found.push(Mismatch::NoGrant {
                principal: owner.clone(),
            });
            return;
        };
        found.extend(check(spec, grant, bus).err());
        self.check_reads(spec, stream, owner, found);
        self.check_paths(spec, owner, bus, found);
    }

    /// What is selected is what was declared for the owner to hear.
    fn check_reads(
        &self,
        spec: &ConsumerSpec,
        stream: &StreamSpec,
        owner: &Principal,
        found: &mut Vec<Mismatch>,
    ) {
        let reads = self.reads.get(owner);
        for filter in selected(spec, stream) {
            if !reads.is_some_and(|reads| {
                reads.contains(filter) || reads.iter().any(|may| filter.is_subset_of(may))
            }) {
                found.push(Mismatch::ReadsAnothers {
                    consumer: spec.consumer.clone(),
                    owner: owner.clone(),
                    filter: filter.clone(),
                });
            }
        }
    }

    /// Everybody but the controller lives in the other account.
    fn check_paths(
        &self,
        spec: &ConsumerSpec,
        owner: &Principal,
        bus: &BusFacts,
        found: &mut Vec<Mismatch>,
    ) {
        if *owner == Principal::Controller {
            return;
        }
        for ack in ack_filters(&spec.consumer, bus) {
            if !self.accounts.carries_to_mesh(&ack) {
                found.push(Mismatch::NoAckPath {
                    consumer: spec.consumer.clone(),
                    ack,
                });
            }
        }
        if let Some(deliver) = deliver(spec)
            && !self.accounts.carries_to_edge(&deliver.into())
        {
            found.push(Mismatch::NoDeliverPath {
                consumer: spec.consumer.clone(),
                deliver: deliver.clone(),
            });
        }
    }

    /// On a work queue each message has one reader, whatever is selected.
    fn check_work_queues(&self, found: &mut Vec<Mismatch>) {
        let mut readers: BTreeMap<&StreamName, Vec<(&Filter, &ConsumerRef)>> = BTreeMap::new();
        for spec in self.consumers.values() {
            if let Some(stream) = self.streams.get(spec.consumer.stream())
                && stream.retention == Retention::WorkQueue
            {
                let selected = selected(spec, stream).map(|filter| (filter, &spec.consumer));
                readers.entry(&stream.name).or_default().extend(selected);
            }
        }
        for readers in readers.values() {
            let meetings = Meetings::new(readers.iter().copied());
            for (filter, consumer) in readers {
                for (met, with) in meetings.with(filter).filter(|(_, with)| *consumer < **with) {
                    found.push(overlapping(consumer, filter, with, met));
                }
            }
        }
    }

    /// What was declared for somebody to hear is selected by a consumer of theirs.
    fn check_hearing(&self, found: &mut Vec<Mismatch>) {
        let mut hears: BTreeMap<&Principal, Vec<&Filter>> = BTreeMap::new();
        for spec in self.consumers.values() {
            if let Some(owner) = &spec.owner
                && let Some(stream) = self.streams.get(spec.consumer.stream())
            {
                hears
                    .entry(owner)
                    .or_default()
                    .extend(selected(spec, stream));
            }
        }
        for (owner, reads) in &self.reads {
            let hears = Meetings::new(hears.remove(owner).into_iter().flatten().map(|f| (f, ())));
            for filter in reads {
                if !hears.with(filter).any(|(met, ())| filter.is_subset_of(met)) {
                    found.push(Mismatch::NeverHears {
                        owner: owner.clone(),
                        filter: filter.clone(),
                    });
                }
            }
        }
    }

    fn check_users(&self, found: &mut Vec<Mismatch>) {
        let keyed: BTreeSet<&Principal> = self.users.values().collect();
        for principal in keyed.iter().filter(|p| !self.grants.contains_key(**p)) {
            found.push(Mismatch::NoGrant {
                principal: (*principal).clone(),
            });
        }
        for principal in self.grants.keys().filter(|p| !keyed.contains(p)) {
            // A module is many credentials, and the controller's own key is no record.
            if !matches!(principal, Principal::Controller | Principal::Module(_)) {
                found.push(Mismatch::NoUser {
                    principal: principal.clone(),
                });
            }
        }
    }
}

fn overlapping(
    consumer: &ConsumerRef,
    filter: &Filter,
    with: &ConsumerRef,
    met: &Filter,
) -> Mismatch {
    Mismatch::OverlappingFilters {
        consumer: consumer.clone(),
        filter: filter.clone(),
        with: with.clone(),
        met: met.clone(),
    }
}

fn selected<'a>(
    spec: &'a ConsumerSpec,
    stream: &'a StreamSpec,
) -> impl Iterator<Item = &'a Filter> {
    match &spec.selects {
        Selects::Everything => stream.subjects.iter(),
        Selects::Only(filters) => filters.iter(),
    }
}

pub(super) fn deliver(spec: &ConsumerSpec) -> Option<&Subject> {
    match &spec.kind {
        ConsumerKind::Push { deliver, .. } => Some(deliver),
        ConsumerKind::Pull => None,
    }
}

/// The API, the system account's, and what a stream may not store besides.
pub(super) fn server_subjects() -> [Filter; 3] {
    ["$JS.API.>", "$SYS.>", "$JS.>"].map(|text| filter(text.to_owned()))
}
