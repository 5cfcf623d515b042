//! What a server really holds, held against the plan it was brought to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mesh_bus::Finding;
use mesh_derive::render::nats_conf::edge_users;
use mesh_derive::{Mismatch, Plan};
use mesh_model::{BusFacts, ConsumerRef, PublicKey, StreamName};

use crate::api::{FoundConsumer, FoundStream};
use crate::definition::{Difference, consumer_fields, consumer_spec, differences, stream_fields};

/// One thing in which a server is not as derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    /// A stream or a consumer is gone.
    Missing(String),
    /// A field of a stream or a consumer is another.
    Differs(String, Difference),
    /// A consumer nobody derived reads a stream that was.
    Foreign(ConsumerName),
    /// What follows of it for whoever is to read or settle.
    Follows(Box<Mismatch>),
    /// A user nobody derived can connect.
    ForeignUser(String),
    /// A user may what its grant does not say.
    Widened(String, Entry),
    /// A user may not what its grant says.
    Narrowed(String, Entry),
    /// The users file was changed since the server was asked to read it.
    NotLoaded,
    /// There is no users file.
    NoUsers,
}

/// A consumer as it is called on a server, where it may be called anything.
type ConsumerName = String;
/// Which side of a user's permissions, and what is allowed or denied there.
type Entry = (&'static str, String);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "{what} is not on the server; it is made at the next assertion"),
            Self::Differs(what, Difference { field, found, wanted }) => write!(
                f,
                "{what}: {field} is {found} on the server and {wanted} as derived; somebody changed it, and the next assertion \
                 brings it back or says why it cannot"
            ),
            Self::Foreign(name) => write!(
                f,
                "consumer {name} is nobody's that was derived and reads what the mesh stores; delete it unless you made it"
            ),
            Self::Follows(mismatch) => write!(f, "as the server holds it: {mismatch}"),
            Self::ForeignUser(key) => write!(
                f,
                "users file: {key} is nobody's key; take the user out, or let the controller write the file anew"
            ),
            Self::Widened(who, (side, entry)) => write!(
                f,
                "users file: {who} may {side} {entry}, which was not derived; let the controller write the file anew"
            ),
            Self::Narrowed(who, (side, entry)) => write!(
                f,
                "users file: {who} may not {side} {entry}, which was derived; let the controller write the file anew"
            ),
            Self::NotLoaded => f.write_str(
                "users file: it was changed since the server was asked to read it; a restart of the server would read it",
            ),
            Self::NoUsers => f.write_str("users file: there is none; a restart of the server would fail"),
        }
    }
}

impl From<Held> for Finding {
    fn from(held: Held) -> Self {
        Self {
            warning: true,
            text: held.to_string(),
        }
    }
}

/// What was found on a server.
pub(crate) struct OnServer {
    pub(crate) streams: Vec<FoundStream>,
    pub(crate) consumers: BTreeMap<StreamName, Vec<FoundConsumer>>,
}

/// Where its definitions are not as derived, and what follows of that: the plan with what was found in its place goes
/// through the check that every plan goes through.
pub(crate) fn definitions(
    plan: &Plan,
    facts: &BusFacts,
    replicas: u8,
    found: &OnServer,
) -> Vec<Held> {
    let mut held = Vec::new();
    let mut real = plan.clone();
    let by_name: BTreeMap<&str, &FoundStream> = found
        .streams
        .iter()
        .filter_map(|stream| Some((stream.name()?, stream)))
        .collect();
    for (name, spec) in &plan.streams {
        let what = format!("stream {name}");
        match by_name.get(name.as_str()) {
            None => held.push(Held::Missing(what)),
            Some(stream) => {
                let differ = differences(&stream_fields(spec, replicas), &stream.config);
                held.extend(differ.into_iter().map(|d| Held::Differs(what.clone(), d)));
            }
        }
    }
    let mut there = BTreeSet::new();
    for (stream, consumers) in &found.consumers {
        for consumer in consumers {
            let name = ConsumerRef::new(stream.clone(), consumer.name.clone());
            let spec = name.as_ref().ok().and_then(|name| plan.consumers.get(name));
            let Some(spec) = spec else {
                held.push(Held::Foreign(format!("{stream}/{}", consumer.name)));
                let foreign = name.ok();
                let foreign = foreign.and_then(|name| consumer_spec(name, None, &consumer.config));
                real.consumers
                    .extend(foreign.map(|spec| (spec.consumer.clone(), spec)));
                continue;
            };
            there.insert(&spec.consumer);
            let differ = differences(&consumer_fields(spec), &consumer.config);
            if differ.is_empty() {
                continue;
            }
            let what = format!("consumer {}", spec.consumer);
            held.extend(differ.into_iter().map(|d| Held::Differs(what.clone(), d)));
            let name = spec.consumer.clone();
            let real_spec = consumer_spec(name.clone(), spec.owner.clone(), &consumer.config);
            real.consumers.extend(real_spec.map(|spec| (name, spec)));
        }
    }
    let missing = plan.consumers.keys().filter(|name| !there.contains(name));
    held.extend(missing.map(|name| Held::Missing(format!("consumer {name}"))));
    let follows = real.check(facts).into_iter();
    held.extend(follows.map(|mismatch| Held::Follows(Box::new(mismatch))));
    held
}

/// Where a users file is not as derived. `read` is what the server was asked to read last, where it was.
pub(crate) fn users(plan: &Plan, on_disk: Option<&str>, read: Option<&str>) -> Vec<Held> {
    let Some(on_disk) = on_disk else {
        return vec![Held::NoUsers];
    };
    let derived = edge_users(plan);
    let mut held = Vec::new();
    if read.is_some_and(|read| read != on_disk) {
        held.push(Held::NotLoaded);
    }
    if on_disk == derived {
        return held;
    }
    let (is, wanted) = (permissions(on_disk), permissions(&derived));
    for (key, entries) in &is {
        let Some(wanted) = wanted.get(key) else {
            held.push(Held::ForeignUser(key.clone()));
            continue;
        };
        let who = owner(plan, key);
        let more = entries.difference(wanted).cloned();
        held.extend(more.map(|entry| Held::Widened(who.clone(), entry)));
        let less = wanted.difference(entries).cloned();
        held.extend(less.map(|entry| Held::Narrowed(who.clone(), entry)));
    }
    let gone = wanted.keys().filter(|key| !is.contains_key(*key));
    held.extend(gone.map(|key| Held::Missing(format!("user {}", owner(plan, key)))));
    held
}

fn owner(plan: &Plan, key: &str) -> String {
    let known = PublicKey::new(key).ok();
    let principal = known.and_then(|key| plan.users.get(&key).cloned());
    principal.map_or_else(|| key.to_owned(), |principal| principal.to_string())
}

/// Of each user by its key, what it is allowed or denied, in the form the controller writes.
fn permissions(text: &str) -> BTreeMap<String, BTreeSet<Entry>> {
    let mut users: BTreeMap<String, BTreeSet<Entry>> = BTreeMap::new();
    let mut key = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('#') {
            continue;
        }
        if let Some((_, rest)) = line.split_once("nkey:") {
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            let name = rest.get(..end).unwrap_or_default();
            name.trim().trim_matches('"').clone_into(&mut key);
            users.entry(key.clone()).or_default();
        }
        let Some(entries) = users.get_mut(&key) else {
            continue;
        };
        for side in ["publish", "subscribe"] {
            let Some((_, rest)) = line.split_once(&format!("{side}:")) else {
                continue;
            };
            let of = if rest.contains("deny:") { "deny" } else { side };
            let quoted = rest.split('"').skip(1).step_by(2);
            entries.extend(quoted.map(|entry| {
                let side = if of == "deny" { "be denied to" } else { side };
                (side, entry.to_owned())
            }));
        }
    }
    users
}

#[cfg(test)]
mod tests;
