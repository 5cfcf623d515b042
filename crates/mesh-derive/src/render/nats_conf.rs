//! The accounts of a server whose files the controller writes, and the users in the file they include.

use mesh_model::{BusKind, Grant, Principal, PublicKey};

use crate::derive::system_grant;
use crate::plan::{Plan, Share};
use crate::render::jwt::{NatsPermission, user_claims};
use crate::render::put;

/// The account that holds JetStream: what [`mesh_model::BusFacts`] is told, since its hash stands in ack subjects.
pub const MESH_ACCOUNT: &str = "MESH";
/// The account of everybody but the controller.
pub const EDGE_ACCOUNT: &str = "EDGE";
/// The account reloads are asked for in.
pub const SYSTEM_ACCOUNT: &str = "SYS";
/// The included file, beside the one that includes it. It alone changes while the server runs.
pub const EDGE_USERS_FILE: &str = "edge-users.conf";

/// The users of everybody who has a key: the content of [`EDGE_USERS_FILE`]. Equal plans give equal bytes.
pub fn edge_users(plan: &Plan) -> String {
    let plan = plan.on(BusKind::Nats);
    let users = plan.users.iter().chain(&plan.retiring);
    let mut by_principal: Vec<_> = users.map(|(key, of)| (of, key)).collect();
    by_principal.sort_unstable();
    let mut text =
        "# Written by the controller from what was declared. Do not edit.\nusers: [\n".to_owned();
    for (principal, key) in by_principal {
        if let Some(grant) = plan.grants.get(principal) {
            put(&mut text, format_args!("  # {principal}\n"));
            user(&mut text, "  ", key, grant);
        }
    }
    text.push_str("]\n");
    text
}

/// The accounts block: the three accounts, what they share, and the two users of the controller.
///
/// `controller` is its key in the account that holds JetStream, `system` its key in the system account; neither may be
/// a key of the plan's, which a server would refuse to read.
pub fn accounts(plan: &Plan, controller: &PublicKey, system: &PublicKey) -> String {
    let plan = plan.on(BusKind::Nats);
    let mut text =
        format!("accounts {{\n  {MESH_ACCOUNT} {{\n    jetstream: enabled\n    users: [\n");
    if let Some(grant) = plan.grants.get(&Principal::Controller) {
        user(&mut text, "      ", controller, grant);
    }
    text.push_str("    ]\n");
    exports(&mut text, plan.accounts.mesh_exports.iter());
    imports(&mut text, EDGE_ACCOUNT, plan.accounts.edge_exports.iter());
    put(
        &mut text,
        format_args!("  }}\n  {EDGE_ACCOUNT} {{\n    include \"{EDGE_USERS_FILE}\"\n"),
    );
    exports(&mut text, plan.accounts.edge_exports.iter());
    imports(&mut text, MESH_ACCOUNT, plan.accounts.mesh_exports.iter());
    put(
        &mut text,
        format_args!("  }}\n  {SYSTEM_ACCOUNT} {{\n    users: [\n"),
    );
    user(&mut text, "      ", system, &system_grant());
    put(
        &mut text,
        format_args!("    ]\n  }}\n}}\nsystem_account: {SYSTEM_ACCOUNT}\n"),
    );
    text
}

fn user(text: &mut String, indent: &str, key: &PublicKey, grant: &Grant) {
    let permissions = user_claims(grant);
    put(
        text,
        format_args!("{indent}{{ nkey: {key}, permissions: {{\n"),
    );
    side(text, indent, "publish", &permissions.publish);
    side(text, indent, "subscribe", &permissions.subscribe);
    put(text, format_args!("{indent}}} }}\n"));
}

fn side(text: &mut String, indent: &str, name: &str, permission: &NatsPermission) {
    let (list, entries) = if permission.allow.is_empty() {
        ("deny", &permission.deny)
    } else {
        ("allow", &permission.allow)
    };
    let quoted: Vec<String> = entries.iter().map(|entry| quoted(entry)).collect();
    let quoted = quoted.join(", ");
    put(
        text,
        format_args!("{indent}  {name}: {{ {list}: [{quoted}] }}\n"),
    );
}

fn exports<'a>(text: &mut String, shares: impl Iterator<Item = &'a Share>) {
    text.push_str("    exports: [\n");
    for share in shares {
        let (kind, filter) = parts(share);
        put(text, format_args!("      {{ {kind}: {filter} }}\n"));
    }
    text.push_str("    ]\n");
}

fn imports<'a>(text: &mut String, from: &str, shares: impl Iterator<Item = &'a Share>) {
    text.push_str("    imports: [\n");
    for share in shares {
        let (kind, filter) = parts(share);
        put(
            text,
            format_args!("      {{ {kind}: {{ account: {from}, subject: {filter} }} }}\n"),
        );
    }
    text.push_str("    ]\n");
}

fn parts(share: &Share) -> (&'static str, String) {
    match share {
        Share::Stream(filter) => ("stream", quoted(filter.as_str())),
        Share::Service(filter) => ("service", quoted(filter.as_str())),
    }
}

/// In quotes, since `$` begins a variable outside of them. No backslash or quote is in a name; a domain may have one.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
