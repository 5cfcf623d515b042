//! Bringing a broker to a plan: read what there is, compare, write only what differs.
//!
//! In this order: what is missing is made before anybody who needs it can log in; what somebody may no longer do is taken
//! from him before another may do it; what nobody reads any more goes last.

mod found;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mesh_bus::{Asserted, BusError, Disturbance};
use mesh_derive::topology::{Queue, Rights, Topology, topology};
use mesh_derive::{Bounds, Plan};
use mesh_model::Principal;
use serde_json::{Value, json};

use crate::definitions::{Document, Identity, Names, Part, difference, with_permissions};
use crate::epoch::Epoch;
use crate::guests::is_guest;
use crate::management::{Management, part};

pub(crate) use found::Found;
pub(crate) use users::is_closed;

/// What was asserted last: by it one knows what the mesh itself no longer derives, and what a sweep must find.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    wanted: Document,
    rights: BTreeMap<Principal, Rights>,
    queues: BTreeSet<String>,
}

/// One bringing of a broker to a plan.
pub(crate) struct Asserting<'a> {
    pub(crate) management: &'a Arc<Management>,
    pub(crate) epoch: &'a Epoch,
    pub(crate) plan: &'a Plan,
    pub(crate) bounds: &'a Bounds,
    pub(crate) topology: &'a Topology,
    pub(crate) hashes: BTreeMap<Principal, String>,
    /// Hashes that were replaced, and whose owners need not log in anew for it.
    pub(crate) retiring: BTreeMap<Principal, String>,
    pub(crate) found: Document,
    pub(crate) done: Asserted,
    /// The first thing that could not be done while the rest could.
    pub(crate) refused: Option<BusError>,
}

impl Asserting<'_> {
    pub(crate) async fn run(mut self, memory: &mut Memory) -> Result<Asserted, BusError> {
        let names = self.epoch.names();
        let wanted = Document::of(self.topology, &self.hashes, &names);
        memory
            .queues
            .extend(self.topology.queues.keys().map(Queue::name));
        self.make_what_is_missing(&wanted).await?;
        if let Some(first) = self.withdrawn(&wanted, memory) {
            let first = topology(&first, self.bounds, &self.topology.broker);
            let rows = Document::of(&first, &self.hashes, &names);
            self.bring_users(&first, &rows, memory, &names).await?;
        }
        self.bring_users(self.topology, &wanted, memory, &names)
            .await?;
        self.remove_bindings(&wanted).await?;
        self.remove_queues(&wanted, memory).await?;
        self.list_strays(&wanted, &names);
        memory.queues = self.topology.queues.keys().map(Queue::name).collect();
        memory.wanted = wanted;
        self.refused.map_or(Ok(self.done), Err)
    }

    /// The virtual host, exchanges, queues, policies and bindings.
    async fn make_what_is_missing(&mut self, wanted: &Document) -> Result<(), BusError> {
        let mut made = Document::default();
        let mut written = Vec::new();
        let mut immutable = Vec::new();
        for (kind, identity, definition) in wanted.beyond(&self.found) {
            if kind >= Part::Users {
                continue;
            }
            match self.found.get(kind, identity) {
                Some(there) if kind.is_immutable() => {
                    immutable.extend(unchangeable(kind, identity, definition, there));
                    continue;
                }
                there => written.extend(self.in_words(kind, identity, there.is_some())),
            }
            made.add(kind, definition.clone());
        }
        for error in immutable {
            self.refuse(error);
        }
        if !with_permissions(&self.found).contains(self.management.user.as_str()) {
            made.add(Part::Permissions, self.everything_to_the_provisioner());
            written.push(format!("user {}: may provision", self.management.user));
        }
        self.write(&made).await?;
        self.done.written.extend(written);
        Ok(())
    }

    /// What was made, or changed; nothing for what comes with something else that was.
    fn in_words(&self, kind: Part, identity: &Identity, changed: bool) -> Option<String> {
        let name = identity.first()?;
        if kind == Part::Bindings {
            let with_queue = self
                .found
                .get(Part::Queues, std::slice::from_ref(name))
                .is_none();
            let from = identity.get(1).zip(identity.get(2));
            return from
                .filter(|_| !with_queue)
                .map(|(exchange, key)| format!("queue {name}: bound to {exchange} {key}"));
        }
        let done = if changed { "changed" } else { "made" };
        Some(format!("{} {name}: {done}", kind.word()))
    }

    /// What a queue of the mesh's gets that is not derived: it is authority, and goes.
    async fn remove_bindings(&mut self, wanted: &Document) -> Result<(), BusError> {
        let mut gone = Vec::new();
        for (identity, _) in self.found.all(Part::Bindings) {
            let [queue, exchange, key, kind] = identity.as_slice() else {
                continue;
            };
            let ours = kind == "queue"
                && wanted
                    .get(Part::Queues, std::slice::from_ref(queue))
                    .is_some();
            if ours && wanted.get(Part::Bindings, identity).is_none() {
                gone.push((queue.clone(), exchange.clone(), key.clone()));
            }
        }
        for (queue, exchange, key) in gone {
            let vhost = &self.topology.broker.vhost;
            let [vhost_part, from, to] = [vhost, &exchange, &queue].map(|name| part(name));
            let between = format!("/api/bindings/{vhost_part}/e/{from}/q/{to}");
            let listed = self.management.get(&between).await?;
            let listed = listed.as_ref().and_then(Value::as_array);
            let of_key = listed.into_iter().flatten().filter(|binding| {
                binding.get("routing_key").and_then(Value::as_str) == Some(key.as_str())
            });
            for binding in of_key {
                let named = binding.get("properties_key").and_then(Value::as_str);
                let path = format!("{between}/{}", part(named.unwrap_or_default()));
                self.management.delete(&path).await?;
            }
            let words = format!("queue {queue}: no longer bound to {exchange} {key}");
            self.done.written.push(words);
        }
        Ok(())
    }

    /// Deletes queues this controller derived before and no longer does; a seat's only once it is empty.
    async fn remove_queues(&mut self, wanted: &Document, memory: &Memory) -> Result<(), BusError> {
        let mut gone = Vec::new();
        for (identity, _) in self.found.all(Part::Queues) {
            let Some(name) = identity.first() else {
                continue;
            };
            if wanted.get(Part::Queues, identity).is_none() {
                let ours = memory.queues.contains(name);
                gone.push((name.clone(), ours.then(|| Queue::named(name)).flatten()));
            }
        }
        for (name, queue) in gone {
            let if_empty = match queue {
                None => {
                    self.done.strays.push(format!("queue {name}"));
                    continue;
                }
                Some(Queue::Seat(_)) => "?if-empty=true",
                Some(_) => "",
            };
            let vhost = part(&self.topology.broker.vhost);
            let path = format!("/api/queues/{vhost}/{}{if_empty}", part(&name));
            match self.management.delete(&path).await {
                Ok(()) => self.done.written.push(format!("queue {name}: deleted")),
                Err(BusError::Refused { .. }) if !if_empty.is_empty() => {
                    self.done
                        .strays
                        .push(format!("queue {name} (it holds work)"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn list_strays(&mut self, wanted: &Document, names: &Names) {
        for kind in [Part::Exchanges, Part::Policies] {
            for (identity, _) in self.found.all(kind) {
                if wanted.get(kind, identity).is_none() {
                    let stray = format!("{} {}", kind.word(), identity.join(" "));
                    self.done.strays.push(stray);
                }
            }
        }
        for user in with_permissions(&self.found) {
            let known = names.whose(user).is_some() || is_guest(&names.users, user);
            if !known && user != self.management.user {
                self.done.strays.push(format!("user {user}"));
            }
        }
    }

    fn everything_to_the_provisioner(&self) -> Value {
        provisioner(&self.management.user, &self.topology.broker.vhost)
    }

    async fn write(&self, document: &Document) -> Result<(), BusError> {
        write(self.management, document).await
    }

    fn refuse(&mut self, error: BusError) {
        tracing::error!(%error, "a definition could not be brought to the plan");
        self.refused.get_or_insert(error);
    }
}

/// Makes what of the mesh's own is missing, and leaves what is there as it is.
pub(crate) async fn make_missing(
    management: &Management,
    topology: &Topology,
    found: &Document,
    names: &Names,
) -> Result<(), BusError> {
    let wanted = Document::of(topology, &BTreeMap::new(), names);
    let mut made = Document::default();
    for (kind, identity, definition) in wanted.beyond(found) {
        if kind < Part::Users && found.get(kind, identity).is_none() {
            made.add(kind, definition.clone());
        }
    }
    if !with_permissions(found).contains(management.user.as_str()) {
        let everything = provisioner(&management.user, &topology.broker.vhost);
        made.add(Part::Permissions, everything);
    }
    write(management, &made).await
}

impl Memory {
    /// Whether this is what was asserted last.
    pub(crate) fn is(&self, wanted: &Document) -> bool {
        self.wanted == *wanted
    }

    /// The worst that was asserted and is no longer there, or not as it was.
    pub(crate) fn disturbed(&self, found: &Document) -> Option<Disturbance> {
        let gone = self.wanted.beyond(found).map(|(kind, identity, _)| {
            let queue = (kind == Part::Queues).then(|| identity.first()).flatten();
            match queue.and_then(|name| Queue::named(name)) {
                Some(Queue::Node(_) | Queue::Mark) => Disturbance::Declarations,
                _ => Disturbance::Definitions,
            }
        });
        gone.max()
    }
}

/// Has the broker take in definitions: what is there already is as they say from then on.
pub(crate) async fn write(management: &Management, document: &Document) -> Result<(), BusError> {
    for batch in document.batches() {
        let written = management
            .post("/api/definitions", &batch.to_value())
            .await?;
        written.ok_or_else(|| BusError::Refused {
            what: "the broker's definitions".to_owned(),
            why: "its management takes none; the account that provisions is an administrator"
                .to_owned(),
        })?;
    }
    Ok(())
}

/// The management makes and unmakes some things as the account that asks, with what that account may.
fn provisioner(user: &str, vhost: &str) -> Value {
    json!({ "user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*" })
}

fn unchangeable(
    kind: Part,
    identity: &Identity,
    wanted: &Value,
    found: &Value,
) -> Option<BusError> {
    let (field, there) = difference(wanted, found)?;
    let what = format!("{} {}", kind.word(), identity.join(" "));
    Some(BusError::Immutable {
        remedy: format!(
            "what it holds would be lost with it: stop its publishers, let its readers empty it, delete the {what}, and it is made anew"
        ),
        what,
        found: there.to_string(),
        wanted: wanted.get(&field).cloned().unwrap_or_default().to_string(),
        field,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(queues: &[&str]) -> Document {
        let mut document = Document::default();
        for name in queues {
            document.add(Part::Queues, json!({ "name": name, "durable": true }));
        }
        document
    }

    #[test]
    fn what_is_gone_is_a_disturbance_and_a_nodes_queue_the_worst_of_it() {
        let memory = Memory {
            wanted: document(&["ctl.report", "node.a"]),
            ..Memory::default()
        };
        for (found, disturbed) in [
            (&["ctl.report", "node.a", "somebody's"][..], None),
            (&["node.a"][..], Some(Disturbance::Definitions)),
            (&["ctl.report"][..], Some(Disturbance::Declarations)),
            (&[][..], Some(Disturbance::Declarations)),
        ] {
            assert_eq!(memory.disturbed(&document(found)), disturbed, "{found:?}");
        }
        let mut changed = document(&["node.a"]);
        changed.add(
            Part::Queues,
            json!({ "name": "ctl.report", "durable": false }),
        );
        assert_eq!(memory.disturbed(&changed), Some(Disturbance::Definitions));
    }

    #[test]
    fn a_queue_that_differs_is_named_with_what_to_do() {
        let [wanted, found] =
            [true, false].map(|durable| json!({ "name": "node.a", "durable": durable }));
        let error = unchangeable(Part::Queues, &vec!["node.a".to_owned()], &wanted, &found);
        let said = error.unwrap().to_string();
        assert!(
            said.starts_with("queue node.a differs in durable, which cannot be changed in place (false instead of true)"),
            "{said}"
        );
        assert!(said.contains("delete the queue node.a"), "{said}");
    }
}
