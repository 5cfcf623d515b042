//! Bringing a broker to a plan: read what there is, compare, write only what differs.
//!
//! In this order: what is missing is made before anybody who needs it can log in; what somebody may no longer do is taken
//! from him before another may do it; what nobody reads any more goes last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mesh_bus::{Asserted, BusError, Disturbance};
use mesh_derive::topology::{BrokerVersion, NOTHING, Queue, Rights, Topology};
use mesh_model::Principal;
use serde_json::{Value, json};

use crate::definitions::{Document, Identity, Names, Part, difference, set, with_permissions};
use crate::epoch::Epoch;
use crate::management::{Management, part};

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
    pub(crate) topology: &'a Topology,
    pub(crate) hashes: BTreeMap<Principal, String>,
    pub(crate) found: Document,
    pub(crate) done: Asserted,
    /// The first thing that could not be done while the rest could.
    pub(crate) refused: Option<BusError>,
}

/// Everything a broker holds, and what it is.
pub(crate) struct Found {
    pub(crate) document: Document,
    pub(crate) version: BrokerVersion,
}

impl Found {
    /// Reads it. What a broker holds beside the virtual host is no concern of the mesh's, and a list of it may fail for
    /// what others are doing there just now.
    pub(crate) async fn read(management: &Management, vhost: &str) -> Result<Self, BusError> {
        let at = part(vhost);
        let there = management
            .get(&format!("/api/vhosts/{at}?columns=name"))
            .await?;
        let own = match &there {
            Some(_) => management.get(&format!("/api/definitions/{at}")).await?,
            None => management.get("/api/overview").await?,
        };
        let own = own.unwrap_or_default();
        let version = own
            .get("rabbit_version")
            .or_else(|| own.get("rabbitmq_version"))
            .and_then(Value::as_str);
        let version = version.unwrap_or_default().parse::<BrokerVersion>();
        let mut all = if there.is_some() {
            own.clone()
        } else {
            json!({})
        };
        let no_queues = all
            .get("queues")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty);
        if there.is_some() && no_queues {
            // One told to keep no statistics leaves queues and their bindings out of its definitions.
            for section in ["queues", "bindings"] {
                let listed = management.get(&format!("/api/{section}/{at}")).await?;
                set(&mut all, section, listed.unwrap_or_else(|| json!([])));
            }
        }
        set(&mut all, "vhosts", json!(there.as_slice()));
        for (section, path) in [
            ("users", "/api/users".to_owned()),
            ("permissions", format!("/api/vhosts/{at}/permissions")),
            (
                "topic_permissions",
                format!("/api/vhosts/{at}/topic-permissions"),
            ),
        ] {
            let listed = management.get(&path).await?.unwrap_or_else(|| json!([]));
            set(&mut all, section, listed);
        }
        Ok(Self {
            document: Document::read(&all, vhost),
            version: version.map_err(|error| BusError::Away(error.to_string()))?,
        })
    }
}

impl Asserting<'_> {
    pub(crate) async fn run(mut self, memory: &mut Memory) -> Result<Asserted, BusError> {
        let names = self.epoch.names();
        let wanted = Document::of(self.topology, &self.hashes, &names);
        memory
            .queues
            .extend(self.topology.queues.keys().map(Queue::name));
        self.make_what_is_missing(&wanted).await?;
        self.bring_users(&wanted, memory, &names).await?;
        self.remove_bindings(&wanted).await?;
        self.remove_queues(&wanted, memory).await?;
        self.list_strays(&wanted, &names);
        memory.rights.clone_from(&self.topology.users);
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

    async fn bring_users(
        &mut self,
        wanted: &Document,
        memory: &Memory,
        names: &Names,
    ) -> Result<(), BusError> {
        let (mut less, mut more) = (BTreeMap::new(), BTreeMap::new());
        let mut users: BTreeSet<String> = BTreeSet::new();
        for (kind, identity, _) in wanted.beyond(&self.found) {
            if kind >= Part::Users {
                users.extend(identity.first().cloned());
            }
        }
        users.extend(self.with_rows_too_many(wanted));
        for user in users {
            let mut all = wanted.of_user(&user);
            self.close_what_is_left(wanted, &user, &mut all);
            if self.loses(wanted, &user, memory, names) {
                less.insert(user, all);
            } else {
                more.insert(user, all);
            }
        }
        for (user, rows) in less {
            self.write(&rows).await?;
            if names.controller.as_ref() != Some(&user) {
                self.epoch.disconnect(&user).await?;
            }
            self.done.written.push(format!("user {user}: changed"));
        }
        self.remove_users(wanted, names).await?;
        let mut all = Document::default();
        for (user, rows) in more {
            all.extend(rows);
            self.done
                .written
                .push(format!("user {user}: made, or may do more"));
        }
        self.write(&all).await
    }

    /// Users the broker has a topic permission of that is not derived, and allows something.
    fn with_rows_too_many(&self, wanted: &Document) -> Vec<String> {
        let rows = self.found.all(Part::TopicPermissions);
        let too_many = rows.filter(|(identity, row)| {
            wanted.get(Part::TopicPermissions, identity).is_none() && !is_closed(row)
        });
        let users = too_many.filter_map(|(identity, _)| identity.first().cloned());
        users
            .filter(|user| {
                wanted
                    .get(Part::Users, std::slice::from_ref(user))
                    .is_some()
            })
            .collect()
    }

    /// A row too many is closed and not removed: where there is none, a broker lets every key pass.
    fn close_what_is_left(&self, wanted: &Document, user: &str, rows: &mut Document) {
        for (identity, row) in self.found.all(Part::TopicPermissions) {
            let left = identity.first().is_some_and(|of| of == user)
                && wanted.get(Part::TopicPermissions, identity).is_none()
                && !is_closed(row);
            if left {
                let mut closed = row.clone();
                set(&mut closed, "write", json!(NOTHING));
                set(&mut closed, "read", json!(NOTHING));
                rows.add(Part::TopicPermissions, closed);
            }
        }
    }

    /// Whether a user that is there may do less from now on, or must log in anew. Where it is not known what it could do
    /// before, it may.
    fn loses(&self, wanted: &Document, user: &str, memory: &Memory, names: &Names) -> bool {
        let own = [user.to_owned()];
        let Some(there) = self.found.get(Part::Users, &own) else {
            return false;
        };
        let kept = wanted
            .get(Part::Users, &own)
            .is_some_and(|wanted| difference(wanted, there).is_none());
        let who = names.whose(user);
        let rights = who.and_then(|who| {
            let before = memory.rights.get(&who)?;
            Some((before, self.topology.users.get(&who)?))
        });
        let grows = rights.is_some_and(|(before, now)| is_within(before, now));
        let had_none = self.found.get(Part::Permissions, &own).is_none();
        !(kept && (grows || had_none))
    }

    /// Users of the mesh's that are no longer derived: one that has something on another virtual host only loses this.
    async fn remove_users(&mut self, wanted: &Document, names: &Names) -> Result<(), BusError> {
        let users = with_permissions(&self.found).into_iter();
        let gone: Vec<String> = users
            .filter(|user| {
                let of_mesh = names
                    .whose(user)
                    .is_some_and(|who| who != Principal::Controller);
                of_mesh && wanted.get(Part::Users, &[(*user).to_owned()]).is_none()
            })
            .map(str::to_owned)
            .collect();
        for user in gone {
            self.epoch.remove(&user).await?;
            self.done.written.push(format!("user {user}: removed"));
        }
        Ok(())
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
            if names.whose(user).is_none() && user != self.management.user {
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

async fn write(management: &Management, document: &Document) -> Result<(), BusError> {
    if document.is_empty() {
        return Ok(());
    }
    let written = management
        .post("/api/definitions", &document.to_value())
        .await?;
    written.map(drop).ok_or_else(|| BusError::Refused {
        what: "the broker's definitions".to_owned(),
        why: "its management takes none; the account that provisions is an administrator"
            .to_owned(),
    })
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

fn is_closed(row: &Value) -> bool {
    let pattern = |field| row.get(field).and_then(Value::as_str);
    pattern("write") == Some(NOTHING) && pattern("read") == Some(NOTHING)
}

/// Whether all of one authority is in another.
fn is_within(before: &Rights, now: &Rights) -> bool {
    let keys = before.keys.iter().all(|(exchange, keys)| {
        let now = now.keys.get(exchange);
        keys.is_empty() || now.is_some_and(|now| keys.is_subset(now))
    });
    keys && before.write.is_subset(&now.write) && before.read.is_subset(&now.read)
}
