//! The algebra of subjects and of permissions against what the servers' own tests and live servers say.

use std::collections::BTreeSet;

use mesh_model::{Filter, Grant, QueueSubscription, Subject};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    op: String,
    a: Argument,
    b: Option<Argument>,
    expect: bool,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Argument {
    One(String),
    Many(Vec<Option<String>>),
}

impl Argument {
    fn texts(&self) -> Vec<&str> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts.iter().flatten().map(String::as_str).collect(),
        }
    }

    fn first(&self) -> &str {
        self.texts().first().copied().unwrap_or_default()
    }
}

/// A grant with these entries on both sides, in a group where one follows the subject.
fn grant(entries: &[&str]) -> Grant {
    let mut grant = Grant::default();
    for entry in entries {
        if let Some((filter, queue)) = entry.split_once(' ') {
            grant.queues.insert(QueueSubscription {
                filter: filter.parse().unwrap(),
                queue: queue.to_owned(),
            });
        } else {
            let filter: Filter = entry.parse().unwrap();
            grant.subscribe.insert(filter.clone());
            grant.publish.insert(filter);
        }
    }
    grant
}

fn answer(case: &Case) -> Option<bool> {
    let a = case.a.first();
    let b = case.b.as_ref().map(Argument::first).unwrap_or_default();
    let filters = || -> Option<(Filter, Filter)> { Some((a.parse().ok()?, b.parse().ok()?)) };
    Some(match case.op.as_str() {
        "valid_literal" => a.parse::<Subject>().is_ok(),
        "valid_filter" => a.parse::<Filter>().is_ok(),
        "is_literal" => a.parse::<Filter>().ok()?.is_literal(),
        "matches" => {
            let subject: Option<Subject> = b.parse().ok();
            let filter: Option<Filter> = a.parse().ok();
            filter.zip(subject).is_some_and(|(f, s)| f.matches(&s))
        }
        "subset" => filters().is_some_and(|(a, b)| a.is_subset_of(&b)),
        "overlaps" => filters().is_some_and(|(a, b)| a.overlaps(&b)),
        "nats_pub_allowed" => {
            let subject: Option<Subject> = b.parse().ok();
            subject.is_some_and(|subject| grant(&case.a.texts()).publishes(&subject))
        }
        "nats_sub_allowed" => grant(&case.a.texts()).subscribes(&b.parse().ok()?, None),
        "nats_queue_sub_allowed" => {
            let asked = case.b.as_ref()?.texts();
            grant(&case.a.texts()).subscribes(&b.parse().ok()?, asked.get(1).copied())
        }
        _ => return None,
    })
}

#[test]
fn subjects_and_permissions_mean_what_they_mean_to_a_server() {
    let text = include_str!("../algebra.json");
    let cases: Vec<Case> = serde_json::from_str(text).unwrap();
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len());
    let wrong: Vec<&Case> = cases
        .iter()
        .filter(|case| answer(case) != Some(case.expect))
        .collect();
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
    assert!(cases.iter().all(|case| !case.source.is_empty()));
}
