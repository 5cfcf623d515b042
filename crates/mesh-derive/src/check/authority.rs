//! Every grant against everything that is somebody else's: where consumers deliver, how they are settled, inboxes.

use mesh_model::{BusFacts, ConsumerSpec, Filter, Grant, Principal};

use crate::ack::ack_filters;
use crate::check::Mismatch;
use crate::check::overlap::Meetings;
use crate::check::plan::{deliver, server_subjects};
use crate::plan::Plan;
use crate::subject;

impl Plan {
    pub(super) fn check_grants(&self, found: &mut Vec<Mismatch>) {
        for (principal, grant) in &self.grants {
            self.check_grant(principal, &self.entries(principal, grant), found);
        }
    }

    /// The entries to look at: of an instance those its module has not, since a mesh has a hundred instances of one.
    fn entries<'a>(&'a self, principal: &Principal, grant: &'a Grant) -> Entries<'a> {
        let module = match principal {
            Principal::Instance(of) => self.grants.get(&Principal::Module(of.module.clone())),
            _ => None,
        };
        let of_module = |filter: &Filter| {
            module.is_some_and(|module| subscriptions(module).any(|has| has == filter))
        };
        Entries {
            publish: grant
                .publish
                .iter()
                .filter(|filter| module.is_none_or(|module| !module.publish.contains(*filter)))
                .collect(),
            subscribe: subscriptions(grant)
                .filter(|filter| !of_module(filter))
                .collect(),
        }
    }

    fn check_grant(&self, principal: &Principal, entries: &Entries<'_>, found: &mut Vec<Mismatch>) {
        let subscribe = || entries.subscribe.iter().copied();
        let publish = || entries.publish.iter().copied();
        let ends_in_star = |filter: &&Filter| filter.tokens().last() == Some("*");
        for filter in subscribe().filter(ends_in_star) {
            found.push(Mismatch::SubscribeEndsInStar {
                principal: principal.clone(),
                filter: filter.clone(),
            });
        }
        if *principal == Principal::Controller {
            return;
        }
        let carried = |filter: &&Filter| !self.accounts.carries_to_mesh(filter);
        let heard = |filter: &&Filter| !self.accounts.carries_to_edge(filter);
        let nowhere = publish().filter(carried);
        for filter in nowhere.chain(subscribe().filter(heard)) {
            found.push(Mismatch::NoPath {
                principal: principal.clone(),
                filter: filter.clone(),
            });
        }
        let (identities, own) = (subject::identities(), subject::own(principal));
        for filter in publish() {
            let speaks = identities.iter().any(|of| of.overlaps(filter));
            if speaks && !own.iter().any(|own| filter.is_subset_of(own)) {
                found.push(Mismatch::SpeaksAsAnother {
                    principal: principal.clone(),
                    filter: filter.clone(),
                });
            }
        }
        let [api, system, ..] = server_subjects();
        for filter in publish().chain(subscribe()) {
            if filter.overlaps(&api) || filter.overlaps(&system) {
                found.push(Mismatch::ReachesServer {
                    principal: principal.clone(),
                    filter: filter.clone(),
                });
            }
        }
    }

    /// What is one principal's alone: where its consumers deliver, how they are settled, its inbox.
    pub(super) fn check_private(&self, bus: &BusFacts, found: &mut Vec<Mismatch>) {
        let delivers: Vec<(Filter, &ConsumerSpec)> = self
            .consumers
            .values()
            .filter_map(|spec| deliver(spec).map(|deliver| (Filter::from(deliver), spec)))
            .collect();
        let acks: Vec<(Filter, &ConsumerSpec)> = self
            .consumers
            .values()
            .flat_map(|spec| ack_filters(&spec.consumer, bus).map(|ack| (ack, spec)))
            .collect();
        let inboxes: Vec<(Filter, &Principal)> = self
            .grants
            .keys()
            .filter(|principal| !matches!(principal, Principal::Module(_)))
            .map(|principal| (subject::inbox(principal), principal))
            .collect();
        self.check_stored_delivers(&delivers, found);
        let delivers = Meetings::new(delivers.iter().map(|(filter, spec)| (filter, *spec)));
        let acks = Meetings::new(acks.iter().map(|(filter, spec)| (filter, *spec)));
        let inboxes = Meetings::new(inboxes.iter().map(|(filter, of)| (filter, *of)));
        for (principal, grant) in &self.grants {
            let entries = self.entries(principal, grant);
            for by in entries.publish {
                publishes_anothers(principal, by, &delivers, &acks, found);
                found.extend(
                    inboxes
                        .with(by)
                        .filter(|_| *principal != Principal::Controller)
                        .map(|(inbox, of)| Mismatch::AnswersAnothers {
                            principal: principal.clone(),
                            by: by.clone(),
                            inbox: inbox.clone(),
                            of: (*of).clone(),
                        }),
                );
            }
            for by in entries.subscribe {
                let mut hears = |met: &Filter, of: String| {
                    found.push(Mismatch::HearsAnothers {
                        principal: principal.clone(),
                        by: by.clone(),
                        met: met.clone(),
                        of,
                    });
                };
                for (met, spec) in delivers.with(by).filter(|(_, s)| !owns(principal, s)) {
                    hears(met, format!("consumer {}", spec.consumer));
                }
                for (met, of) in inboxes.with(by).filter(|(_, of)| **of != principal) {
                    hears(met, of.to_string());
                }
            }
        }
    }

    fn check_stored_delivers(
        &self,
        delivers: &[(Filter, &ConsumerSpec)],
        found: &mut Vec<Mismatch>,
    ) {
        let stored = Meetings::new(self.streams.values().flat_map(|stream| {
            let subjects = stream.subjects.iter();
            subjects.map(|subject| (subject, &stream.name))
        }));
        for (filter, spec) in delivers {
            for (_, stream) in stored.with(filter) {
                found.extend(deliver(spec).map(|deliver| Mismatch::DeliverStored {
                    consumer: spec.consumer.clone(),
                    deliver: deliver.clone(),
                    stream: (*stream).clone(),
                }));
            }
        }
    }
}

/// Both sides of a grant, in a group or not.
struct Entries<'a> {
    publish: Vec<&'a Filter>,
    subscribe: Vec<&'a Filter>,
}

fn publishes_anothers(
    principal: &Principal,
    by: &Filter,
    delivers: &Meetings<'_, &ConsumerSpec>,
    acks: &Meetings<'_, &ConsumerSpec>,
    found: &mut Vec<Mismatch>,
) {
    found.extend(
        delivers
            .with(by)
            .map(|(met, spec)| Mismatch::DeliverPublishable {
                principal: principal.clone(),
                by: by.clone(),
                consumer: spec.consumer.clone(),
                deliver: met.clone(),
            }),
    );
    let anothers = acks.with(by).filter(|(_, spec)| !owns(principal, spec));
    found.extend(anothers.map(|(ack, spec)| Mismatch::AcksAnothers {
        principal: principal.clone(),
        by: by.clone(),
        consumer: spec.consumer.clone(),
        ack: ack.clone(),
    }));
}

/// Whether a principal is a consumer's owner, or acts as the module that is.
fn owns(principal: &Principal, spec: &ConsumerSpec) -> bool {
    match (principal, &spec.owner) {
        (Principal::Instance(of), Some(Principal::Module(module))) => of.module == *module,
        (principal, owner) => Some(principal) == owner.as_ref(),
    }
}

fn subscriptions(grant: &Grant) -> impl Iterator<Item = &Filter> {
    let in_groups = grant.queues.iter().map(|allowed| &allowed.filter);
    grant.subscribe.iter().chain(in_groups)
}
