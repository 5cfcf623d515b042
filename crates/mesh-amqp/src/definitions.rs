//! What a broker holds and what it is to hold, as the documents its management gives out and takes in.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::render::rabbitmq::{Secrets, definitions};
use mesh_derive::topology::{Topology, login, principal_of, whose_login};
use mesh_model::Principal;
use serde_json::{Map, Value, json};

/// A kind of definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Vhosts,
    Exchanges,
    Queues,
    Policies,
    Bindings,
    Users,
    TopicPermissions,
    Permissions,
}

/// Definitions of each kind, by what tells one from another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Document(BTreeMap<Part, BTreeMap<Identity, Value>>);

/// What tells a definition from others of its kind.
pub(crate) type Identity = Vec<String>;

/// How the mesh's principals are called on one broker.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// What each name begins with.
    pub(crate) users: String,
    /// The controller's, while its epoch lasts.
    pub(crate) controller: Option<String>,
}

impl Part {
    const ALL: [Self; 8] = [
        Self::Vhosts,
        Self::Exchanges,
        Self::Queues,
        Self::Policies,
        Self::Bindings,
        Self::Users,
        Self::TopicPermissions,
        Self::Permissions,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Vhosts => "vhosts",
            Self::Exchanges => "exchanges",
            Self::Queues => "queues",
            Self::Policies => "policies",
            Self::Bindings => "bindings",
            Self::Users => "users",
            Self::Permissions => "permissions",
            Self::TopicPermissions => "topic_permissions",
        }
    }

    /// What one is called in a sentence.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Vhosts => "virtual host",
            Self::Exchanges => "exchange",
            Self::Queues => "queue",
            Self::Policies => "policy",
            Self::Bindings => "binding",
            Self::Users | Self::Permissions | Self::TopicPermissions => "user",
        }
    }

    const fn identity(self) -> &'static [&'static str] {
        match self {
            Self::Vhosts | Self::Exchanges | Self::Queues | Self::Policies | Self::Users => {
                &["name"]
            }
            Self::Bindings => &["destination", "source", "routing_key", "destination_type"],
            Self::Permissions => &["user"],
            Self::TopicPermissions => &["user", "exchange"],
        }
    }

    /// Whether one that differs cannot be changed in place.
    pub(crate) const fn is_immutable(self) -> bool {
        matches!(self, Self::Exchanges | Self::Queues)
    }
}

impl Document {
    /// What of these definitions is this virtual host's, and every user.
    pub(crate) fn read(definitions: &Value, vhost: &str) -> Self {
        let mut document = Self::default();
        for part in Part::ALL {
            let listed = definitions.get(part.name()).and_then(Value::as_array);
            for definition in listed.into_iter().flatten() {
                let of = definition.get("vhost").and_then(Value::as_str);
                let by_default = definition.get("source").and_then(Value::as_str) == Some("");
                if of.is_some_and(|of| of != vhost) || by_default {
                    continue;
                }
                let mut definition = definition.clone();
                if !matches!(part, Part::Users | Part::Vhosts) {
                    // A list of one virtual host's own does not say which.
                    set(&mut definition, "vhost", json!(vhost));
                }
                document.add(part, definition);
            }
        }
        document
    }

    /// What a topology is on its broker, with each user's password as this hash.
    pub(crate) fn of(
        topology: &Topology,
        hashes: &BTreeMap<Principal, String>,
        names: &Names,
    ) -> Self {
        let written = definitions(topology, &Secrets::new());
        let mut document = Self::default();
        let derived = Self::read(&written, &topology.broker.vhost);
        for (part, definitions) in derived.0 {
            for mut definition in definitions.into_values() {
                let field = match part {
                    Part::Users => "name",
                    Part::Permissions | Part::TopicPermissions => "user",
                    _ => {
                        document.add(part, definition);
                        continue;
                    }
                };
                let who = definition.get(field).and_then(Value::as_str);
                let Some(who) = who.and_then(principal_of) else {
                    continue;
                };
                let Some(name) = names.of(&who) else { continue };
                set(&mut definition, field, json!(name));
                if part == Part::Users {
                    let hash = hashes.get(&who).cloned().unwrap_or_default();
                    set(&mut definition, "password_hash", json!(hash));
                }
                document.add(part, definition);
            }
        }
        document
    }

    pub(crate) fn add(&mut self, part: Part, mut definition: Value) {
        if part == Part::Users {
            plain(&mut definition);
        }
        let fields = part.identity().iter();
        let identity = fields.map(|field| {
            let text = definition.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        });
        let identity = identity.collect();
        self.0.entry(part).or_default().insert(identity, definition);
    }

    /// All of one kind.
    pub(crate) fn all(&self, part: Part) -> impl Iterator<Item = (&Identity, &Value)> {
        self.0.get(&part).into_iter().flatten()
    }

    pub(crate) fn get(&self, part: Part, identity: &[String]) -> Option<&Value> {
        self.0.get(&part)?.get(identity)
    }

    /// What of it is about one user.
    pub(crate) fn of_user(&self, user: &str) -> Self {
        let mut own = Self::default();
        for kind in [Part::Users, Part::Permissions, Part::TopicPermissions] {
            for (identity, definition) in self.all(kind) {
                if identity.first().is_some_and(|of| of == user) {
                    own.add(kind, definition.clone());
                }
            }
        }
        own
    }

    /// The same, with each user of it tagged so.
    pub(crate) fn tagged(&self, tag: &str) -> Self {
        let mut tagged = self.clone();
        for user in tagged.0.entry(Part::Users).or_default().values_mut() {
            set(user, "tags", json!(tag));
        }
        tagged
    }

    /// Without what of it is about one user.
    pub(crate) fn forget_user(&mut self, user: &str) {
        for kind in [Part::Users, Part::Permissions, Part::TopicPermissions] {
            let all = self.0.entry(kind).or_default();
            all.retain(|identity, _| identity.first().is_none_or(|of| of != user));
        }
    }

    /// All of another as well.
    pub(crate) fn extend(&mut self, other: Self) {
        for (kind, definitions) in other.0 {
            self.0.entry(kind).or_default().extend(definitions);
        }
    }

    /// What `found` lacks of this, or has otherwise.
    pub(crate) fn beyond<'a>(
        &'a self,
        found: &'a Self,
    ) -> impl Iterator<Item = (Part, &'a Identity, &'a Value)> {
        self.0.iter().flat_map(move |(part, definitions)| {
            let lacking = definitions.iter().filter(move |(identity, definition)| {
                let there = found.get(*part, identity);
                there.is_none_or(|there| difference(definition, there).is_some())
            });
            lacking.map(|(identity, definition)| (*part, identity, definition))
        })
    }

    /// The same in parts, each of which a broker takes in within seconds. What others need comes before them, and who may
    /// reach an exchange at all last: until it is said which keys somebody may write there, a broker lets every key pass.
    pub(crate) fn batches(&self) -> Vec<Self> {
        let mut batches = Vec::new();
        for last in [Part::Bindings, Part::TopicPermissions, Part::Permissions] {
            let group = |kind: &Part| *kind <= last && !batched(&batches, *kind);
            let all = self.0.iter().filter(|(kind, _)| group(kind));
            let all = all.flat_map(|(kind, all)| all.values().map(|one| (*kind, one.clone())));
            let all: Vec<(Part, Value)> = all.collect();
            batches.extend(all.chunks(BATCH).map(|chunk| {
                let mut batch = Self::default();
                for (kind, definition) in chunk {
                    batch.add(*kind, definition.clone());
                }
                batch
            }));
        }
        batches
    }

    /// In the form the broker takes in.
    pub(crate) fn to_value(&self) -> Value {
        let parts = self.0.iter().map(|(part, definitions)| {
            let listed: Vec<&Value> = definitions.values().collect();
            (part.name().to_owned(), json!(listed))
        });
        Value::Object(parts.collect::<Map<_, _>>())
    }
}

impl Names {
    /// What a principal is called; nothing for the controller before its epoch began.
    pub(crate) fn of(&self, who: &Principal) -> Option<String> {
        match who {
            Principal::Controller => self.controller.clone(),
            who => Some(login(&self.users, who)),
        }
    }

    /// Whether a user is one of the mesh's, and who.
    pub(crate) fn whose(&self, user: &str) -> Option<Principal> {
        whose_login(&self.users, user)
    }
}

fn batched(batches: &[Document], kind: Part) -> bool {
    batches.iter().any(|batch| batch.0.contains_key(&kind))
}

/// Definitions a broker is given at once.
const BATCH: usize = 500;

/// The first field of a definition that is another one on the broker: which, and what it is there.
pub(crate) fn difference(wanted: &Value, found: &Value) -> Option<(String, Value)> {
    let wanted = wanted.as_object()?;
    let differs = wanted
        .iter()
        .find(|(field, value)| found.get(*field) != Some(value));
    differs.map(|(field, _)| {
        let there = found.get(field).cloned().unwrap_or_default();
        (field.clone(), there)
    })
}

/// Users that somebody has permissions for here, by name.
pub(crate) fn with_permissions(document: &Document) -> BTreeSet<&str> {
    let rows = document.all(Part::Permissions);
    rows.filter_map(|(identity, _)| identity.first().map(String::as_str))
        .collect()
}

/// A broker gives out a user's tags as a list and takes in a text, and adds limits that nobody set.
fn plain(user: &mut Value) {
    let tags = match user.get("tags") {
        Some(Value::Array(tags)) => tags
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(","),
        Some(Value::String(tags)) => tags.clone(),
        _ => String::new(),
    };
    set(user, "tags", json!(tags));
}

pub(crate) fn set(definition: &mut Value, field: &str, value: Value) {
    if let Some(fields) = definition.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first_and_the_right_to_reach_an_exchange_last() {
        let mut document = Document::default();
        for nth in 0..BATCH {
            let user = format!("u{nth}");
            document.add(Part::Permissions, json!({ "user": user, "write": "x" }));
            document.add(
                Part::TopicPermissions,
                json!({ "user": user, "exchange": "x" }),
            );
            document.add(Part::Users, json!({ "name": user, "tags": "" }));
            document.add(Part::Queues, json!({ "name": user }));
        }
        document.add(Part::Exchanges, json!({ "name": "x" }));
        let batches = document.batches();
        let sizes = batches
            .iter()
            .map(|batch| batch.0.values().map(BTreeMap::len).sum());
        assert_eq!(sizes.collect::<Vec<usize>>(), [500, 1, 500, 500, 500]);
        let first = batches.first().unwrap();
        assert!(first.get(Part::Exchanges, &["x".to_owned()]).is_some());
        let of = |kind| {
            batches
                .iter()
                .rposition(|batch| batch.0.contains_key(&kind))
        };
        assert!(of(Part::Queues) < of(Part::Users));
        assert!(of(Part::Users) < of(Part::TopicPermissions));
        assert!(of(Part::TopicPermissions) < of(Part::Permissions));
        let mut whole = Document::default();
        for batch in batches {
            whole.extend(batch);
        }
        assert_eq!(whole, document);
    }

    #[test]
    fn a_user_that_is_marked_differs_until_it_is_as_it_is_to_be() {
        let mut rows = Document::default();
        for user in ["module.a.n", "module.b.n"] {
            rows.add(
                Part::Users,
                json!({ "name": user, "password_hash": "h", "tags": "" }),
            );
            rows.add(Part::Permissions, json!({ "user": user, "read": "x" }));
        }
        let marked = rows.of_user("module.a.n").tagged("mesh-closing");
        let mut found = rows.clone();
        found.extend(marked);
        let beyond: Vec<_> = rows
            .beyond(&found)
            .map(|(kind, of, _)| (kind, of.concat()))
            .collect();
        assert_eq!(beyond, [(Part::Users, "module.a.n".to_owned())]);
        found.extend(rows.of_user("module.a.n"));
        assert_eq!(found, rows);
        found.forget_user("module.a.n");
        assert_eq!(with_permissions(&found).len(), 1);
        assert!(found.get(Part::Users, &["module.a.n".to_owned()]).is_none());
    }

    #[test]
    fn a_user_is_the_same_as_it_was_given_and_as_a_broker_gives_it_out() {
        let mut given = Document::default();
        given.add(
            Part::Users,
            json!({ "name": "node.a", "password_hash": "h", "tags": "" }),
        );
        for (tags, same) in [(json!([]), true), (json!(["administrator"]), false)] {
            let out = json!({ "users": [{ "name": "node.a", "password_hash": "h", "tags": tags, "limits": {} }] });
            let found = Document::read(&out, "mesh");
            assert_eq!(given.beyond(&found).next().is_none(), same, "{tags}");
        }
    }
}
