//! Secrets an operator sets: kept sealed to the controller, and sealed anew to each node that needs one.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    BoxPublicKey, Declared, HandedSecret, InstanceRef, Manifest, ModuleName, NodeName, Principal,
    Records, Sealed, SecretName, SecretRecord, Timestamp,
};

use crate::amend::CommandError;
use crate::placement::{Mint, MintError};

/// Bytes a secret's value may have.
pub const SECRET_LIMIT: usize = 64 * 1024;

/// Bytes of sealed secrets one node may be told: its declaration is one message, which has room for its modules as well.
const OF_NODE_LIMIT: usize = 512 * 1024;

/// The secrets a module's manifest names, that of its image's registry included.
pub(crate) fn named(manifest: &Manifest) -> impl Iterator<Item = &SecretName> {
    let container = manifest.run.container();
    let pull = container.and_then(|container| container.pull_secret.as_ref());
    manifest.secrets.iter().chain(pull)
}

/// Which modules name which secrets.
pub fn uses_of_secrets(declared: &Declared) -> BTreeMap<&SecretName, BTreeSet<&ModuleName>> {
    let mut uses: BTreeMap<&SecretName, BTreeSet<&ModuleName>> = BTreeMap::new();
    for manifest in declared.modules.values() {
        for secret in named(manifest) {
            uses.entry(secret).or_default().insert(&manifest.module);
        }
    }
    uses
}

/// Keeps a value, in place of the one before.
pub(crate) fn set(
    records: &mut Records,
    name: &SecretName,
    sealed: &Sealed,
    now: Timestamp,
) -> String {
    let record = SecretRecord {
        // A revision never comes twice, so that a secret which is removed and set again is another.
        version: records.revision.next().0,
        set: now,
        sealed: sealed.clone(),
    };
    records.secrets.insert(name.clone(), record);
    format!("set secret {name}")
}

/// Forgets a secret nobody needs.
pub(crate) fn remove(records: &mut Records, name: &SecretName) -> Result<String, CommandError> {
    if !records.secrets.contains_key(name) {
        return Err(CommandError::UnknownSecret(name.clone()));
    }
    if let Some(modules) = uses_of_secrets(&records.declared).get(name) {
        return Err(CommandError::SecretInUse {
            secret: name.clone(),
            modules: modules.iter().copied().cloned().collect(),
        });
    }
    records.secrets.remove(name);
    Ok(format!("remove secret {name}"))
}

/// Refuses modules whose secrets nobody has set: they could not start.
pub(crate) fn all_set(records: &Records, declared: &Declared) -> Result<(), CommandError> {
    let unset: BTreeMap<SecretName, Vec<ModuleName>> = uses_of_secrets(declared)
        .into_iter()
        .filter(|(secret, _)| !records.secrets.contains_key(*secret))
        .map(|(secret, modules)| (secret.clone(), modules.into_iter().cloned().collect()))
        .collect();
    if unset.is_empty() {
        Ok(())
    } else {
        Err(CommandError::SecretsUnset(unset))
    }
}

/// Seals to each node what its modules need and do not have: sealed again, the same value is other bytes, so that what is
/// there stays as it is, and nobody is told anything for it.
pub(crate) fn hand_out(records: &mut Records, mint: &mut impl Mint) -> Result<(), MintError> {
    let (declared, secrets) = (&records.declared, &records.secrets);
    for (instance, record) in &mut records.instances {
        let Some(manifest) = declared.modules.get(&instance.module) else {
            continue;
        };
        let mut handed = BTreeMap::new();
        for name in named(manifest) {
            let Some(secret) = secrets.get(name) else {
                continue;
            };
            let there = record.secrets.remove(name);
            let there = there.filter(|there| there.version == secret.version);
            let value = match there {
                Some(there) => there,
                None => seal(secret, instance, &record.sealed_to, mint)?,
            };
            handed.insert(name.clone(), value);
        }
        record.secrets = handed;
    }
    Ok(())
}

fn seal(
    secret: &SecretRecord,
    instance: &InstanceRef,
    to: &BoxPublicKey,
    mint: &mut impl Mint,
) -> Result<HandedSecret, MintError> {
    let whom = Principal::Instance(instance.clone());
    Ok(HandedSecret {
        version: secret.version,
        sealed: mint.reseal(&whom, &secret.sealed, to)?,
    })
}

/// Refuses more than a node's declaration has room for. A node that has too much already, since it came after its modules
/// were placed, stands in the way of no command that gives it no more.
pub(crate) fn fit(before: &Records, after: &Records) -> Result<(), CommandError> {
    let had = of_nodes(before);
    let large = of_nodes(after).into_iter().find(|(node, bytes)| {
        let had = had.get(node).copied().unwrap_or_default();
        *bytes > OF_NODE_LIMIT && *bytes > had
    });
    large.map_or(Ok(()), |(node, bytes)| {
        Err(CommandError::SecretsTooLarge {
            node: node.clone(),
            bytes,
            limit: OF_NODE_LIMIT,
        })
    })
}

/// Bytes of sealed secrets each node is told.
fn of_nodes(records: &Records) -> BTreeMap<&NodeName, usize> {
    let mut of_node: BTreeMap<&NodeName, usize> = BTreeMap::new();
    for (instance, record) in &records.instances {
        let bytes = record.secrets.values().map(|it| it.sealed.0.len());
        *of_node.entry(&instance.node).or_default() += bytes.sum::<usize>();
    }
    of_node
}
