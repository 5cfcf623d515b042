//! What is asked of a server about a plan: that a grant wider or narrower by anything would be found.

use std::collections::BTreeSet;

use mesh_derive::proof::{
    Act, Evidence, Expected, Extent, InvalidProber, Manner, Probe, manner, may_be_tried, probed,
    probes, with_probers,
};
use mesh_derive::{Bounds, Plan, derive};
use mesh_model::{Filter, Grant, Principal, QueueSubscription, Records};
use mesh_servers::nats::Permissions;
use proptest::prelude::*;

use crate::common::{add_node, bus, empty, records, user_key};
use crate::golden;

fn plan(records: &Records) -> Plan {
    derive(records, &Bounds::default())
}

/// Acts that another grant would have another end.
fn finds<'a>(asked: &'a [Probe], other: &Grant) -> Vec<&'a Act> {
    let may = |act: &Act| match act {
        Act::Connect => true,
        Act::Publish(subject) | Act::Inject { subject, .. } => other.publishes(subject),
        Act::Subscribe { filter, queue } => other.subscribes(filter, queue.as_deref()),
    };
    let differs = |probe: &&Probe| may(&probe.act) == (probe.expected == Expected::Refused);
    let found = asked.iter().filter(differs);
    found.map(|probe| &probe.act).collect()
}

/// A grant as a server reads it.
struct Served {
    publish: Permissions,
    subscribe: Permissions,
}

impl Served {
    fn of(grant: &Grant) -> Self {
        let text = |filters: &BTreeSet<Filter>| filters.iter().map(ToString::to_string).collect();
        let mut subscribe: Vec<String> = text(&grant.subscribe);
        let groups = grant.queues.iter();
        subscribe.extend(groups.map(|it| format!("{} {}", it.filter, it.queue)));
        let allowing = |mut allow: Vec<String>| {
            // To a server an empty list allows everything.
            let deny = if allow.is_empty() {
                vec![">".to_owned()]
            } else {
                Vec::new()
            };
            allow.sort();
            Permissions { allow, deny }
        };
        Self {
            publish: allowing(text(&grant.publish)),
            subscribe: allowing(subscribe),
        }
    }

    fn refuses(&self, act: &Act) -> bool {
        match act {
            Act::Connect => false,
            Act::Publish(subject) | Act::Inject { subject, .. } => {
                !self.publish.may_publish(subject.as_str())
            }
            Act::Subscribe { filter, queue } => {
                let queue = queue.as_ref().map(ToString::to_string);
                !self
                    .subscribe
                    .may_subscribe(filter.as_str(), queue.as_deref())
            }
        }
    }
}

/// A filter with a wildcard for one of its tokens, and cut after each but the first.
fn wider(filter: &Filter) -> Vec<Filter> {
    let tokens: Vec<&str> = filter.tokens().collect();
    let mut all = Vec::new();
    for at in 0..tokens.len() {
        let mut star = tokens.clone();
        star[at] = "*";
        all.push(star.join("."));
        all.push([&tokens[..at], &[">"]].concat().join("."));
    }
    let filters = all.into_iter().map(|text| text.parse().unwrap());
    filters
        .filter(|it: &Filter| !it.is_subset_of(filter))
        .collect()
}

/// A grant with one of its entries widened by one wildcard, or no longer bound to its group, for each.
fn widened(grant: &Grant) -> Vec<Grant> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Grant)| {
        let mut more = grant.clone();
        change(&mut more);
        all.push(more);
    };
    for filter in grant.publish.iter().flat_map(wider) {
        add(&|grant| _ = grant.publish.insert(filter.clone()));
    }
    for filter in grant.subscribe.iter().flat_map(wider) {
        add(&|grant| _ = grant.subscribe.insert(filter.clone()));
    }
    for entry in &grant.queues {
        add(&|grant| _ = grant.subscribe.insert(entry.filter.clone()));
        for filter in wider(&entry.filter) {
            let entry = QueueSubscription {
                filter,
                queue: entry.queue.clone(),
            };
            add(&|grant| _ = grant.queues.insert(entry.clone()));
        }
    }
    all
}

fn narrowed(grant: &Grant) -> Vec<Grant> {
    let mut all = Vec::new();
    for entry in &grant.publish {
        all.push(grant.clone());
        all.last_mut().unwrap().publish.remove(entry);
    }
    for entry in &grant.subscribe {
        all.push(grant.clone());
        all.last_mut().unwrap().subscribe.remove(entry);
    }
    for entry in &grant.queues {
        all.push(grant.clone());
        all.last_mut().unwrap().queues.remove(entry);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// D60
    #[test]
    fn a_grant_without_any_one_entry_is_found(records in records()) {
        let plan = plan(&records);
        for (principal, grant) in &plan.grants {
            let asked = probes(&plan, principal, &records.bus, Extent::Nearest(2));
            for less in narrowed(grant) {
                let found = finds(&asked, &less);
                prop_assert!(!found.is_empty(), "{principal}: {less:?}");
            }
        }
    }

    /// D61
    #[test]
    fn a_grant_wider_by_any_wildcard_is_found(records in records()) {
        let plan = plan(&records);
        for (principal, grant) in &plan.grants {
            let asked = probes(&plan, principal, &records.bus, Extent::Nearest(2));
            for more in widened(grant) {
                let found = finds(&asked, &more);
                prop_assert!(!found.is_empty(), "{principal}: {more:?}");
            }
        }
    }

    /// D61
    #[test]
    fn a_grant_with_anything_of_anothers_is_found(records in records()) {
        let plan = plan(&records);
        let all = |grant: &Grant| {
            let publish = grant.publish.iter().cloned().map(|it| (true, it));
            publish.chain(grant.subscribe.iter().cloned().map(|it| (false, it))).collect::<Vec<_>>()
        };
        for (principal, grant) in &plan.grants {
            let asked = probes(&plan, principal, &records.bus, Extent::Whole);
            for (publishes, entry) in plan.grants.values().flat_map(all) {
                let mut more = grant.clone();
                let side = if publishes { &mut more.publish } else { &mut more.subscribe };
                if side.iter().any(|has| entry.is_subset_of(has)) {
                    continue;
                }
                side.insert(entry.clone());
                let found = finds(&asked, &more);
                prop_assert!(!found.is_empty(), "{principal}: {entry}");
            }
        }
    }

    /// D60 D61
    #[test]
    fn what_is_expected_is_what_a_server_would_do(records in records()) {
        let plan = plan(&records);
        for (principal, grant) in &plan.grants {
            let server = Served::of(grant);
            for probe in probes(&plan, principal, &records.bus, Extent::Whole) {
                let refused = probe.expected == Expected::Refused;
                prop_assert_eq!(server.refuses(&probe.act), refused, "{}: {}", principal, probe.act);
            }
        }
    }

    /// D62
    #[test]
    fn each_act_is_asked_once_and_always_in_the_same_order(records in records()) {
        let plan = plan(&records);
        for principal in plan.grants.keys() {
            let asked = probes(&plan, principal, &records.bus, Extent::Whole);
            let each: BTreeSet<&Act> = asked.iter().map(|probe| &probe.act).collect();
            prop_assert_eq!(each.len(), asked.len(), "{}", principal);
            // Of fewer neighbours what is asked comes in the same order.
            let nearest = probes(&plan, principal, &records.bus, Extent::Nearest(1));
            let mut left = asked.iter();
            for probe in &nearest {
                prop_assert!(left.any(|it| it == probe), "{principal}: {}", probe.act);
            }
        }
    }
}

/// D62
#[test]
fn of_a_larger_mesh_no_more_is_asked_of_each() {
    let count = |nodes: usize| {
        let mut records = empty();
        for node in 0..nodes {
            add_node(&mut records, &format!("n{node:04}"));
        }
        let plan = plan(&records);
        let of = |name: &str| {
            let principal = Principal::Node(name.parse().unwrap());
            probes(&plan, &principal, &bus(), Extent::of(&plan)).len()
        };
        (of("n0000"), of("n0050"))
    };
    let (small, large) = (count(100), count(1000));
    assert_eq!(small, large);
    assert!(large.1 < 700, "{large:?}");
}

/// D63
#[test]
fn nothing_that_would_last_is_asked_in_a_way_that_lasts() {
    let records = golden::records("names");
    let plan = plan(&records);
    for principal in plan.grants.keys() {
        for probe in probes(&plan, principal, &records.bus, Extent::Whole) {
            let (Act::Publish(subject) | Act::Inject { subject, .. }) = &probe.act else {
                continue;
            };
            let stored = plan.streams.values().any(|stream| {
                let mut filters = stream.subjects.iter();
                filters.any(|filter| filter.matches(subject))
            });
            let manner = manner(&plan, subject);
            assert_ne!(manner, Manner::Never, "{subject}");
            assert!(may_be_tried(&plan, &probe.act), "{subject}");
            let text = subject.as_str();
            assert_eq!(stored, matches!(manner, Manner::Stored(_)), "{text}");
            // With a domain, the API has it in its name.
            let tokens: Vec<&str> = subject.tokens().take(3).collect();
            let calls = matches!(tokens[..], ["$JS", "API", ..] | ["$JS", _, "API"]);
            assert_eq!(calls, manner == Manner::Api, "{text}");
            let settles = matches!(manner, Manner::Settling(_));
            assert_eq!(text.starts_with("$JS.ACK."), settles);
            let answered = Expected::Allowed(Evidence::Taken);
            let hears = !matches!(principal, Principal::Module(_));
            assert!(!stored || !hears || probe.expected != answered, "{text}");
        }
    }
}

/// D63
#[test]
fn what_the_server_might_do_something_of_may_not_be_tried() {
    let plan = plan(&golden::records("names"));
    let publish = |on: &str| Act::Publish(on.parse().unwrap());
    let inject = |on: &str, reply: &str| Act::Inject {
        subject: on.parse().unwrap(),
        reply: reply.parse().unwrap(),
    };
    let on = "mesh.control.report.x";
    for (act, tried) in [
        (publish("$JS.API.STREAM.PURGE.NODES"), true),
        (publish("$JS.API.STREAM.PEER.REMOVE.NODES"), false),
        (publish("$JS.API.META.LEADER.STEPDOWN"), false),
        (publish("$SYS.REQ.SERVER.ID.RELOAD"), false),
        (inject(on, "$JS.API.STREAM.DELETE.MESH-PROBE"), true),
        (inject(on, "$JS.API.META.LEADER.STEPDOWN"), false),
        (inject(on, "mesh.deliver.node.x"), false),
        (
            inject("$JS.API.SERVER.REMOVE", "$JS.API.STREAM.DELETE.MESH-PROBE"),
            false,
        ),
    ] {
        assert_eq!(may_be_tried(&plan, &act), tried, "{act}");
    }
}

/// D64
#[test]
fn whatever_may_be_published_is_tried_with_a_reply_to_the_api() {
    let records = golden::records("names");
    let plan = plan(&records);
    for principal in probed(&plan) {
        let asked = probes(&plan, principal, &records.bus, Extent::Whole);
        let published = asked.iter().filter(|probe| {
            matches!(
                (&probe.act, &probe.expected),
                (Act::Publish(_), Expected::Allowed(_))
            )
        });
        for probe in published {
            let Act::Publish(on) = &probe.act else {
                continue;
            };
            let injected = asked.iter().filter(|probe| {
                matches!(&probe.act, Act::Inject { subject, .. } if subject == on)
                    && probe.expected == Expected::NoEffect
            });
            assert_eq!(injected.count(), 3, "{principal} {on}");
        }
    }
}

/// D65
#[test]
fn a_prober_is_one_more_user_of_somebody_and_nobodys_key_changes_hands() {
    let plan = plan(&golden::records("mailer"));
    let keys = probed(&plan)
        .map(|principal| {
            (
                user_key(&format!("prober of {principal}")),
                principal.clone(),
            )
        })
        .collect();
    let with = with_probers(&plan, &keys).unwrap();
    assert_eq!(with.grants, plan.grants);
    assert_eq!(with.users.len(), plan.users.len() + keys.len());
    let (key, owner) = plan.users.first_key_value().unwrap();
    let module = Principal::Module("mailer".parse().unwrap());
    let taken = with_probers(&plan, &[(key.clone(), module.clone())].into());
    let owner = owner.clone();
    assert_eq!(taken, Err(InvalidProber::Taken { of: module, owner }));
    let nobody = Principal::Node("gone".parse().unwrap());
    let gone = with_probers(&plan, &[(user_key("x"), nobody.clone())].into());
    assert_eq!(gone, Err(InvalidProber::NoGrant(nobody)));
}
