//! Every grant against everything that is somebody else's: where consumers deliver, how they are settled, inboxes.

use mesh_model::{ConsumerRef, ConsumerSpec, Filter, Principal, StreamName};

use crate::ack::Acks;
use crate::check::Mismatch;
use crate::check::overlap::Meetings;
use crate::check::plan::deliver;
use crate::check::writes::Hearers;
use crate::plan::Plan;
use crate::subject;

/// What is one principal's alone.
enum Private<'a> {
    /// Where a consumer delivers.
    Deliver(&'a ConsumerSpec),
    /// How it is settled, in one of the two forms.
    Ack(&'a ConsumerSpec),
    /// Where somebody is answered.
    Inbox(&'a Principal),
}

/// Whose authority is looked at.
struct Who<'a> {
    principal: &'a Principal,
    /// Whether it reads for modules and holders whose bus is the other of two, and settles that.
    carries: bool,
}

impl Plan {
    pub(super) fn check_private(&self, acks: &Acks, found: &mut Vec<Mismatch>) {
        let private = self.private(acks);
        let own = Own::of(self, acks);
        let hearers = Hearers::of(self);
        self.each_grant(&mut |entries| {
            let principal = entries.principal;
            let who = Who {
                principal,
                carries: self.is_part() && *principal == Principal::Controller,
            };
            for by in entries.publish().filter(|by| !own.settles(principal, by)) {
                let mut settles = false;
                private.with(by, &mut |met| {
                    settles |= matches!(met, Private::Ack(_));
                    publishes(&who, by, met, acks, found);
                });
                if !settles {
                    found.extend(hearers.leads_nowhere(principal, by));
                }
            }
            for by in entries.subscribe().filter(|by| !own.hears(principal, by)) {
                let mut meets = false;
                private.with(by, &mut |met| {
                    meets |= matches!(met, Private::Deliver(_) | Private::Inbox(_));
                    hears(&who, by, met, found);
                });
                if !meets {
                    found.extend(hearers.hears_nothing(principal, by));
                }
            }
        });
    }

    fn private<'a>(&'a self, acks: &'a Acks) -> Meetings<'a, Private<'a>> {
        let mut private = Meetings::new();
        let specs = || self.consumers.values();
        for (deliver, spec) in specs().filter_map(|spec| Some((deliver(spec)?, spec))) {
            private.insert(deliver.tokens(), Private::Deliver(spec));
        }
        for spec in specs() {
            private.insert(acks.tokens(&spec.consumer).0, Private::Ack(spec));
        }
        for spec in specs() {
            private.insert(acks.tokens(&spec.consumer).1, Private::Ack(spec));
        }
        for principal in self.grants.keys() {
            if !matches!(principal, Principal::Module(_)) {
                private.insert(subject::inbox_tokens(principal), Private::Inbox(principal));
            }
        }
        private
    }
}

fn publishes(
    who: &Who<'_>,
    by: &Filter,
    met: &Private<'_>,
    acks: &Acks,
    found: &mut Vec<Mismatch>,
) {
    let (principal, by) = (who.principal.clone(), by.clone());
    match met {
        Private::Deliver(spec) => {
            let deliver = deliver(spec).map(Filter::from);
            found.extend(deliver.map(|deliver| Mismatch::DeliverPublishable {
                principal,
                by,
                consumer: spec.consumer.clone(),
                deliver,
            }));
        }
        Private::Ack(spec) if !who.carries && !who.owns(spec) => {
            let met = acks.filters(&spec.consumer);
            let met = met.into_iter().filter(|ack| ack.overlaps(&by));
            found.extend(met.map(|ack| Mismatch::AcksAnothers {
                principal: principal.clone(),
                by: by.clone(),
                consumer: spec.consumer.clone(),
                ack,
            }));
        }
        Private::Inbox(of) if principal != Principal::Controller => {
            found.push(Mismatch::AnswersAnothers {
                principal,
                by,
                inbox: subject::inbox(of),
                of: (*of).clone(),
            });
        }
        Private::Ack(_) | Private::Inbox(_) => {}
    }
}

fn hears(who: &Who<'_>, by: &Filter, met: &Private<'_>, found: &mut Vec<Mismatch>) {
    let (met, of) = match met {
        Private::Deliver(spec) if !who.carries_from(spec) && !who.owns(spec) => {
            let deliver = deliver(spec).map(Filter::from);
            (deliver, format!("consumer {}", spec.consumer))
        }
        Private::Inbox(of) if *of != who.principal => (Some(subject::inbox(of)), of.to_string()),
        _ => return,
    };
    found.extend(met.map(|met| Mismatch::HearsAnothers {
        principal: who.principal.clone(),
        by: by.clone(),
        met,
        of,
    }));
}

impl Who<'_> {
    /// Whether it is a consumer's owner, or acts as the module that is.
    fn owns(&self, spec: &ConsumerSpec) -> bool {
        match (self.principal, &spec.owner) {
            (Principal::Instance(of), Some(Principal::Module(module))) => of.module == *module,
            (principal, owner) => Some(principal) == owner.as_ref(),
        }
    }

    /// Whether it may be what is carried: what no node reads.
    fn carries_from(&self, spec: &ConsumerSpec) -> bool {
        self.carries && !matches!(spec.owner, Some(Principal::Node(_)))
    }
}

/// What nodes have of their own, where nothing of it can be another's: most of a mesh, and so not looked for among all.
struct Own<'a> {
    /// Whether each node has one consumer, which is its own, delivers where it alone listens, and no two forms of ack meet.
    regular: bool,
    acks: &'a Acks,
    nodes: StreamName,
}

impl<'a> Own<'a> {
    fn of(plan: &Plan, acks: &'a Acks) -> Self {
        let nodes = subject::nodes_stream();
        let delivered = subject::delivered();
        let as_derived = |(name, spec): (&ConsumerRef, &ConsumerSpec)| {
            let deliver = deliver(spec);
            let to_node = deliver.and_then(|deliver| subject::delivered_to(deliver.as_str()));
            let right = if let Some(Principal::Node(node)) = &spec.owner {
                let node = Some(node.as_str());
                *name.stream() == nodes && Some(name.name()) == node && to_node == node
            } else {
                let below = deliver.is_none_or(|deliver| delivered.matches(deliver));
                *name.stream() != nodes && to_node.is_none() && below
            };
            right && *name == spec.consumer && !acks.may_read_as_newer(name)
        };
        let owners = plan
            .consumers
            .values()
            .filter_map(|spec| match &spec.owner {
                Some(Principal::Node(node)) => Some(node),
                _ => None,
            });
        let granted = plan.grants.keys().filter_map(|principal| match principal {
            Principal::Node(node) => Some(node),
            _ => None,
        });
        Self {
            regular: plan.consumers.iter().all(as_derived) && owners.eq(granted),
            acks,
            nodes,
        }
    }

    /// Whether this is how a node settles what its own consumer delivers. Publishing is for nothing else of one's own.
    fn settles(&self, principal: &Principal, by: &Filter) -> bool {
        let Principal::Node(node) = principal else {
            return false;
        };
        let (older, newer) = self.acks.of_named(&self.nodes, node.as_str());
        self.regular
            && (subject::is_spelled(by.as_str(), older) || subject::is_spelled(by.as_str(), newer))
    }

    /// Whether this is where a node's own consumer delivers, or an inbox of the principal's own.
    fn hears(&self, principal: &Principal, by: &Filter) -> bool {
        let delivers = match principal {
            Principal::Node(node) => subject::delivered_to(by.as_str()) == Some(node.as_str()),
            Principal::Instance(_) => false,
            _ => return false,
        };
        self.regular
            && (delivers || subject::is_spelled(by.as_str(), subject::inbox_tokens(principal)))
    }
}
