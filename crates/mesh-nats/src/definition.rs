//! What a stream and a consumer are declared as, in the server's JSON, and where what is found differs.
//!
//! Only what is declared is compared: a server adds defaults and its own metadata, and an operator may have chosen what
//! the mesh does not. Declared is whatever would let somebody read, write or destroy more than was derived: a stream that
//! takes roll-ups lets whoever may publish one event delete all the others.

use std::collections::BTreeSet;

use mesh_model::{
    AckPolicy, ConsumerKind, ConsumerRef, ConsumerSpec, DeliverPolicy, Discard, Filter, Principal,
    Retention, Selects, StreamSpec,
};
use serde_json::{Map, Value, json};

/// A definition in the server's JSON.
pub(crate) type Fields = Map<String, Value>;

/// One field that is not as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Which.
    pub(crate) field: String,
    /// As it is.
    pub(crate) found: Value,
    /// As it should be.
    pub(crate) wanted: Value,
}

/// What a stream is declared as.
pub(crate) fn stream_fields(spec: &StreamSpec, replicas: u8) -> Fields {
    let limit = |limit: Option<u64>| limit.map_or_else(|| json!(-1), |n| json!(n));
    let subjects: Vec<&str> = spec.subjects.iter().map(Filter::as_str).collect();
    let (discard, per_subject) = match spec.discard {
        Discard::Old => ("old", false),
        Discard::New => ("new", false),
        Discard::NewPerSubject => ("new", true),
    };
    fields(json!({
        "name": spec.name.as_str(),
        "subjects": subjects,
        "retention": match spec.retention {
            Retention::Limits => "limits",
            Retention::WorkQueue => "workqueue",
        },
        "storage": "file",
        "discard": discard,
        "discard_new_per_subject": per_subject,
        "max_msgs_per_subject": limit(spec.max_per_subject),
        "max_bytes": limit(spec.max_bytes),
        "max_age": nanos(spec.max_age_secs.unwrap_or(0)),
        "max_consumers": spec.max_consumers,
        "num_replicas": replicas,
        "max_msgs": -1,
        "max_msg_size": -1,
        "no_ack": false,
        "sealed": false,
        "deny_delete": false,
        "deny_purge": false,
        "allow_rollup_hdrs": false,
        "allow_direct": false,
        "mirror_direct": false,
        "allow_msg_ttl": false,
        "allow_atomic": false,
        "allow_msg_counter": false,
        "allow_msg_schedules": false,
        "mirror": null,
        "sources": [],
        "republish": null,
        "subject_transform": null,
    }))
}

/// What a consumer is declared as.
pub(crate) fn consumer_fields(spec: &ConsumerSpec) -> Fields {
    let mut declared = fields(json!({
        "name": spec.consumer.name(),
        "durable_name": spec.consumer.name(),
        "ack_policy": match spec.ack { AckPolicy::Explicit => "explicit" },
        "ack_wait": nanos(u64::from(spec.ack_wait_secs)),
        "max_ack_pending": spec.max_ack_pending,
        "max_deliver": -1,
        "deliver_policy": match spec.deliver_policy {
            DeliverPolicy::All => "all",
            DeliverPolicy::New => "new",
        },
        "replay_policy": "instant",
        "headers_only": false,
        "flow_control": false,
        "inactive_threshold": 0,
        "mem_storage": false,
        "deliver_subject": "",
        "deliver_group": "",
        "idle_heartbeat": 0,
        "backoff": [],
        "rate_limit_bps": 0,
        "max_batch": 0,
        "max_expires": 0,
        "priority_groups": [],
        PAUSED: null,
    }));
    let filters: Vec<&str> = spec.selects.filters().map(Filter::as_str).collect();
    declared.insert(FILTERS.to_owned(), json!(filters));
    if let ConsumerKind::Push {
        deliver,
        group,
        idle_heartbeat_secs,
    } = &spec.kind
    {
        declared.insert("deliver_subject".to_owned(), json!(deliver.as_str()));
        let group = group.as_deref().unwrap_or_default();
        declared.insert("deliver_group".to_owned(), json!(group));
        let heartbeat = u64::from(idle_heartbeat_secs.unwrap_or(0));
        declared.insert("idle_heartbeat".to_owned(), json!(nanos(heartbeat)));
    }
    declared
}

/// What a consumer on a server is, in the mesh's words; none where those have no words for it.
pub(crate) fn consumer_spec(
    consumer: ConsumerRef,
    owner: Option<Principal>,
    found: &Fields,
) -> Option<ConsumerSpec> {
    let text = |field: &str| found.get(field).and_then(Value::as_str);
    let number = |field: &str| found.get(field).and_then(Value::as_u64).unwrap_or(0);
    let secs = |field: &str| u32::try_from(number(field) / 1_000_000_000).unwrap_or(u32::MAX);
    let filters = found_value(FILTERS, found);
    let filters = filters.as_array().map(Vec::as_slice).unwrap_or_default();
    let filters = filters.iter().filter_map(Value::as_str);
    let filters: BTreeSet<Filter> = filters.map(Filter::new).collect::<Result<_, _>>().ok()?;
    let kind = match text("deliver_subject").filter(|subject| !subject.is_empty()) {
        None => ConsumerKind::Pull,
        Some(deliver) => ConsumerKind::Push {
            deliver: deliver.parse().ok()?,
            group: text("deliver_group")
                .filter(|group| !group.is_empty())
                .map(ToOwned::to_owned),
            idle_heartbeat_secs: Some(secs("idle_heartbeat")).filter(|secs| *secs > 0),
        },
    };
    Some(ConsumerSpec {
        consumer,
        owner,
        selects: if filters.is_empty() {
            Selects::Everything
        } else {
            Selects::Only(filters)
        },
        kind,
        ack: AckPolicy::Explicit,
        ack_wait_secs: secs("ack_wait"),
        max_ack_pending: u32::try_from(number("max_ack_pending")).unwrap_or(u32::MAX),
        deliver_policy: match text("deliver_policy") {
            Some("new" | GOES_ON) => DeliverPolicy::New,
            _ => DeliverPolicy::All,
        },
    })
}

/// Where `found` is not as `declared`.
pub(crate) fn differences(declared: &Fields, found: &Fields) -> Vec<Difference> {
    declared
        .iter()
        .filter_map(|(field, wanted)| {
            let found = found_value(field, found);
            (!same(wanted, &found) && !goes_on(field, wanted, &found)).then(|| Difference {
                field: field.clone(),
                found,
                wanted: wanted.clone(),
            })
        })
        .collect()
}

/// What to send for `declared` over what was `found`: what is not declared stays as it is.
pub(crate) fn overlaid(declared: &Fields, found: Option<&Fields>) -> Fields {
    let mut sent = found.cloned().unwrap_or_default();
    sent.remove(FILTER);
    for (field, value) in declared {
        if goes_on(field, value, &found_value(field, &sent)) {
            continue;
        }
        if is_default(value) {
            sent.remove(field);
        } else {
            sent.insert(field.clone(), value.clone());
        }
    }
    sent
}

/// What to send for a consumer that was there before: it goes on with the message of this sequence.
pub(crate) fn going_on(declared: &Fields, at: u64) -> Fields {
    let mut sent = overlaid(declared, None);
    sent.insert(DELIVER_POLICY.to_owned(), json!(GOES_ON));
    sent.insert("opt_start_seq".to_owned(), json!(at));
    sent
}

/// Whether this is how a consumer that begins with what is new was made when it went on: the policy says how a consumer
/// begins, is never changed, and has no meaning afterwards.
fn goes_on(field: &str, wanted: &Value, found: &Value) -> bool {
    field == DELIVER_POLICY && wanted == "new" && found == GOES_ON
}

/// The first field that cannot be changed where it stands, if one of these is.
pub(crate) fn immutable(
    differences: &[Difference],
    what: fn(&Difference) -> bool,
) -> Option<&Difference> {
    differences.iter().find(|difference| what(difference))
}

/// Whether a stream refuses this change (nats-server `configUpdateCheck`).
pub(crate) fn stream_refuses(difference: &Difference) -> bool {
    match difference.field.as_str() {
        "storage" | "retention" | "mirror" => true,
        // Once on, they stay on.
        "sealed" | "deny_delete" | "deny_purge" | "allow_msg_ttl" | "allow_msg_counter" => {
            is_default(&difference.wanted)
        }
        _ => false,
    }
}

/// Whether a consumer refuses this change (nats-server `checkNewConsumerConfig`). A deliver subject may be changed, but
/// not be given or taken: that would make a pull consumer of a push one.
pub(crate) fn consumer_refuses(difference: &Difference) -> bool {
    match difference.field.as_str() {
        "ack_policy" | "deliver_policy" | "replay_policy" | "flow_control" | "idle_heartbeat"
        | "mem_storage" => true,
        "deliver_subject" => is_default(&difference.found) || is_default(&difference.wanted),
        _ => false,
    }
}

/// A value as it is found, with one filter and a list of one made the same.
fn found_value(field: &str, found: &Fields) -> Value {
    if field == FILTERS
        && let Some(filter) = found.get(FILTER).filter(|filter| !is_default(filter))
    {
        return json!([filter]);
    }
    found.get(field).cloned().unwrap_or(Value::Null)
}

fn same(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().all(|value| found.contains(value))
        }
        _ => wanted == found || (is_default(wanted) && is_default(found)),
    }
}

/// Whether a server leaves the field out.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn fields(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

fn nanos(secs: u64) -> u64 {
    secs.saturating_mul(1_000_000_000)
}

/// Until when a consumer delivers nothing. Changing the consumer does not change it.
pub(crate) const PAUSED: &str = "pause_until";
const DELIVER_POLICY: &str = "deliver_policy";
/// The policy of a consumer that begins with a certain message.
const GOES_ON: &str = "by_start_sequence";
const FILTER: &str = "filter_subject";
const FILTERS: &str = "filter_subjects";

#[cfg(test)]
mod tests {
    use mesh_derive::{Bounds, node_consumer, own_streams};

    use super::*;

    fn consumer() -> Fields {
        consumer_fields(&node_consumer(&"a".parse().unwrap(), &Bounds::default()))
    }

    /// As nats-server 2.15.1 gives it back.
    fn read_back() -> Fields {
        fields(json!({
            "ack_policy": "explicit",
            "ack_wait": 300_000_000_000_u64,
            "deliver_policy": "all",
            "deliver_subject": "mesh.deliver.node.a",
            "durable_name": "a",
            "filter_subject": "mesh.node.a.declare",
            "idle_heartbeat": 30_000_000_000_u64,
            "max_ack_pending": 1000,
            "max_deliver": -1,
            "metadata": { "_nats.level": "5", "_nats.ver": "2.15.1" },
            "name": "a",
            "num_replicas": 0,
            "replay_policy": "instant",
        }))
    }

    #[test]
    fn what_a_server_adds_is_no_difference() {
        assert_eq!(differences(&consumer(), &read_back()), []);
    }

    #[test]
    fn one_filter_and_a_list_of_one_are_the_same() {
        let mut found = read_back();
        let filter = found.remove("filter_subject").unwrap();
        found.insert("filter_subjects".to_owned(), json!([filter]));
        assert_eq!(differences(&consumer(), &found), []);
    }

    #[test]
    fn each_declared_field_that_differs_is_found() {
        for (field, value) in [
            ("filter_subject", json!("mesh.node.b.declare")),
            ("filter_subject", json!("")),
            ("deliver_subject", json!("mesh.deliver.node.b")),
            ("ack_wait", json!(1)),
            ("inactive_threshold", json!(1)),
            ("backoff", json!([1, 2])),
            ("deliver_group", json!("g")),
        ] {
            let mut found = read_back();
            found.insert(field.to_owned(), value);
            assert_eq!(differences(&consumer(), &found).len(), 1, "{field}");
        }
    }

    #[test]
    fn what_is_not_declared_is_left_as_it_is() {
        let mut found = read_back();
        found.insert("description".to_owned(), json!("by hand"));
        found.insert("inactive_threshold".to_owned(), json!(5));
        let sent = overlaid(&consumer(), Some(&found));
        assert_eq!(sent.get("description"), Some(&json!("by hand")));
        assert_eq!(sent.get("inactive_threshold"), None);
        assert_eq!(sent.get("filter_subject"), None);
        assert_eq!(differences(&consumer(), &sent), []);
    }

    #[test]
    fn one_that_goes_on_is_as_one_that_began_with_what_is_new_and_stays_so() {
        let mut declared = consumer();
        declared.insert("deliver_policy".to_owned(), json!("new"));
        let mut found = going_on(&declared, 7);
        assert_eq!(found.get("opt_start_seq"), Some(&json!(7)));
        assert_eq!(differences(&declared, &found), []);
        found.insert("ack_wait".to_owned(), json!(1));
        let [difference] = &differences(&declared, &found)[..] else {
            panic!()
        };
        assert_eq!(difference.field, "ack_wait");
        // A server takes no other policy of one that is there.
        let sent = overlaid(&declared, Some(&found));
        assert_eq!(
            sent.get("deliver_policy"),
            Some(&json!("by_start_sequence"))
        );
        assert_eq!(sent.get("opt_start_seq"), Some(&json!(7)));
        // One that has to read everything is not as it should be.
        let differences = differences(&consumer(), &going_on(&consumer(), 7));
        assert!(immutable(&differences, consumer_refuses).is_some());
    }

    #[test]
    fn every_stream_says_how_many_consumers_it_may_have() {
        for spec in own_streams(&Bounds::default()) {
            let fields = stream_fields(&spec, 1);
            let most = fields.get("max_consumers").and_then(Value::as_u64);
            assert!(most.is_some_and(|most| most > 0), "{}", spec.name);
        }
    }

    #[test]
    fn a_push_consumer_cannot_become_a_pull_consumer() {
        let mut found = read_back();
        found.remove("deliver_subject");
        let differences = differences(&consumer(), &found);
        assert!(immutable(&differences, consumer_refuses).is_some());
        let mut found = read_back();
        found.insert("deliver_subject".to_owned(), json!("elsewhere"));
        let differences = super::differences(&consumer(), &found);
        assert!(immutable(&differences, consumer_refuses).is_none());
    }
}
