//! A whole plan: every consumer against its owner's grant, every definition against all the others.

use mesh_model::{
    Allow, BusFacts, ConsumerKind, ConsumerSpec, Filter, Principal, Selects, StreamSpec, Subject,
};

use crate::ack::Acks;
use crate::check::Mismatch;
use crate::check::consumer::{invalid_domain, mismatch};
use crate::check::overlap::Meetings;
use crate::check::sharing::Carried;
use crate::plan::Plan;
use crate::subject::filter;

impl Plan {
    /// Everything in the plan that does not serve what it must serve, in a stable order; none when it may be applied.
    #[must_use]
    pub fn check(&self, bus: &BusFacts) -> Vec<Mismatch> {
        let mut found = Vec::new();
        let acks = Acks::of(bus);
        let carried = Carried::by(&self.accounts);
        found.extend(invalid_domain(bus));
        self.check_sharing(&mut found);
        self.check_streams(&mut found);
        self.check_work_queues(&mut found);
        self.check_consumers(&acks, &carried, &mut found);
        self.check_definitions(&mut found);
        self.check_users(&mut found);
        self.check_grants(bus, &carried, &mut found);
        self.check_private(&acks, &mut found);
        self.check_writes(&mut found);
        self.check_limits(bus, &mut found);
        found.sort();
        found.dedup();
        found
    }

    /// Each consumer against the grant of its owner and what the owner is to read, and the other way about. A mesh has as
    /// many of each, so they are gone through side by side.
    fn check_consumers(&self, acks: &Acks, carried: &Carried<'_>, found: &mut Vec<Mismatch>) {
        let mut owned = self.owned(found);
        owned.sort_by_key(|reader| reader.owner);
        let mut grants = self.grants.iter().peekable();
        let mut ack = String::new();
        for Reader {
            owner,
            spec,
            stream: _,
        } in &owned
        {
            while grants.next_if(|(principal, _)| principal < owner).is_some() {}
            let Some((_, grant)) = grants.peek().filter(|(principal, _)| principal == owner) else {
                found.push(Mismatch::NoGrant {
                    principal: (*owner).clone(),
                });
                continue;
            };
            found.extend(mismatch(spec, grant, acks, &mut ack));
            check_paths(spec, owner, acks, carried, found);
        }
        self.check_reads(&owned, found);
    }

    /// The consumers that somebody owns, each with its stream.
    fn owned(&self, found: &mut Vec<Mismatch>) -> Vec<Reader<'_>> {
        let mut owned = Vec::new();
        let mut last: Option<&StreamSpec> = None;
        for spec in self.consumers.values() {
            let name = spec.consumer.stream();
            last = last
                .filter(|stream| stream.name == *name)
                .or_else(|| self.streams.get(name));
            let Some(stream) = last else {
                found.push(Mismatch::NoStream {
                    consumer: spec.consumer.clone(),
                });
                continue;
            };
            check_filters(spec, stream, found);
            owned.extend(spec.owner.as_ref().map(|owner| Reader {
                owner,
                spec,
                stream,
            }));
        }
        owned
    }

    /// What is selected is what was declared for the owner to hear, and all of that is selected.
    fn check_reads(&self, owned: &[Reader<'_>], found: &mut Vec<Mismatch>) {
        let mut left = owned;
        for (owner, reads) in &self.reads {
            left = unread(left, |reader| reader < owner, found);
            let theirs = left.iter().take_while(|reader| reader.owner == owner);
            let (theirs, later) = left.split_at(theirs.count());
            left = later;
            for reader in theirs {
                reads_anothers(reader, Some(reads), found);
            }
            for filter in reads {
                if !theirs.iter().any(|reader| reader.hears(filter)) {
                    found.push(Mismatch::NeverHears {
                        owner: owner.clone(),
                        filter: filter.clone(),
                    });
                }
            }
        }
        unread(left, |_| true, found);
    }

    /// Both sides in the same order, gone through once.
    fn check_users(&self, found: &mut Vec<Mismatch>) {
        let mut keyed: Vec<&Principal> = self.users.values().collect();
        keyed.sort_unstable();
        keyed.dedup();
        let mut keyed = keyed.into_iter().peekable();
        let no_grant = |principal: &Principal| Mismatch::NoGrant {
            principal: principal.clone(),
        };
        for granted in self.grants.keys() {
            while let Some(principal) = keyed.next_if(|principal| *principal < granted) {
                found.push(no_grant(principal));
            }
            let has_key = keyed.next_if_eq(&granted).is_some();
            // A module is many credentials, and the controller's own key is no record.
            if !has_key && !matches!(granted, Principal::Controller | Principal::Module(_)) {
                found.push(Mismatch::NoUser {
                    principal: granted.clone(),
                });
            }
        }
        found.extend(keyed.map(no_grant));
    }
}

/// A consumer that somebody reads through.
struct Reader<'a> {
    owner: &'a Principal,
    spec: &'a ConsumerSpec,
    stream: &'a StreamSpec,
}

impl Reader<'_> {
    /// Whether it selects everything that passes `filter`.
    fn hears(&self, filter: &Filter) -> bool {
        let inside = |selected: &Filter| filter.is_subset_of(selected);
        match &self.spec.selects {
            Selects::Everything => self.stream.subjects.iter().any(inside),
            Selects::Only(filters) => filters.contains(filter) || filters.iter().any(inside),
        }
    }
}

/// Leaves out the readers of those who are to read nothing.
fn unread<'r, 'a>(
    left: &'r [Reader<'a>],
    nothing: impl Fn(&Principal) -> bool,
    found: &mut Vec<Mismatch>,
) -> &'r [Reader<'a>] {
    let none = left.iter().take_while(|reader| nothing(reader.owner));
    let (none, later) = left.split_at(none.count());
    for reader in none {
        reads_anothers(reader, None, found);
    }
    later
}

fn reads_anothers(reader: &Reader<'_>, reads: Option<&Allow>, found: &mut Vec<Mismatch>) {
    for filter in selected(reader.spec, reader.stream) {
        if !reads.is_some_and(|reads| {
            reads.contains(filter) || reads.iter().any(|may| filter.is_subset_of(may))
        }) {
            found.push(Mismatch::ReadsAnothers {
                consumer: reader.spec.consumer.clone(),
                owner: reader.owner.clone(),
                filter: filter.clone(),
            });
        }
    }
}

/// What is selected lies inside the stream, and a server refuses one filter inside another of the same consumer.
fn check_filters(spec: &ConsumerSpec, stream: &StreamSpec, found: &mut Vec<Mismatch>) {
    let consumer = &spec.consumer;
    for filter in spec.selects.filters() {
        if stream.subjects.iter().any(|s| filter.is_subset_of(s)) {
            continue;
        }
        let meets = stream.subjects.iter().any(|s| filter.overlaps(s));
        let (consumer, filter) = (consumer.clone(), filter.clone());
        found.push(if meets {
            Mismatch::FilterReachesOutside { consumer, filter }
        } else {
            Mismatch::FilterOutsideStream { consumer, filter }
        });
    }
    let Selects::Only(filters) = &spec.selects else {
        return;
    };
    if filters.len() < 2 {
        return;
    }
    let meetings = Meetings::of(filters.iter().map(|filter| (filter, filter)));
    for filter in filters {
        meetings.with(filter, &mut |met| {
            if filter != *met && filter.is_subset_of(met) {
                found.push(Mismatch::OverlappingFilters {
                    consumer: consumer.clone(),
                    filter: filter.clone(),
                    with: consumer.clone(),
                    met: (*met).clone(),
                });
            }
        });
    }
}

/// Everybody but the controller lives in the other account.
fn check_paths(
    spec: &ConsumerSpec,
    owner: &Principal,
    acks: &Acks,
    carried: &Carried<'_>,
    found: &mut Vec<Mismatch>,
) {
    if *owner == Principal::Controller {
        return;
    }
    if !carried.acks {
        for ack in acks.filters(&spec.consumer) {
            if !carried.to_mesh(&ack) {
                found.push(Mismatch::NoAckPath {
                    consumer: spec.consumer.clone(),
                    ack,
                });
            }
        }
    }
    if let Some(deliver) = deliver(spec)
        && !carried.to_edge(&deliver.into())
    {
        found.push(Mismatch::NoDeliverPath {
            consumer: spec.consumer.clone(),
            deliver: deliver.clone(),
        });
    }
}

pub(super) fn selected<'a>(
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

/// What is a server's own, or would be an inbox of whoever chose none.
pub(super) fn server_subjects() -> [Filter; 3] {
    ["$JS.>", "$SYS.>", "_INBOX.>"].map(|text| filter(text.to_owned()))
}
