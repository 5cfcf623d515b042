//! Laws of how the servers judge, and that the mesh's own types say the same of whatever they can hold.

use std::collections::BTreeSet;

use mesh_model::{Filter, Grant, QueueSubscription, Subject};
use mesh_servers::nats::{
    Permissions, is_subset, matches, overlaps, split_subject_queue, valid_filter, valid_literal,
};
use mesh_servers::rabbitmq::{binding_key_valid, binding_matches};
use proptest::prelude::*;
use serde_json::Value;

const HAND: &str = include_str!("../../mesh-derive/tests/cases/algebra_hand.json");

/// Subjects of few and short tokens, so that two of them meet; some are not valid.
fn subject() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec!["a", "b", "*", ">", "é", "x y", ""]);
    let weighted = prop_oneof![9 => prop::sample::select(vec!["a", "b", "*", ">"]), 1 => token];
    prop::collection::vec(weighted, 1..5).prop_map(|tokens| tokens.join("."))
}

fn valid() -> impl Strategy<Value = String> {
    subject().prop_filter("a valid filter", |text| valid_filter(text))
}

fn key() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "b", "*", "#", "", "é"]);
    prop::collection::vec(word, 0..6).prop_map(|words| words.join("."))
}

/// As the rule is written down, and slow: the words of a binding key against those of a routing key.
fn naive(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern.split_first(), words.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), first) => {
            naive(rest, words) || first.is_some_and(|(_, later)| naive(pattern, later))
        }
        (None, Some(_)) | (Some(_), None) => false,
        (Some((wanted, rest)), Some((word, later))) => {
            (*wanted == "*" || wanted == word) && naive(rest, later)
        }
    }
}

fn split(key: &str) -> Vec<&str> {
    if key.is_empty() {
        Vec::new()
    } else {
        key.split('.').collect()
    }
}

/// A grant with these entries on both sides, if each is what the mesh can write.
fn grant(allow: &[String]) -> Option<Grant> {
    let mut grant = Grant::default();
    for entry in allow {
        let (filter, queue) = split_subject_queue(entry).ok()?;
        let filter: Filter = filter.parse().ok()?;
        if let Some(queue) = queue {
            let queue = queue.parse().ok()?;
            grant.queues.insert(QueueSubscription { filter, queue });
        } else {
            grant.subscribe.insert(filter.clone());
            grant.publish.insert(filter);
        }
    }
    Some(grant)
}

proptest! {
    #[test]
    fn what_is_within_overlaps(a in valid(), b in valid()) {
        if is_subset(&a, &b) {
            prop_assert!(overlaps(&a, &b) && overlaps(&b, &a), "{a} within {b}");
        }
        prop_assert_eq!(overlaps(&a, &b), overlaps(&b, &a));
    }

    #[test]
    fn a_literal_is_matched_by_what_it_is_within(filter in valid(), literal in valid()) {
        if valid_literal(&literal) {
            prop_assert_eq!(matches(&filter, &literal), is_subset(&literal, &filter));
            prop_assert_eq!(matches(&filter, &literal), overlaps(&filter, &literal));
        }
    }

    #[test]
    fn what_matches_the_narrow_matches_the_wide(a in valid(), b in valid(), literal in valid()) {
        if is_subset(&a, &b) && valid_literal(&literal) && matches(&a, &literal) {
            prop_assert!(matches(&b, &literal), "{literal} {a} {b}");
        }
    }

    #[test]
    fn a_typed_filter_says_what_a_server_says(a in subject(), b in subject()) {
        for text in [&a, &b] {
            prop_assert_eq!(Filter::new(text.as_str()).is_ok(), valid_filter(text), "{}", text);
            let literal = valid_filter(text) && valid_literal(text);
            prop_assert_eq!(Subject::new(text.as_str()).is_ok(), literal, "{}", text);
        }
        if let (Ok(x), Ok(y)) = (Filter::new(a.as_str()), Filter::new(b.as_str())) {
            prop_assert_eq!(x.is_subset_of(&y), is_subset(&a, &b), "{} in {}", &a, &b);
            prop_assert_eq!(x.overlaps(&y), overlaps(&a, &b), "{} with {}", &a, &b);
            if let Ok(subject) = Subject::new(b.as_str()) {
                prop_assert_eq!(x.matches(&subject), matches(&a, &b), "{} on {}", &b, &a);
            }
        }
    }

    #[test]
    fn a_grant_never_claims_more_than_a_server_lets_through(
        allow in prop::collection::vec(valid(), 1..4),
        asked in valid(),
    ) {
        let Some(grant) = grant(&allow) else { return Ok(()) };
        let raw = Permissions { allow, deny: Vec::new() };
        let filter: Filter = asked.parse().unwrap();
        if grant.subscribes(&filter, None) {
            prop_assert!(raw.may_subscribe(&asked, None), "{asked}");
        }
        if let Ok(subject) = asked.parse::<Subject>() {
            prop_assert_eq!(grant.publishes(&subject), raw.may_publish(&asked), "{}", asked);
        }
    }

    #[test]
    fn what_is_delivered_was_subscribed_and_not_denied(
        allow in prop::collection::vec(valid(), 0..3),
        deny in prop::collection::vec(valid(), 0..3),
        filter in valid(),
        literal in valid(),
    ) {
        let raw = Permissions { allow, deny };
        if valid_literal(&literal) && raw.delivers(&filter, None, &literal) {
            prop_assert!(raw.may_subscribe(&filter, None) && matches(&filter, &literal));
            let denied = raw.deny.iter().any(|denied| matches(denied, &literal));
            prop_assert!(!denied, "{literal}");
        }
    }

    #[test]
    fn a_binding_matches_as_the_rule_is_written(binding in key(), routing in key()) {
        let expected = naive(&split(&binding), &split(&routing));
        prop_assert_eq!(binding_matches(&binding, &routing), expected, "{} {}", binding, routing);
        prop_assert!(binding_matches("#", &routing));
    }

    #[test]
    fn a_key_without_hashes_may_always_be_bound(words in prop::collection::vec("[a-z*]{0,3}", 0..60)) {
        prop_assert!(binding_key_valid(&words.join(".")) == (words.join(".").len() <= 255));
    }
}

#[test]
fn many_hashes_take_no_longer_than_few() {
    let binding = vec!["#"; 128].join(".");
    let routing = vec!["a"; 128].join(".");
    assert!(binding_matches(&binding, &routing));
    assert!(!binding_matches(&format!("{binding}.b"), &routing));
}

/// The rows in which both texts are what the mesh can hold.
#[test]
fn the_mesh_s_own_types_pass_the_cases_they_can_hold() {
    let rows: Vec<Value> = serde_json::from_str(HAND).unwrap();
    let mut asked = BTreeSet::new();
    for row in &rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let (a, b): (Option<Filter>, Option<Filter>) =
            (text("a").parse().ok(), text("b").parse().ok());
        let subject: Option<Subject> = text("b").parse().ok();
        let list = |name: &str| -> Vec<String> {
            let list = row["a"][name].as_array().cloned().unwrap_or_default();
            list.iter()
                .map(|entry| entry.as_str().unwrap().to_owned())
                .collect()
        };
        let got = match text("op") {
            "valid_filter" => Some(a.is_some()),
            "matches" => a.zip(subject).map(|(a, b)| a.matches(&b)),
            "subset" => a.zip(b).map(|(a, b)| a.is_subset_of(&b)),
            "overlaps" => a.zip(b).map(|(a, b)| a.overlaps(&b)),
            "nats_pub_allowed" if list("deny").is_empty() && !list("allow").is_empty() => {
                grant(&list("allow"))
                    .zip(subject)
                    .map(|(grant, b)| grant.publishes(&b))
            }
            _ => None,
        };
        if let Some(got) = got {
            asked.insert(text("op").to_owned());
            assert_eq!(row["expect"], got, "{row}");
        }
    }
    assert_eq!(asked.len(), 5, "{asked:?}");
}
