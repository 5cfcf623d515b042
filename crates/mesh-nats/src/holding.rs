//! What a server really holds, held against the plan it was brought to.

mod conf;
mod look;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mesh_bus::Finding;
use mesh_derive::{Mismatch, Plan, subject};
use mesh_model::{BusFacts, ConsumerRef, Filter, StreamName};

use crate::api::{FoundConsumer, FoundStream};
use crate::definition::{Difference, consumer_fields, consumer_spec, differences, stream_fields};

pub(crate) use look::{Read, look};
pub(crate) use users::allowed;

/// One thing in which a server is not as derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    /// A stream or a consumer is gone.
    Missing(String),
    /// A field of a stream or a consumer is another.
    Differs(String, Difference),
    /// A consumer nobody derived reads a stream that was.
    Foreign(ConsumerName),
    /// A stream nobody derived, and what it has of the mesh's.
    ForeignStream(String, Taken),
    /// What follows of it for whoever is to read or settle.
    Follows(Box<Mismatch>),
    /// A user nobody derived can connect.
    ForeignUser(String),
    /// An entry of the users file is no key's: whoever knows its password connects.
    Keyless(String),
    /// A user that was derived cannot connect.
    NoUser(String),
    /// The users file says something besides users.
    Beside(String),
    /// A user may what its grant does not say.
    Widened(String, Entry),
    /// A user may not what its grant says.
    Narrowed(String, Entry),
    /// The users file was changed since the server was asked to read it.
    NotLoaded,
    /// There is no users file.
    NoUsers,
    /// The users file is another, and every user in it the same.
    Otherwise,
    /// This could not be read.
    Unread(&'static str, String),
}

/// What a stream nobody derived has to do with the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing.
    Nothing,
    /// A copy of what one of the mesh's stores.
    Copies,
    /// Subjects below the mesh's own root.
    Subjects,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "",
            Self::Copies => " and keeps a copy of what another stores",
            Self::Subjects => " and stores what is said below `mesh.`",
        })
    }
}

/// A consumer as it is called on a server, where it may be called anything.
type ConsumerName = String;
/// Which side of a user's permissions, and what is allowed or denied there.
type Entry = (&'static str, String);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(
                f,
                "{what} is not on the server; it is made at the next assertion: restart the controller to have it now"
            ),
            Self::Differs(what, difference) => differs(f, what, difference),
            Self::Foreign(name) => write!(
                f,
                "consumer {name} is nobody's that was derived and reads what the mesh stores; unless you made it, delete it \
                 (`nats consumer rm STREAM CONSUMER`)"
            ),
            Self::ForeignStream(name, taken) => write!(
                f,
                "stream {name} was not derived{taken}; unless you made it, delete it (`nats stream rm {name}`)"
            ),
            Self::Follows(mismatch) => write!(f, "as the server holds it: {mismatch}"),
            Self::ForeignUser(key) => anew(f, format_args!("{key} is nobody's key")),
            Self::Keyless(name) => anew(
                f,
                format_args!(
                    "user {name} has no nkey, so that whoever knows its password connects"
                ),
            ),
            Self::NoUser(who) => anew(f, format_args!("{who} is not in it and cannot connect")),
            Self::Beside(key) => anew(
                f,
                format_args!("it says {key}, which is none of the mesh's"),
            ),
            Self::Widened(who, (side, entry)) => anew(
                f,
                format_args!("{who} may {side} {entry}, which was not derived"),
            ),
            Self::Narrowed(who, (side, entry)) => anew(
                f,
                format_args!("{who} may not {side} {entry}, which was derived"),
            ),
            Self::NotLoaded => anew(
                f,
                format_args!(
                    "it is not what the server was asked to read, and a restart would read it"
                ),
            ),
            Self::NoUsers => anew(
                f,
                format_args!("there is none, and a restart of the server would fail"),
            ),
            Self::Otherwise => anew(f, format_args!("it is not as it was written")),
            Self::Unread(what, why) => write!(
                f,
                "{what} could not be read, so that it is not known whether it is as derived: {why}; run `meshctl doctor` again \
                 once it answers"
            ),
        }
    }
}

/// Which field of what is another.
fn differs(f: &mut fmt::Formatter<'_>, what: &str, difference: &Difference) -> fmt::Result {
    let Difference {
        field,
        found,
        wanted,
    } = difference;
    write!(
        f,
        "{what}: {field} is {found} on the server and {wanted} as derived; somebody changed it, and the next assertion \
         brings it back or says why it cannot"
    )
}

/// What is wrong with the users file, and what brings it back.
fn anew(f: &mut fmt::Formatter<'_>, what: fmt::Arguments<'_>) -> fmt::Result {
    write!(
        f,
        "users file: {what}; restart the controller: it writes the file anew and has the server read it"
    )
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
    held.extend(
        found
            .streams
            .iter()
            .filter_map(|stream| foreign(plan, stream)),
    );
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

/// A stream that is not of the plan.
fn foreign(plan: &Plan, stream: &FoundStream) -> Option<Held> {
    let name = stream.name()?;
    if plan.streams.keys().any(|own| own.as_str() == name) {
        return None;
    }
    let given = |field: &str| stream.config.get(field).filter(|value| !value.is_null());
    let subjects = given("subjects").and_then(|subjects| subjects.as_array());
    let below_ours = |subject: &serde_json::Value| {
        let subject = subject.as_str().and_then(|subject| subject.parse().ok());
        subject.is_some_and(|subject: Filter| subject.overlaps(&subject::root()))
    };
    let taken = if given("mirror").is_some() || given("sources").is_some() {
        Taken::Copies
    } else if subjects.is_some_and(|subjects| subjects.iter().any(below_ours)) {
        Taken::Subjects
    } else {
        Taken::Nothing
    };
    Some(Held::ForeignStream(name.to_owned(), taken))
}

#[cfg(test)]
mod tests;
