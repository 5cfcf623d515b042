//! Every grant by itself: what crosses, what is its own to say, and nothing of the server's.

use mesh_model::{BusFacts, Filter, Grant, Principal};

use crate::api::ApiCall;
use crate::check::Mismatch;
use crate::check::sharing::Carried;
use crate::derive::{carrier_grant, controller_grant};
use crate::plan::Plan;
use crate::subject;

/// Whose entries are looked at.
pub(super) struct Entries<'a> {
    pub(super) principal: &'a Principal,
    pub(super) grant: &'a Grant,
    /// What it may do besides as the module it acts as, which is looked at by itself: a mesh has a hundred instances of
    /// one module.
    pub(super) module: Option<&'a Grant>,
}

impl<'a> Entries<'a> {
    pub(super) fn publish(&self) -> impl Iterator<Item = &'a Filter> + use<'a> {
        let module = self.module;
        let same = module.is_some_and(|module| module.publish == self.grant.publish);
        let all = (!same).then_some(&self.grant.publish).into_iter().flatten();
        all.filter(move |filter| module.is_none_or(|module| !module.publish.contains(*filter)))
    }

    pub(super) fn subscribe(&self) -> impl Iterator<Item = &'a Filter> + use<'a> {
        let module = self.module;
        let same = module.is_some_and(|module| module.queues == self.grant.queues);
        let in_groups = (!same).then_some(&self.grant.queues).into_iter().flatten();
        let in_groups = in_groups
            .filter(move |allowed| module.is_none_or(|module| !module.queues.contains(*allowed)));
        let alone = self.grant.subscribe.iter();
        alone
            .filter(move |filter| module.is_none_or(|module| !module.subscribe.contains(*filter)))
            .chain(in_groups.map(|allowed| &allowed.filter))
    }
}

impl Plan {
    pub(super) fn check_grants(
        &self,
        bus: &BusFacts,
        carried: &Carried<'_>,
        found: &mut Vec<Mismatch>,
    ) {
        self.each_grant(&mut |entries| {
            check_minimal(entries, found);
            ends_in_star(entries, found);
            if *entries.principal == Principal::Controller {
                check_controller(entries.grant, &self.of_controller(bus), found);
            } else {
                check_grant(entries, carried, found);
            }
        });
    }

    fn of_controller(&self, bus: &BusFacts) -> Grant {
        if self.is_part() {
            carrier_grant(bus)
        } else {
            controller_grant(bus)
        }
    }

    /// Each grant, with what of it is not its module's.
    pub(super) fn each_grant<'a>(&'a self, each: &mut dyn FnMut(&Entries<'a>)) {
        // Instances of one module follow one another.
        let mut last: Option<(&Principal, Option<&Grant>)> = None;
        for (principal, grant) in &self.grants {
            let module = match principal {
                Principal::Instance(of) => match last {
                    Some((Principal::Instance(before), module)) if before.module == of.module => {
                        module
                    }
                    _ => self.grants.get(&Principal::Module(of.module.clone())),
                },
                _ => None,
            };
            last = Some((principal, module));
            each(&Entries {
                principal,
                grant,
                module,
            });
        }
    }
}

fn ends_in_star(entries: &Entries<'_>, found: &mut Vec<Mismatch>) {
    let star = |filter: &&Filter| filter.as_str() == "*" || filter.as_str().ends_with(".*");
    found.extend(
        entries
            .subscribe()
            .filter(star)
            .map(|filter| Mismatch::SubscribeEndsInStar {
                principal: entries.principal.clone(),
                filter: filter.clone(),
            }),
    );
}

/// No entry says what another one says already.
fn check_minimal(entries: &Entries<'_>, found: &mut Vec<Mismatch>) {
    let Entries {
        principal,
        grant,
        module,
    } = entries;
    let mut inside = |entry: &Filter, within: &Filter| {
        found.push(Mismatch::InsideAnother {
            principal: (*principal).clone(),
            entry: entry.clone(),
            within: within.clone(),
        });
    };
    let wild = |filter: &&Filter| filter.as_str().contains(['*', '>']);
    let same = |module: &&Grant| module.publish == grant.publish && module.queues == grant.queues;
    let all = module.as_ref().is_none_or(|module| !same(module));
    if all {
        for within in grant.publish.iter().filter(wild) {
            let others = grant.publish.iter().filter(|entry| *entry != within);
            others
                .filter(|entry| lies_in(entry, within))
                .for_each(|entry| inside(entry, within));
        }
        for within in &grant.queues {
            let others = grant.queues.iter().filter(|entry| *entry != within);
            others
                .filter(|entry| entry.queue == within.queue)
                .filter(|entry| lies_in(&entry.filter, &within.filter))
                .for_each(|entry| inside(&entry.filter, &within.filter));
        }
    }
    for within in &grant.subscribe {
        let others = grant.subscribe.iter().filter(|entry| *entry != within);
        let in_groups = grant.queues.iter().map(|allowed| &allowed.filter);
        others
            .chain(in_groups)
            .filter(|entry| lies_in(entry, within))
            .for_each(|entry| inside(entry, within));
    }
}

/// The same as [`Filter::is_subset_of`], told at once where `within` begins otherwise.
fn lies_in(entry: &Filter, within: &Filter) -> bool {
    let (entry_text, within_text) = (entry.as_str(), within.as_str());
    let literal = within_text.find(['*', '>']).unwrap_or(within_text.len());
    let begins = within_text.get(..literal).unwrap_or_default();
    entry_text.starts_with(begins) && entry.is_subset_of(within)
}

/// The controller's authority is a constant of the bus: whatever is beyond it is nobody's need, and whatever is not all of it
/// leaves something undone. Of the API it uses some calls; acks are held against its consumers.
fn check_controller(grant: &Grant, uses: &Grant, found: &mut Vec<Mismatch>) {
    let within =
        |entry: &Filter, uses: &mesh_model::Allow| uses.iter().any(|uses| entry.is_subset_of(uses));
    let publish = grant.publish.iter().filter(|e| !within(e, &uses.publish));
    let alone = grant.subscribe.iter();
    let alone = alone.filter(|e| !within(e, &uses.subscribe));
    let in_groups = grant.queues.iter().map(|allowed| &allowed.filter);
    let in_groups = in_groups.filter(|e| !within(e, &uses.subscribe));
    found.extend(
        publish
            .chain(alone)
            .chain(in_groups)
            .map(|filter| Mismatch::ControllerBeyond {
                filter: filter.clone(),
            }),
    );
    let calls = ApiCall::ALL.map(ApiCall::everywhere);
    let besides = |need: &&Filter| !need.as_str().starts_with("$JS.");
    let says = uses.publish.iter().filter(besides).chain(&calls);
    let says = says.filter(|need| !within(need, &grant.publish));
    let hears = uses.subscribe.iter();
    let hears = hears.filter(|need| !within(need, &grant.subscribe));
    found.extend(says.chain(hears).map(|need| Mismatch::ControllerLacks {
        filter: need.clone(),
    }));
}

fn check_grant(entries: &Entries<'_>, carried: &Carried<'_>, found: &mut Vec<Mismatch>) {
    let principal = entries.principal;
    for filter in entries.publish() {
        let acks = filter.as_str().starts_with("$JS.ACK.");
        let of = (principal, filter);
        found.extend((!carried.to_mesh(filter)).then(|| no_path(of)));
        found.extend((!acks && meets_server(filter)).then(|| reaches_server(of)));
        if subject::speaks_as_another(principal, filter) {
            found.push(Mismatch::SpeaksAsAnother {
                principal: principal.clone(),
                filter: filter.clone(),
            });
        }
    }
    for filter in entries.subscribe() {
        let of = (principal, filter);
        found.extend((!carried.to_edge(filter)).then(|| no_path(of)));
        found.extend(meets_server(filter).then(|| reaches_server(of)));
    }
}

fn no_path((principal, filter): (&Principal, &Filter)) -> Mismatch {
    Mismatch::NoPath {
        principal: principal.clone(),
        filter: filter.clone(),
    }
}

fn reaches_server((principal, filter): (&Principal, &Filter)) -> Mismatch {
    Mismatch::ReachesServer {
        principal: principal.clone(),
        filter: filter.clone(),
    }
}

/// Whether some subject that passes begins as the server's own do (`$JS`, `$SYS`), or as an inbox of whoever chose none.
fn meets_server(filter: &Filter) -> bool {
    filter.as_str().starts_with(['$', '_', '*', '>'])
}
