//! What an operator should know of a broker: what it promises, and what it does not.

use std::time::Duration;

use mesh_bus::{BusError, Finding};
use mesh_derive::topology::{BrokerVersion, QueueKind};
use serde_json::Value;

use crate::management::Management;

/// Everything that can be told from here.
pub(crate) async fn findings(
    management: &Management,
    queues: QueueKind,
    encrypted: bool,
    timeout: Option<Duration>,
) -> Result<Vec<Finding>, BusError> {
    let overview = management.get("/api/overview").await?.unwrap_or_default();
    let version = overview.get("rabbitmq_version").and_then(Value::as_str);
    let nodes = management.get("/api/nodes").await?.unwrap_or_default();
    let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::new();
    match version.map(str::parse::<BrokerVersion>) {
        Some(Ok(version)) => found.extend(of_version(version)),
        _ => found.push(warning("the broker does not say its version".to_owned())),
    }
    found.extend(timeout.map(of_timeout));
    found.push(if encrypted {
        note("connections are encrypted".to_owned())
    } else {
        warning("connections are not encrypted, and passwords go over them: give the broker a certificate unless it listens on loopback only".to_owned())
    });
    found.push(of_queues(queues, nodes.len()));
    found.extend(nodes.iter().flat_map(of_node));
    Ok(found)
}

fn of_version(version: BrokerVersion) -> Vec<Finding> {
    let mut found = vec![note(format!("the broker is RabbitMQ {version}"))];
    if !version.proves_sender() {
        found.push(warning(format!(
            "RabbitMQ before {} holds no second key of a message (CC) against its sender's permissions: whoever may publish anything may put messages into others' queues. What is said is believed only with the broker's word for who sent it; a queue can be filled all the same",
            BrokerVersion::PROVES_SENDER
        )));
    }
    if version < BrokerVersion::new(4, 0, 0) {
        found.push(note("how long the broker lets a message be held (consumer_timeout, 30 minutes unless it is told otherwise) cannot be seen from here: it must be more than the store window's bound and a minute, or reports come again while they are held".to_owned()));
    }
    found
}

/// Of a broker that was seen to end a channel for a message that was held.
fn of_timeout(timeout: Duration) -> Finding {
    warning(format!(
        "the broker lets a message be held for {} s (consumer_timeout) and one was held for longer, so reports came again while they were held: give the broker a consumer_timeout of more than the store window's bound and a minute",
        timeout.as_secs_f64()
    ))
}

fn of_queues(queues: QueueKind, brokers: usize) -> Finding {
    match queues {
        QueueKind::Classic if brokers > 1 => warning(format!(
            "queues are classic, and are on one of {brokers} brokers: one whose disk is lost takes its queues with it; choose quorum queues"
        )),
        QueueKind::Classic => note(
            "each queue has one copy: a broker whose disk is lost takes its queues with it"
                .to_owned(),
        ),
        QueueKind::Quorum if brokers < 3 => warning(format!(
            "queues are quorum queues on {brokers} broker(s): they keep copies on three or more"
        )),
        QueueKind::Quorum => note(format!(
            "each queue has copies on most of {brokers} brokers"
        )),
    }
}

fn of_node(node: &Value) -> Vec<Finding> {
    let name = node
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or("a broker");
    let is = |field: &str| node.get(field).and_then(Value::as_bool) == Some(true);
    let mut found = Vec::new();
    if is("mem_alarm") {
        found.push(warning(format!(
            "{name} is short of memory and takes no messages"
        )));
    }
    if is("disk_free_alarm") {
        found.push(warning(format!(
            "{name} is short of disk and takes no messages"
        )));
    }
    if node.get("running").and_then(Value::as_bool) == Some(false) {
        found.push(warning(format!("{name} does not run")));
    }
    found
}

fn note(text: String) -> Finding {
    Finding {
        warning: false,
        text,
    }
}

fn warning(text: String) -> Finding {
    Finding {
        warning: true,
        text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warns(found: &[Finding], of: &str) -> bool {
        found.iter().any(|it| it.warning && it.text.contains(of))
    }

    #[test]
    fn a_broker_that_does_not_prove_a_sender_is_warned_of() {
        assert!(warns(&of_version(BrokerVersion::new(3, 10, 8)), "CC"));
        assert!(warns(&of_version(BrokerVersion::new(4, 0, 2)), "CC"));
        assert!(!warns(&of_version(BrokerVersion::new(4, 0, 3)), "CC"));
    }

    #[test]
    fn a_broker_that_was_seen_to_let_nothing_be_held_for_long_is_warned_of() {
        let found = [of_timeout(Duration::from_millis(2_500))];
        assert!(warns(&found, "held for 2.5 s"), "{found:?}");
    }

    #[test]
    fn a_broker_that_takes_no_messages_is_warned_of() {
        let well =
            json!({ "name": "r@h", "running": true, "mem_alarm": false, "disk_free_alarm": false });
        assert_eq!(of_node(&well), []);
        for (field, value, of) in [
            ("mem_alarm", true, "memory"),
            ("disk_free_alarm", true, "disk"),
            ("running", false, "does not run"),
        ] {
            let mut node = well.clone();
            node[field] = json!(value);
            assert!(warns(&of_node(&node), of), "{field}");
        }
    }

    #[test]
    fn queues_that_are_not_what_the_brokers_are_for_are_warned_of() {
        for (queues, brokers, expected) in [
            (QueueKind::Classic, 1, false),
            (QueueKind::Classic, 3, true),
            (QueueKind::Quorum, 1, true),
            (QueueKind::Quorum, 3, false),
        ] {
            assert_eq!(
                of_queues(queues, brokers).warning,
                expected,
                "{queues:?} on {brokers}"
            );
        }
    }
}
