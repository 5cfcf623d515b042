//! A plan for people: who may do what.

use mesh_model::Grant;

use crate::plan::Plan;
use crate::render::jwt::{jwt_bytes, user_claims};
use crate::render::put;

/// Each principal, how many entries its grant has, the bytes of the user JWT that would carry it, and the entries.
pub fn table(plan: &Plan) -> String {
    let mut text = format!("{:<40} {:>7} {:>9}\n", "PRINCIPAL", "ENTRIES", "JWT BYTES");
    for (principal, grant) in &plan.grants {
        let name = principal.to_string();
        let bytes = jwt_bytes(principal, grant);
        let count = grant.entries();
        put(
            &mut text,
            format_args!("{name:<40} {count:>7} {bytes:>9}\n"),
        );
        entries(&mut text, grant);
    }
    text
}

fn entries(text: &mut String, grant: &Grant) {
    let permissions = user_claims(grant);
    let publish = permissions
        .publish
        .allow
        .into_iter()
        .map(|e| ("publish", e));
    let subscribe = permissions.subscribe.allow.into_iter();
    for (verb, entry) in publish.chain(subscribe.map(|e| ("subscribe", e))) {
        put(text, format_args!("  {verb:<9} {entry}\n"));
    }
}
