//! Every grant against what its owner always does, and each entry against whoever hears it.

use mesh_model::{Allow, Filter, Grant, InstanceRef, Principal, StreamName};

use crate::ack::is_ack;
use crate::check::authority::Entries;
use crate::check::overlap::Meetings;
use crate::check::{GrantFault, Mismatch};
use crate::derive::announced;
use crate::plan::Plan;
use crate::subject;

impl Plan {
    /// Nobody lacks what it always does. The controller's authority is a constant and looked at by itself; what a module
    /// emits and sends is not in a plan, but for what every module emits.
    pub(super) fn check_writes(&self, found: &mut Vec<Mismatch>) {
        self.each_grant(&mut |entries| match entries.principal {
            Principal::Controller => {}
            Principal::Node(_) | Principal::Joiner(_) => {
                says_its_own(entries, found);
                no_inbox(entries, found);
            }
            Principal::Module(module) => {
                let always = subject::event(&announced(module));
                cannot_say(entries, always.into(), found);
            }
            Principal::Instance(of) => {
                no_inbox(entries, found);
                as_its_module(entries, of, found);
            }
        });
    }
}

fn says_its_own(entries: &Entries<'_>, found: &mut Vec<Mismatch>) {
    let (principal, publish) = (entries.principal, &entries.grant.publish);
    let listed = subject::own_tokens(principal).all(|own| {
        publish
            .iter()
            .any(|by| subject::is_spelled(by.as_str(), own.clone()))
    });
    if listed {
        return;
    }
    for own in subject::own(principal) {
        cannot_say(entries, own, found);
    }
}

fn cannot_say(entries: &Entries<'_>, always: Filter, found: &mut Vec<Mismatch>) {
    if !covers(&entries.grant.publish, &always) {
        found.push(Mismatch::Grant(GrantFault::CannotSay {
            principal: entries.principal.clone(),
            filter: always,
        }));
    }
}

fn no_inbox(entries: &Entries<'_>, found: &mut Vec<Mismatch>) {
    let (principal, subscribe) = (entries.principal, &entries.grant.subscribe);
    let is_inbox = |by: &Filter| subject::is_spelled(by.as_str(), subject::inbox_tokens(principal));
    if subscribe.iter().any(is_inbox) {
        return;
    }
    let filter = subject::inbox(principal);
    if !covers(subscribe, &filter) {
        found.push(Mismatch::Grant(GrantFault::NoInbox {
            principal: principal.clone(),
            filter,
        }));
    }
}

fn covers(allow: &Allow, filter: &Filter) -> bool {
    allow.iter().any(|by| filter.is_subset_of(by))
}

/// An instance has what its module has, and an inbox.
fn as_its_module(entries: &Entries<'_>, of: &InstanceRef, found: &mut Vec<Mismatch>) {
    let principal = entries.principal;
    let Some(module) = entries.module else {
        found.push(Mismatch::NoGrant {
            principal: Principal::Module(of.module.clone()),
        });
        return;
    };
    let mut fault = |filter: &Filter, more: bool| {
        let (principal, module) = (principal.clone(), of.module.clone());
        let filter = filter.clone();
        found.push(Mismatch::Grant(if more {
            GrantFault::MoreThanModule {
                principal,
                module,
                filter,
            }
        } else {
            GrantFault::LessThanModule {
                principal,
                module,
                filter,
            }
        }));
    };
    missing(module, entries.grant).for_each(|filter| fault(filter, false));
    let inbox = |by: &&Filter| subject::is_spelled(by.as_str(), subject::inbox_tokens(principal));
    let more = entries.subscribe().filter(|by| !inbox(by));
    let more = entries.publish().chain(more);
    more.for_each(|filter| fault(filter, true));
}

/// What one grant has and another has not.
fn missing<'a>(has: &'a Grant, lacks: &'a Grant) -> impl Iterator<Item = &'a Filter> {
    let publish = (has.publish != lacks.publish).then_some(&has.publish);
    let publish = publish.into_iter().flatten();
    let subscribe = has.subscribe.iter();
    let queues = (has.queues != lacks.queues).then_some(&has.queues);
    let queues = queues.into_iter().flatten();
    publish
        .filter(|filter| !lacks.publish.contains(*filter))
        .chain(subscribe.filter(|filter| !lacks.subscribe.contains(*filter)))
        .chain(
            queues
                .filter(|allowed| !lacks.queues.contains(*allowed))
                .map(|allowed| &allowed.filter),
        )
}

/// Who hears what is published.
pub(super) struct Hearers<'a> {
    stored: Meetings<'a, (&'a Filter, &'a StreamName)>,
    said: [Filter; 2],
    inboxes: Filter,
    delivered: Filter,
}

impl<'a> Hearers<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self {
            stored: plan.stored(),
            said: [subject::heartbeats(), subject::logs()],
            inboxes: subject::inboxes(),
            delivered: subject::delivered(),
        }
    }

    /// What is wrong with an entry to publish on that settles nothing. What is not its owner's to say, or does not cross,
    /// is named for that.
    pub(super) fn leads_nowhere(&self, principal: &Principal, by: &Filter) -> Option<Mismatch> {
        let (ack, wild) = (is_ack(by.as_str()), by.as_str().contains(['*', '>']));
        if !wild && self.hear(by) {
            return None;
        }
        let own = subject::speaks(by) && !subject::speaks_as_another(principal, by);
        if *principal == Principal::Controller || !(own || ack) {
            return None;
        }
        let (principal, filter) = (principal.clone(), by.clone());
        Some(Mismatch::Grant(if own && wild {
            GrantFault::ManySubjects { principal, filter }
        } else {
            GrantFault::Unheard { principal, filter }
        }))
    }

    fn hear(&self, by: &Filter) -> bool {
        let mut stored = false;
        self.stored.with(by, &mut |_| stored = true);
        stored || self.said.iter().any(|said| by.overlaps(said))
    }

    /// What is wrong with an entry to subscribe where no consumer delivers and nobody is answered. Any other place does not
    /// cross, and is named for that.
    pub(super) fn hears_nothing(&self, principal: &Principal, by: &Filter) -> Option<Mismatch> {
        let crosses = by.overlaps(&self.inboxes) || by.overlaps(&self.delivered);
        (*principal != Principal::Controller && crosses).then(|| {
            Mismatch::Grant(GrantFault::HearsNothing {
                principal: principal.clone(),
                filter: by.clone(),
            })
        })
    }
}
