//! What the broker holds after the import is what was imported, and a second import changes none of it.

use std::collections::BTreeSet;
use std::time::Duration;

use live_tests::eventually;
use serde_json::{Map, Value, json};

use crate::site::{Site, VHOST};
use crate::versions::OTHERS;

/// The lists of a document, where the broker shows what it holds of each, and what tells which of that is ours.
const LISTS: [(&str, &str, &[&str]); 7] = [
    (
        "exchanges",
        "exchanges/mesh-live-tests",
        &[
            "name",
            "type",
            "durable",
            "auto_delete",
            "internal",
            "arguments",
        ],
    ),
    (
        "queues",
        "queues/mesh-live-tests",
        &["name", "durable", "auto_delete", "arguments"],
    ),
    (
        "bindings",
        "bindings/mesh-live-tests",
        &[
            "source",
            "destination",
            "destination_type",
            "routing_key",
            "arguments",
        ],
    ),
    (
        "policies",
        "policies/mesh-live-tests",
        &["name", "pattern", "apply-to", "definition", "priority"],
    ),
    (
        "permissions",
        "permissions",
        &["user", "configure", "write", "read"],
    ),
    (
        "topic_permissions",
        "topic-permissions",
        &["user", "exchange", "write", "read"],
    ),
    (
        "users",
        "users",
        &["name", "password_hash", "hashing_algorithm"],
    ),
];

/// What of a list is the mesh's: a broker has exchanges, bindings and users of its own, and other virtual hosts.
fn ours(site: &Site, entry: &Value) -> bool {
    let users = site.document["users"].as_array().unwrap();
    let in_vhost = entry.get("vhost").is_none_or(|vhost| vhost == VHOST);
    let of_the_broker = entry["name"]
        .as_str()
        .is_some_and(|name| name.is_empty() || name.starts_with("amq."));
    let default = entry["source"] == "";
    let password = entry.get("password_hash").is_none()
        || users.iter().any(|user| user["name"] == entry["name"]);
    let user = entry
        .get("user")
        .is_none_or(|name| users.iter().any(|user| user["name"] == *name));
    in_vhost && !of_the_broker && !default && password && user
}

/// A list, as far as these fields say, in an order of its own.
fn fields(list: &Value, fields: &[&str], ours: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let all = list.as_array().unwrap().iter().filter(|entry| ours(entry));
    all.map(|entry| {
        let kept: Map<String, Value> = fields
            .iter()
            .map(|field| ((*field).to_owned(), entry[*field].clone()))
            .collect();
        Value::Object(kept).to_string()
    })
    .collect()
}

#[test]
fn the_broker_holds_exactly_what_was_imported() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    for (list, path, names) in LISTS {
        let wanted = fields(&site.document[list], names, |_| true);
        let held = fields(&site.management().get(path)?, names, |entry| {
            ours(site, entry)
        });
        assert!(!wanted.is_empty(), "{list}");
        assert_eq!(held, wanted, "{list}");
    }
    let users = site.management().get("users")?;
    for user in users
        .as_array()
        .unwrap()
        .iter()
        .filter(|user| ours(site, user))
    {
        assert!(
            matches!(&user["tags"], Value::Array(tags) if tags.is_empty()) || user["tags"] == ""
        );
    }
    Ok(())
}

/// The management hears from a queue now and then, so it is asked until it has.
#[tokio::test]
async fn each_queue_has_the_limits_of_its_class() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    for queue in site.topology.queues.keys() {
        let class = queue.class();
        let (name, settings) = (
            class.policy_name(),
            json!(site.topology.policies[&class].settings()),
        );
        eventually(
            Duration::from_secs(30),
            &format!("{queue} has {name}"),
            async || {
                let held = site.management().get(&format!("queues/{VHOST}/{queue}"))?;
                Ok(held["policy"] == *name && held["effective_policy_definition"] == settings)
            },
        )
        .await?;
    }
    Ok(())
}

/// Everything the broker would export but what other tests have in virtual hosts of their own, each list in an order of its
/// own.
fn exported(site: &Site) -> anyhow::Result<Value> {
    let mut all = site.management().get("definitions")?;
    for (_, list) in all.as_object_mut().unwrap().iter_mut() {
        if let Value::Array(entries) = list {
            let elsewhere = |at: &Value| at.as_str().is_some_and(|it| it.starts_with(OTHERS));
            entries.retain(|entry| !elsewhere(&entry["vhost"]) && !elsewhere(&entry["name"]));
            entries.sort_by_key(Value::to_string);
        }
    }
    Ok(all)
}

#[test]
fn importing_again_changes_nothing() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let before = exported(site)?;
    site.management()
        .send("POST", "definitions", &site.document)?;
    assert_eq!(exported(site)?, before);
    Ok(())
}

#[test]
fn no_user_may_see_the_management() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let all = site.topology.users.keys();
    for principal in all.filter(|it| it.to_string() != crate::site::WITHOUT_PASSWORD) {
        let management = crate::login::management(site, principal);
        assert_eq!(
            management.ask("GET", "whoami", None)?.status,
            401,
            "{principal}"
        );
    }
    Ok(())
}
