//! The hand file whole, and that a row can fail and be skipped.

use serde_json::json;

use super::*;

const HAND: &str = include_str!("../../../crates/mesh-derive/tests/cases/algebra_hand.json");

/// What is answered, or the file is not what the library is for.
const ANSWERED: &[&str] = &[
    "amqp_binding_key_valid",
    "amqp_pattern_valid",
    "amqp_regex_allows",
    "amqp_requires",
    "amqp_topic_matches",
    "amqp_topic_permission",
    "any_filter_subset_of",
    "consumer_field_updatable",
    "consumer_filters_ok",
    "filters_match",
    "has_wildcard",
    "is_literal",
    "js_effective_ack_wait",
    "matches",
    "nats_pub_allowed",
    "nats_queue_sub_allowed",
    "nats_sub_allowed",
    "overlaps",
    "stream_subjects_allowed",
    "stream_subjects_disjoint",
    "subset",
    "valid_filter",
    "valid_literal",
    "valid_name",
    "wq_consumer_unique",
];

fn hand() -> Vec<Value> {
    serde_json::from_str(HAND).unwrap()
}

fn report(rows: &[Value]) -> Report {
    let mut report = Report::default();
    report.run(rows);
    report
}

#[test]
fn the_servers_answers_are_ours() {
    let rows = hand();
    let report = report(&rows);
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    for op in ANSWERED {
        assert!(!report.skipped.contains_key(*op), "{op}");
        assert!(rows.iter().any(|row| row["op"] == *op), "{op}");
    }
    let skipped: Vec<&String> = report.skipped.keys().collect();
    assert_eq!(skipped, ["js_ack_effect", "nats_response_allowed"]);
}

#[test]
fn every_row_fails_when_its_answer_is_turned_round() {
    let mut rows = hand();
    for row in &mut rows {
        row["expect"] = match &row["expect"] {
            Value::Bool(expected) => json!(!expected),
            _ => json!("otherwise"),
        };
    }
    let report = report(&rows);
    assert_eq!(report.passed, 0);
    assert!(report.failures.len() > 700, "{}", report.summary());
}

#[test]
fn a_subscription_that_is_given_more_or_less_fails() {
    let row = |delivered: &[&str]| {
        json!({"id": "x", "op": "nats_sub_allowed", "a": {"allow": [">"], "deny": ["a.b"]}, "b": "a.*",
            "expect": true, "delivered_of_probe": delivered})
    };
    let others = json!({"id": "y", "op": "nats_sub_allowed", "a": {"allow": [">"], "deny": []}, "b": "a.*",
        "expect": true, "delivered_of_probe": ["a.b", "a.c"]});
    for (delivered, passed) in [(&["a.c"][..], 2), (&["a.b", "a.c"], 1), (&[], 1)] {
        assert_eq!(
            report(&[row(delivered), others.clone()]).passed,
            passed,
            "{delivered:?}"
        );
    }
}

#[test]
fn wrong_rows_fail_unknown_operations_are_skipped_and_the_rest_passes() {
    let report = report(&[
        json!({"id": "right", "op": "matches", "a": "a.*", "b": "a.b", "expect": true}),
        json!({"id": "wrong", "op": "matches", "a": "a.*", "b": "a.b", "expect": false}),
        json!({"id": "strange", "op": "divines", "a": "a", "b": null, "expect": true}),
        json!({"id": "no text", "op": "matches", "a": 7, "b": "a.b", "expect": true}),
        json!({"id": "cut", "op": "matches", "a": "a"}),
        json!(7),
    ]);
    assert_eq!(report.summary(), "1 passed, 4 failed, 1 skipped");
    assert_eq!(report.skipped["divines"], 1);
    for (at, said) in [
        "wrong matches",
        "no text matches",
        "cut: malformed",
        "row 5: malformed",
    ]
    .iter()
    .enumerate()
    {
        assert!(
            report.failures[at].contains(said),
            "{}",
            report.failures[at]
        );
    }
}

#[test]
fn a_file_without_rows_and_a_file_that_is_not_there_fail() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("empty.json", "[]"),
        ("object.json", "{}"),
        ("cut.json", "[{"),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        assert!(rows(&file).is_err(), "{name}");
    }
    assert!(rows(&folder.path().join("missing.json")).is_err());
}
