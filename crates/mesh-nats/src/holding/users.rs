//! A file of users, held against the plan it was written from.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::Plan;
use mesh_derive::render::nats_conf::edge_users;
use mesh_model::PublicKey;

use super::conf::{self, Conf, Table};
use super::{Entry, Held};

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
    let before = held.len();
    if let (Some(is), Some(wanted)) = (conf::read(on_disk), conf::read(&derived)) {
        compare(plan, is, wanted, &mut held);
    }
    if held.len() == before {
        // Not understood, or the same in other words; a server may see in it what is not seen here.
        held.push(Held::Otherwise);
    }
    held
}

fn compare(plan: &Plan, is: Table, wanted: Table, held: &mut Vec<Held>) {
    let others = is.iter().filter(|(key, _)| key != "users");
    held.extend(others.map(|(key, _)| Held::Beside(key.clone())));
    let wanted: BTreeMap<String, BTreeSet<Entry>> = entries(wanted)
        .iter()
        .filter_map(|entry| Some((key(entry)?.to_owned(), permissions(entry))))
        .collect();
    let mut met = BTreeSet::new();
    for entry in entries(is) {
        let Some(key) = key(&entry) else {
            held.push(Held::Keyless(name(&entry)));
            continue;
        };
        let Some(wanted) = wanted.get(key) else {
            held.push(Held::ForeignUser(key.to_owned()));
            continue;
        };
        let (who, is) = (owner(plan, key), permissions(&entry));
        let more = is.difference(wanted).cloned();
        held.extend(more.map(|entry| Held::Widened(who.clone(), entry)));
        let less = wanted.difference(&is).cloned();
        held.extend(less.map(|entry| Held::Narrowed(who.clone(), entry)));
        met.insert(key.to_owned());
    }
    let gone = wanted.keys().filter(|key| !met.contains(*key));
    held.extend(gone.map(|key| Held::NoUser(owner(plan, key))));
}

/// What a file of users lets each key do: a side and a subject, with the queue where one is named. One without a key is told
/// by none. Nothing where the file is not understood.
pub(crate) fn allowed(file: &str) -> Option<Vec<(Option<String>, BTreeSet<Entry>)>> {
    let entries = entries(conf::read(file)?).into_iter();
    let told = entries.map(|entry| (key(&entry).map(str::to_owned), permissions(&entry)));
    Some(told.collect())
}

/// What is listed as users, whatever it is.
fn entries(file: Table) -> Vec<Conf> {
    let users = file.into_iter().filter(|(key, _)| key == "users");
    users
        .flat_map(|(_, users)| match users {
            Conf::List(list) => list,
            other => vec![other],
        })
        .collect()
}

fn key(entry: &Conf) -> Option<&str> {
    match entry.get("nkey") {
        Some(Conf::Text(key)) => Some(key),
        _ => None,
    }
}

/// What an entry without a key is called: never its password.
fn name(entry: &Conf) -> String {
    let named = ["user", "username"]
        .into_iter()
        .find_map(|it| entry.get(it));
    match named {
        Some(Conf::Text(name)) => name.clone(),
        _ => "without a name".to_owned(),
    }
}

fn owner(plan: &Plan, key: &str) -> String {
    let known = PublicKey::new(key).ok();
    let principal = known.and_then(|key| {
        plan.users
            .get(&key)
            .or_else(|| plan.retiring.get(&key))
            .cloned()
    });
    principal.map_or_else(|| key.to_owned(), |principal| principal.to_string())
}

/// What a user is allowed or denied. Where a server is told nothing of a side, it allows everything there.
fn permissions(entry: &Conf) -> BTreeSet<Entry> {
    let mut read = BTreeSet::new();
    let permissions = entry.get("permissions");
    for side in ["publish", "subscribe"] {
        let told = permissions.and_then(|permissions| permissions.get(side));
        let allowed = match told {
            Some(told @ Conf::Table(_)) => {
                let denied = told.get("deny").map(Conf::texts).unwrap_or_default();
                read.extend(denied.iter().map(|it| (denied_to(side), (*it).to_owned())));
                match told.get("allow") {
                    Some(allowed) => allowed.texts(),
                    None if denied.is_empty() => vec![">"],
                    None => Vec::new(),
                }
            }
            Some(listed) => listed.texts(),
            None => vec![">"],
        };
        read.extend(allowed.iter().map(|it| (side, (*it).to_owned())));
    }
    read
}

fn denied_to(side: &str) -> &'static str {
    match side {
        "publish" => "be denied to publish",
        _ => "be denied to subscribe to",
    }
}
