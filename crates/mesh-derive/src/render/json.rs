//! A plan for programs.

use std::collections::BTreeMap;

use mesh_model::{Filter, Principal, PublicKey};
use serde_json::{Value, json as object};

use crate::plan::Plan;
use crate::render::jwt::jwt_bytes;

/// The whole plan, `kind` `Plan` of `mesh/v1`. Lists are in name order: equal plans give equal text.
pub fn json(plan: &Plan) -> Value {
    let mut keys: BTreeMap<&Principal, Vec<&PublicKey>> = BTreeMap::new();
    for (key, principal) in &plan.users {
        keys.entry(principal).or_default().push(key);
    }
    let principals: Vec<Value> = plan
        .grants
        .iter()
        .map(|(principal, grant)| {
            object!({
                "principal": principal,
                "keys": keys.get(principal).cloned().unwrap_or_default(),
                "entries": grant.entries(),
                "jwtBytes": jwt_bytes(principal, grant),
                "publish": grant.publish,
                "subscribe": grant.subscribe,
                "queues": grant.queues,
                "reads": plan.reads.get(principal).into_iter().flatten().collect::<Vec<&Filter>>(),
            })
        })
        .collect();
    object!({
        "apiVersion": "mesh/v1",
        "kind": "Plan",
        "accounts": plan.accounts,
        "streams": plan.streams.values().collect::<Vec<_>>(),
        "consumers": plan.consumers.values().collect::<Vec<_>>(),
        "principals": principals,
    })
}
