//! A broker's own word for what somebody may, held against what was derived: it also shows what no attempt happens upon.

use mesh_derive::topology::{Queue, Rights};
use mesh_model::{Principal, one_line};

use crate::definitions::{Document, Part, difference};

/// What was derived and what the broker holds.
#[derive(Debug)]
pub(crate) struct Word<'a> {
    /// What was derived.
    pub(crate) wanted: &'a Document,
    /// What it holds.
    pub(crate) found: &'a Document,
}

impl Word<'_> {
    /// Where they differ about one user, in words.
    pub(crate) fn differences(&self, who: &Principal, user: &str, rights: &Rights) -> Vec<String> {
        let wanted = self.wanted.of_user(user);
        let mut said: Vec<String> = wanted
            .beyond(self.found)
            .map(|(kind, identity, wanted)| {
                let what = about(kind, identity);
                match self.found.get(kind, identity) {
                    None => format!("{who}: the broker has not {what}"),
                    Some(found) => of_fields(who, &what, wanted, found),
                }
            })
            .collect();
        let rows = self.found.of_user(user);
        let too_many = rows.all(Part::TopicPermissions).filter(|(identity, row)| {
            wanted.get(Part::TopicPermissions, identity).is_none()
                && !crate::asserting::is_closed(row)
        });
        said.extend(too_many.map(|(identity, _)| {
            let what = about(Part::TopicPermissions, identity);
            format!("{who}: the broker has {what}, which is not derived")
        }));
        said.extend(rights.read.iter().flat_map(|queue| self.bound(who, queue)));
        said.iter().map(|it| one_line(it)).collect()
    }

    /// What comes into a queue somebody reads, and is not to, or does not come.
    fn bound(&self, who: &Principal, queue: &Queue) -> Vec<String> {
        let name = queue.name();
        let of = |document: &Document| {
            let all = document.all(Part::Bindings);
            let own = all.filter(|(identity, _)| {
                let field = |at: usize| identity.get(at).map(String::as_str);
                field(0) == Some(name.as_str()) && field(3) == Some("queue")
            });
            own.map(|(identity, _)| identity.clone())
                .collect::<std::collections::BTreeSet<_>>()
        };
        let (wanted, found) = (of(self.wanted), of(self.found));
        let from = |identity: &[String]| identity.get(1..3).unwrap_or_default().join(" ");
        let more = found.difference(&wanted).map(|identity| {
            let from = from(identity);
            format!("{who}: the broker binds {name} to {from}, which is not derived")
        });
        let less = wanted.difference(&found).map(|identity| {
            let from = from(identity);
            format!("{who}: the broker does not bind {name} to {from}")
        });
        more.chain(less).collect()
    }
}

fn of_fields(
    who: &Principal,
    what: &str,
    wanted: &serde_json::Value,
    found: &serde_json::Value,
) -> String {
    match difference(wanted, found) {
        // What is kept of a password is nobody's to read.
        Some((field, _)) if field.contains("hash") => {
            format!("{who}: the broker has another {field} of {what}")
        }
        Some((field, there)) => {
            let wanted = wanted.get(&field).cloned().unwrap_or_default();
            format!("{who}: the broker has for {what} {field} {there} instead of {wanted}")
        }
        None => format!("{who}: the broker has another {what}"),
    }
}

fn about(kind: Part, identity: &[String]) -> String {
    match (kind, identity) {
        (Part::TopicPermissions, [_, exchange]) => format!("the keys on {exchange}"),
        (Part::Permissions, _) => "the permissions".to_owned(),
        _ => "the user".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(write: &str, keys: &[&str]) -> Document {
        let mut document = Document::default();
        document.add(
            Part::Users,
            json!({ "name": "node.a", "password_hash": "secret", "tags": "" }),
        );
        document.add(
            Part::Permissions,
            json!({ "user": "node.a", "write": write }),
        );
        for exchange in keys {
            document.add(
                Part::TopicPermissions,
                json!({ "user": "node.a", "exchange": exchange, "write": "k", "read": "" }),
            );
        }
        document.add(
            Part::Bindings,
            json!({ "destination": "node.a", "source": "mesh.decl", "routing_key": "a", "destination_type": "queue" }),
        );
        document
    }

    #[test]
    fn each_row_that_is_another_is_said_and_no_hash_is() {
        let wanted = document("w", &["mesh.ctl"]);
        let rights = Rights {
            read: [Queue::Node("a".parse().unwrap())].into(),
            ..Rights::default()
        };
        let who: Principal = "node/a".parse().unwrap();
        let said = |found: &Document| {
            Word {
                wanted: &wanted,
                found,
            }
            .differences(&who, "node.a", &rights)
        };
        assert_eq!(said(&wanted), Vec::<String>::new());
        let mut bound = wanted.clone();
        bound.add(
            Part::Bindings,
            json!({ "destination": "node.a", "source": "mesh.ev", "routing_key": "#", "destination_type": "queue" }),
        );
        let mut other = wanted.clone();
        other.add(
            Part::Users,
            json!({ "name": "node.a", "password_hash": "another", "tags": "" }),
        );
        for (found, of) in [
            (document("x", &["mesh.ctl"]), "write \"x\" instead of \"w\""),
            (document("w", &[]), "has not the keys on mesh.ctl"),
            (
                document("w", &["mesh.ctl", "mesh.ev"]),
                "the keys on mesh.ev, which is not derived",
            ),
            (bound, "binds node.a to mesh.ev #"),
            (other, "another password_hash of the user"),
            (Document::default(), "does not bind node.a to mesh.decl a"),
        ] {
            let said = said(&found).join("; ");
            assert!(said.contains(of), "{of}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
