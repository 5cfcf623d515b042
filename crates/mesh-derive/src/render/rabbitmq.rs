//! A topology as the definitions a RabbitMQ imports: the virtual host and everything in it, users and what they may do.
//!
//! There is nothing random in it: a password's salt comes with the password. Equal input gives equal bytes.

mod password;

use std::collections::BTreeMap;

use mesh_model::Principal;
use serde_json::{Value, json};

pub use password::PasswordHash;

use crate::topology::{Binding, Exchange, NOTHING, Queue, QueueKind, Rights, Topology, user_name};

/// Whose password hashes to what. Who is not named cannot log in with any password, and may with a certificate.
pub type Secrets = BTreeMap<Principal, PasswordHash>;

/// The definitions. Lists are in name order.
///
/// Importing them adds and changes, and never takes away: what is no longer in them is for whoever provisions the broker
/// to remove. The exchanges are in the document with the topic permissions, since newer brokers refuse one without the
/// other.
pub fn definitions(topology: &Topology, secrets: &Secrets) -> Value {
    let vhost = topology.broker.vhost.as_str();
    let users = topology.users.iter();
    let topics = topology.users.iter().flat_map(|(principal, rights)| {
        let patterns = rights.topic_patterns();
        patterns.map(move |(exchange, write)| topic_permission(vhost, principal, exchange, &write))
    });
    json!({
        "vhosts": [{ "name": vhost }],
        "users": users.clone().map(|(it, _)| user(it, secrets)).collect::<Vec<_>>(),
        "permissions": users.map(|(it, rights)| permission(vhost, it, rights)).collect::<Vec<_>>(),
        "topic_permissions": topics.collect::<Vec<_>>(),
        "policies": policies(topology),
        "exchanges": Exchange::ALL.map(|it| exchange(vhost, it)),
        "queues": topology.queues.iter().map(|(it, kind)| queue(vhost, it, *kind)).collect::<Vec<_>>(),
        "bindings": topology.bindings.iter().map(|it| binding(vhost, it)).collect::<Vec<_>>(),
    })
}

fn user(principal: &Principal, secrets: &Secrets) -> Value {
    json!({
        "name": user_name(principal),
        "password_hash": secrets.get(principal).map(PasswordHash::as_str).unwrap_or_default(),
        "hashing_algorithm": PasswordHash::ALGORITHM,
        "tags": "",
    })
}

fn permission(vhost: &str, principal: &Principal, rights: &Rights) -> Value {
    json!({
        "user": user_name(principal),
        "vhost": vhost,
        "configure": Rights::CONFIGURE,
        "write": rights.write_pattern(),
        "read": rights.read_pattern(),
    })
}

fn topic_permission(vhost: &str, principal: &Principal, exchange: Exchange, write: &str) -> Value {
    json!({
        "user": user_name(principal),
        "vhost": vhost,
        "exchange": exchange.as_str(),
        "write": write,
        "read": NOTHING,
    })
}

fn policies(topology: &Topology) -> Vec<Value> {
    let policies = topology.policies.iter();
    policies
        .map(|(class, policy)| {
            json!({
                "vhost": topology.broker.vhost,
                "name": class.policy_name(),
                "pattern": class.pattern(),
                "apply-to": "queues",
                "definition": policy.settings(),
                "priority": 0,
            })
        })
        .collect()
}

fn exchange(vhost: &str, exchange: Exchange) -> Value {
    json!({
        "name": exchange.as_str(),
        "vhost": vhost,
        "type": exchange.kind().as_str(),
        "durable": true,
        "auto_delete": false,
        "internal": false,
        "arguments": {},
    })
}

fn queue(vhost: &str, queue: &Queue, kind: QueueKind) -> Value {
    json!({
        "name": queue.name(),
        "vhost": vhost,
        "durable": true,
        "auto_delete": false,
        "arguments": { "x-queue-type": kind.as_str() },
    })
}

fn binding(vhost: &str, binding: &Binding) -> Value {
    json!({
        "source": binding.exchange.as_str(),
        "vhost": vhost,
        "destination": binding.queue.name(),
        "destination_type": "queue",
        "routing_key": binding.key,
        "arguments": {},
    })
}
