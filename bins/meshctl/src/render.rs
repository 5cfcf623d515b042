//! What was declared, written for a broker that somebody runs themselves, without a controller.

mod cast;
mod listed;
mod password;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use mesh_derive::render::nats_conf::{EDGE_USERS_FILE, accounts, edge_users};
use mesh_derive::render::rabbitmq::{Secrets, definitions};
use mesh_derive::topology::{BrokerFacts, BrokerVersion, QueueKind, topology};
use mesh_derive::{Bounds, Plan};
use mesh_model::Principal;

use crate::cli::{NatsConf, RabbitmqDefinitions};
use crate::declare::load;
use crate::out;
pub(crate) use cast::Cast;

/// The accounts of a nats-server and their users. Users without a key are left out, and named.
pub(crate) fn nats_conf(asked: &NatsConf) -> anyhow::Result<ExitCode> {
    let keys = listed::keys(asked.keys.as_deref())?;
    let cast = Cast::of(load(&asked.dir)?, keys.keys());
    let records = cast.records(&keys);
    let mut plan = mesh_derive::derive(&records, &Bounds::default());
    let mismatches = plan.check(&records.bus);
    for mismatch in &mismatches {
        out::note(&format!("meshctl: {mismatch}"));
    }
    if !mismatches.is_empty() {
        bail!("nothing written: what is derived does not hold");
    }
    let file = asked
        .keys
        .as_deref()
        .map_or_else(|| "--keys (none given)".to_owned(), named);
    for principal in plan.users.values().filter(|it| !keys.contains_key(it)) {
        out::note(&format!(
            "meshctl: {principal} has no key in {file}: left out"
        ));
    }
    note_unused(&plan, keys.keys(), &file);
    plan.users
        .retain(|_, principal| keys.contains_key(principal));
    for key in [&asked.controller_key, &asked.system_key] {
        if let Some(whose) = plan.users.get(key) {
            bail!("{key} is the key of {whose} and of the controller: each has one of its own");
        }
    }
    if asked.controller_key == asked.system_key {
        bail!("--controller-key and --system-key are the same: an account needs a key of its own");
    }
    let own = accounts(&plan, &asked.controller_key, &asked.system_key);
    let users = edge_users(&plan);
    match &asked.out {
        None => out::data(&in_one(&own, &users)),
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
            for (name, text) in [("accounts.conf", &own), (EDGE_USERS_FILE, &users)] {
                let path = dir.join(name);
                std::fs::write(&path, text).with_context(|| path.display().to_string())?;
                out::note(&format!("meshctl: wrote {}", path.display()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a RabbitMQ imports. Users without a password are in it, and named: they come with a certificate, or not at all.
pub(crate) fn rabbitmq_definitions(asked: &RabbitmqDefinitions) -> anyhow::Result<ExitCode> {
    let passwords = listed::passwords(asked.secrets.as_deref())?;
    let cast = Cast::of(load(&asked.dir)?, passwords.keys());
    let plan = mesh_derive::derive(&cast.records(&BTreeMap::new()), &Bounds::default());
    let facts = BrokerFacts {
        vhost: asked.vhost.clone(),
        version: asked.broker_version.unwrap_or(UNLESS_SAID),
        queues: if asked.quorum {
            QueueKind::Quorum
        } else {
            QueueKind::Classic
        },
        users: String::new(),
    };
    let laid = topology(&plan, &Bounds::default(), &facts);
    let faults = laid.check();
    for fault in &faults {
        out::note(&format!("meshctl: {fault}"));
    }
    if !faults.is_empty() {
        bail!("nothing written: a RabbitMQ would not do what was declared");
    }
    let file = asked
        .secrets
        .as_deref()
        .map_or_else(|| "--secrets (none given)".to_owned(), named);
    let mut secrets = Secrets::new();
    for principal in laid.users.keys() {
        match passwords.get(principal) {
            Some(hash) => {
                secrets.insert(principal.clone(), hash.clone());
            }
            None => out::note(&format!(
                "meshctl: {principal} has no password in {file}: it can log in with a certificate only"
            )),
        }
    }
    let known = passwords.keys().filter(|it| **it != Principal::Controller);
    note_unused(&plan, known, &file);
    if asked.broker_version.is_none() {
        out::note(&format!(
            "meshctl: this is for RabbitMQ {UNLESS_SAID}; if yours is another, say so with --broker-version"
        ));
    }
    out::data(&format!("{:#}\n", definitions(&laid, &secrets)));
    Ok(ExitCode::SUCCESS)
}

/// The version of a broker that is not said.
const UNLESS_SAID: BrokerVersion = BrokerVersion::PROVES_SENDER;

fn named(file: &Path) -> String {
    file.display().to_string()
}

/// Names whoever is listed and may do nothing: declared nowhere, or not there.
fn note_unused<'a>(plan: &Plan, listed: impl Iterator<Item = &'a Principal>, file: &str) {
    let users: BTreeSet<&Principal> = plan.users.values().collect();
    for principal in listed.filter(|it| !users.contains(it)) {
        out::note(&format!(
            "meshctl: {principal} is in {file}, and nothing that is declared gives it anything to do: left out"
        ));
    }
}

/// The accounts with the users in the place where they are included from a file.
fn in_one(accounts: &str, users: &str) -> String {
    let include = format!("    include \"{EDGE_USERS_FILE}\"\n");
    let users = users.lines().filter(|line| !line.starts_with('#'));
    let users: Vec<String> = users.map(|line| format!("    {line}\n")).collect();
    accounts.replacen(&include, &users.concat(), 1)
}

#[cfg(test)]
mod tests {
    use mesh_model::PublicKey;

    use super::*;

    #[test]
    fn a_directory_to_write_into_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("not/there");
        let asked = NatsConf {
            dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello"),
            out: Some(out.clone()),
            keys: None,
            controller_key: PublicKey::from_raw([1; 32]),
            system_key: PublicKey::from_raw([2; 32]),
        };
        nats_conf(&asked).unwrap();
        for name in ["accounts.conf", EDGE_USERS_FILE] {
            assert!(out.join(name).is_file(), "{name}");
        }
    }

    #[test]
    fn the_users_stand_where_they_would_be_included() {
        let accounts = "EDGE {\n    include \"edge-users.conf\"\n  }\n";
        let users = "# Written by the controller.\nusers: [\n  # node/a\n]\n";
        assert_eq!(
            in_one(accounts, users),
            "EDGE {\n    users: [\n      # node/a\n    ]\n  }\n"
        );
    }
}
