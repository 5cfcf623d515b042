//! A plan for programs.

use std::collections::BTreeSet;
use std::fmt;

use mesh_model::{
    Allow, ConsumerSpec, Filter, Principal, PublicKey, QueueSubscription, StreamSpec,
};
use serde::{Serialize, Serializer};

use crate::plan::{Accounts, Plan};
use crate::render::jwt::jwt_bytes;

/// The whole plan, `kind` `Plan` of `mesh/v1`. Lists are in name order: equal plans give equal text.
pub fn json(plan: &Plan) -> Json<'_> {
    Json(plan)
}

/// A plan that is JSON to whatever serialises it, which takes no second copy of it.
#[derive(Debug, Clone, Copy)]
pub struct Json<'a>(&'a Plan);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.0;
        let document = Document {
            api_version: "mesh/v1",
            kind: "Plan",
            accounts: &plan.accounts,
            streams: plan.streams.values().collect(),
            consumers: plan.consumers.values().collect(),
            principals: principals(plan),
        };
        document.serialize(serializer)
    }
}

/// Compact, and with `#` over many lines.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if f.alternate() {
            serde_json::to_string_pretty(self)
        } else {
            serde_json::to_string(self)
        };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    accounts: &'a Accounts,
    streams: Vec<&'a StreamSpec>,
    consumers: Vec<&'a ConsumerSpec>,
    principals: Vec<OfPrincipal<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfPrincipal<'a> {
    principal: &'a Principal,
    keys: Vec<&'a PublicKey>,
    entries: usize,
    jwt_bytes: usize,
    publish: &'a Allow,
    subscribe: &'a Allow,
    queues: &'a BTreeSet<QueueSubscription>,
    reads: Vec<&'a Filter>,
}

fn principals(plan: &Plan) -> Vec<OfPrincipal<'_>> {
    let mut keys: Vec<(&Principal, &PublicKey)> =
        plan.users.iter().map(|(key, of)| (of, key)).collect();
    keys.sort_unstable();
    let mut keys = keys.into_iter().peekable();
    let of = |(principal, grant)| {
        let grant: &mesh_model::Grant = grant;
        let mut own = Vec::new();
        while let Some((of, key)) = keys.next_if(|(of, _)| *of <= principal) {
            if of == principal {
                own.push(key);
            }
        }
        OfPrincipal {
            principal,
            keys: own,
            entries: grant.entries(),
            jwt_bytes: jwt_bytes(principal, grant),
            publish: &grant.publish,
            subscribe: &grant.subscribe,
            queues: &grant.queues,
            reads: plan.reads.get(principal).into_iter().flatten().collect(),
        }
    };
    plan.grants.iter().map(of).collect()
}
