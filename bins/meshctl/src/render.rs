//! What was declared, written for a broker that somebody runs themselves, without a controller.

mod cast;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use data_encoding::HEXLOWER_PERMISSIVE;
use mesh_derive::render::nats_conf::{EDGE_USERS_FILE, accounts, edge_users};
use mesh_derive::render::rabbitmq::{PasswordHash, Secrets, definitions};
use mesh_derive::topology::{BrokerFacts, QueueKind, topology};
use mesh_derive::{Bounds, Plan};
use mesh_model::{Principal, PublicKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::{NatsConf, RabbitmqDefinitions};
use crate::declare::load;
use crate::out;
use cast::Cast;

/// The accounts of a nats-server and their users. Users without a key are left out, and named.
pub(crate) fn nats_conf(asked: &NatsConf) -> anyhow::Result<ExitCode> {
    let keys: BTreeMap<Principal, PublicKey> = listed(asked.keys.as_deref())?;
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
    let passwords: BTreeMap<Principal, Password> = listed(asked.secrets.as_deref())?;
    let cast = Cast::of(load(&asked.dir)?, passwords.keys());
    let plan = mesh_derive::derive(&cast.records(&BTreeMap::new()), &Bounds::default());
    let facts = BrokerFacts {
        vhost: asked.vhost.clone(),
        version: asked.broker_version,
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
            Some(password) => {
                let hash = password
                    .hash()
                    .with_context(|| format!("{file}: {principal}"))?;
                secrets.insert(principal.clone(), hash);
            }
            None => out::note(&format!(
                "meshctl: {principal} has no password in {file}: it can log in with a certificate only"
            )),
        }
    }
    let known = passwords.keys().filter(|it| **it != Principal::Controller);
    note_unused(&plan, known, &file);
    out::data(&format!("{:#}\n", definitions(&laid, &secrets)));
    Ok(ExitCode::SUCCESS)
}

/// A password as it is listed: what it is, and the salt it is hashed with, so that equal input gives equal bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Password {
    password: String,
    salt: String,
}

impl Password {
    fn hash(&self) -> anyhow::Result<PasswordHash> {
        let salt = HEXLOWER_PERMISSIVE.decode(self.salt.as_bytes()).ok();
        let salt: Option<[u8; 4]> = salt.and_then(|bytes| bytes.try_into().ok());
        let salt = salt.context("salt is not four bytes: write eight hex digits")?;
        if self.password.len() < SHORTEST {
            bail!(
                "password has {} characters: it is hashed once, so take {SHORTEST} or more that were generated",
                self.password.len()
            );
        }
        Ok(PasswordHash::new(salt, &self.password))
    }
}

/// Characters a password has at least: 16 random bytes in hex.
const SHORTEST: usize = 32;

/// What a file lists by principal; nothing without one.
fn listed<T: DeserializeOwned>(file: Option<&Path>) -> anyhow::Result<BTreeMap<Principal, T>> {
    let Some(file) = file else {
        return Ok(BTreeMap::new());
    };
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    // What the reader says quotes the line, and a line may hold a secret.
    toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.split('\n').count());
        anyhow::anyhow!("{}, line {line}: {}", file.display(), error.message())
    })
}

fn named(file: &Path) -> String {
    file.display().to_string()
}

/// Names whoever is listed and may do nothing: declared nowhere, or not there.
fn note_unused<'a>(plan: &Plan, listed: impl Iterator<Item = &'a Principal>, file: &str) {
    let users: std::collections::BTreeSet<&Principal> = plan.users.values().collect();
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
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_file_that_is_not_understood_is_named_with_its_line_and_no_secret() {
        for text in [
            "\"node/a\" = { password = \"swordfish\", salt = 1 }",
            "\n\"node/A\" = { password = \"swordfish\", salt = \"00000000\" }",
            "\"node/a\" = { password = \"swordfish\", salt = \"00000000\", more = 1 }",
            "\"node/a\" = { password = \"swordfish",
        ] {
            let file = file(text);
            let Err(error) = listed::<Password>(Some(file.path())) else {
                panic!("{text}");
            };
            let said = format!("{error:#}");
            assert!(said.contains(", line "), "{said}");
            assert!(!said.contains("swordfish"), "{said}");
        }
    }

    #[test]
    fn a_password_is_long_and_its_salt_four_bytes() {
        let hash = |password: &str, salt: &str| {
            let (password, salt) = (password.to_owned(), salt.to_owned());
            Password { password, salt }.hash()
        };
        let long = "0123456789abcdef0123456789abcdef";
        let expected = PasswordHash::new([0, 1, 0xfe, 0xff], long);
        assert_eq!(hash(long, "0001feFF").unwrap(), expected);
        for (password, salt) in [(long, "0001fe"), (long, "x001feff"), ("short", "0001feff")] {
            assert!(hash(password, salt).is_err(), "{password} {salt}");
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
