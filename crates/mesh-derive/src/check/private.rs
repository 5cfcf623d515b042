//! Every grant against everything that is somebody else's: where consumers deliver, how they are settled, inboxes.

use mesh_model::{ConsumerSpec, Filter, Principal, Subject};

use crate::ack::Acks;
use crate::check::Mismatch;
use crate::check::overlap::Meetings;
use crate::check::plan::deliver;
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

impl Plan {
    pub(super) fn check_private(&self, acks: &Acks, found: &mut Vec<Mismatch>) {
        let private = self.private(acks);
        let own = Own::of(self, acks);
        self.each_grant(&mut |entries| {
            let principal = entries.principal;
            let others = |by: &&Filter| !own.has(principal, by);
            for by in entries.publish().filter(others) {
                private.with(by, &mut |met| publishes(principal, by, met, acks, found));
            }
            for by in entries.subscribe().filter(others) {
                private.with(by, &mut |met| hears(principal, by, met, found));
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
    principal: &Principal,
    by: &Filter,
    met: &Private<'_>,
    acks: &Acks,
    found: &mut Vec<Mismatch>,
) {
    let (principal, by) = (principal.clone(), by.clone());
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
        Private::Ack(spec) if !owns(&principal, spec) => {
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

fn hears(principal: &Principal, by: &Filter, met: &Private<'_>, found: &mut Vec<Mismatch>) {
    let (met, of) = match met {
        Private::Deliver(spec) if !owns(principal, spec) => {
            let deliver = deliver(spec).map(Filter::from);
            (deliver, format!("consumer {}", spec.consumer))
        }
        Private::Inbox(of) if *of != principal => (Some(subject::inbox(of)), of.to_string()),
        _ => return,
    };
    found.extend(met.map(|met| Mismatch::HearsAnothers {
        principal: principal.clone(),
        by: by.clone(),
        met,
        of,
    }));
}

/// Whether a principal is a consumer's owner, or acts as the module that is.
fn owns(principal: &Principal, spec: &ConsumerSpec) -> bool {
    match (principal, &spec.owner) {
        (Principal::Instance(of), Some(Principal::Module(module))) => of.module == *module,
        (principal, owner) => Some(principal) == owner.as_ref(),
    }
}

/// What nodes have of their own, where nothing of it can be another's: most of a mesh, and so not looked for among all.
struct Own {
    /// Whether each consumer of a node is its own, delivers where it alone listens, and no two forms of ack meet.
    regular: bool,
    /// How the newer form of ack of a node's consumer begins.
    newer: String,
}

impl Own {
    fn of(plan: &Plan, acks: &Acks) -> Self {
        let nodes = subject::nodes_stream();
        let regular = plan.consumers.iter().all(|(name, spec)| {
            let deliver = deliver(spec).map(Subject::as_str);
            let node = match &spec.owner {
                Some(Principal::Node(node)) if *name.stream() == nodes => Some(node),
                _ => None,
            };
            let as_derived = match (node, deliver) {
                (Some(node), Some(deliver)) => {
                    name.name() == node.as_str()
                        && deliver.strip_prefix(DELIVERS) == Some(node.as_str())
                }
                (Some(_), None) => false,
                (None, deliver) => {
                    let aside = |deliver: &str| {
                        !deliver.starts_with(DELIVERS) && deliver.starts_with("mesh.deliver.")
                    };
                    *name.stream() != nodes && deliver.is_none_or(aside)
                }
            };
            as_derived && *name == spec.consumer && !acks.may_read_as_newer(name)
        });
        Self {
            regular,
            newer: acks.newer_beginning(&nodes),
        }
    }

    /// Whether this is where a node's own consumer delivers, how it is settled, or an inbox of the principal's own.
    fn has(&self, principal: &Principal, by: &Filter) -> bool {
        let text = by.as_str();
        let within = |begins: &str, name: &str| {
            let rest = text.strip_prefix(begins);
            rest.and_then(|rest| rest.strip_suffix(".>")) == Some(name)
        };
        self.regular
            && match principal {
                Principal::Node(node) => {
                    let node = node.as_str();
                    within("$JS.ACK.NODES.", node)
                        || within(&self.newer, node)
                        || within("mesh.inbox.node.", node)
                        || text.strip_prefix(DELIVERS) == Some(node)
                }
                Principal::Instance(of) => {
                    let rest = text.strip_prefix("mesh.inbox.module.");
                    let rest = rest.and_then(|rest| rest.strip_prefix(of.module.as_str()));
                    let rest = rest.and_then(|rest| rest.strip_prefix('.'));
                    rest.and_then(|rest| rest.strip_suffix(".>")) == Some(of.node.as_str())
                }
                _ => false,
            }
    }
}

/// How the subject begins where a node's consumer delivers.
const DELIVERS: &str = "mesh.deliver.node.";
