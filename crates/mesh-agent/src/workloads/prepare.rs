//! From a declaration to what the runtime is told: credentials opened and on disk, the environment filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mesh_auth::creds::Credentials;
use mesh_auth::keyfile::{read_secret, write_secret};
use mesh_auth::seal;
use mesh_bus::States;
use mesh_derive::subject::inbox_prefix;
use mesh_model::{
    Declaration, InstanceRef, ModuleName, ModuleReport, ModuleState, Principal, Workload,
};
use mesh_runtime::Desired;

use super::Surroundings;
use crate::memory::with_causes;
use crate::state_dir::make_private;
use crate::{bus_at, public_on};

/// What the runtime is told, and what it is not told because a credential cannot be used.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) desired: Vec<Desired>,
    pub(super) refused: States,
}

/// Where nothing can be prepared at all.
#[derive(Debug, thiserror::Error)]
#[error("the directory of credentials {} cannot be made: {source}", path.display())]
pub(super) struct PrepareError {
    path: PathBuf,
    source: io::Error,
}

/// Writes the credentials a declaration brings, and fills in each module's environment. Blocks on the disk.
pub(super) fn prepare(
    surroundings: &Surroundings,
    declaration: Declaration,
) -> Result<Prepared, PrepareError> {
    let dir = &surroundings.credentials;
    make_private(dir).map_err(|source| PrepareError {
        path: dir.clone(),
        source,
    })?;
    let mut prepared = Prepared {
        desired: Vec::new(),
        refused: States::new(),
    };
    for workload in declaration.workloads {
        let path = dir.join(file_name(&workload.module));
        let ready = place_credential(surroundings, &workload, &path)
            .and_then(|()| environment(surroundings, &workload.module, &path));
        match ready {
            Ok(extra_env) => prepared.desired.push(Desired {
                workload,
                extra_env,
            }),
            Err(why) => {
                tracing::error!(module = %workload.module, why, "a module is not run");
                prepared
                    .refused
                    .insert(workload.module, failed(workload.release, why));
            }
        }
    }
    Ok(prepared)
}

/// Removes the credentials of modules that are not declared.
pub(super) fn forget_others(dir: &Path, declared: &BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_declared = name.to_str().is_some_and(|name| declared.contains(name));
        if !is_declared && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The files a declaration's modules have.
pub(super) fn file_names(declaration: &Declaration) -> BTreeSet<String> {
    let modules = declaration.workloads.iter();
    modules
        .map(|workload| file_name(&workload.module))
        .collect()
}

fn file_name(module: &ModuleName) -> String {
    format!("{module}.creds")
}

/// Opens a module's credential and puts it where the module finds it.
fn place_credential(
    surroundings: &Surroundings,
    workload: &Workload,
    path: &Path,
) -> Result<(), String> {
    let sealed = seal::Sealed::from_bytes(workload.credential.0.clone());
    let opened = seal::open(&surroundings.box_key, &sealed)
        .map_err(|error| format!("its credential cannot be opened: {error}"))?;
    let text =
        std::str::from_utf8(opened.expose()).map_err(|_| "its credential is no text".to_owned())?;
    let credentials =
        Credentials::parse(text).map_err(|error| format!("its credential: {error}"))?;
    let found = public_on(bus_at(&surroundings.urls), credentials.key())
        .map_err(|error| format!("its credential: {error}"))?;
    if found != workload.key {
        return Err(format!(
            "its credential is for the key {found}, and it is declared with {}",
            workload.key
        ));
    }
    let rendered = credentials.render();
    // Not written again when it is the same: a module may be reading it.
    let same = read_secret(path).is_ok_and(|kept| kept.expose() == rendered.expose());
    if same {
        return Ok(());
    }
    write_secret(path, &rendered)
        .map_err(|error| format!("its credential cannot be written: {}", with_causes(&error)))
}

/// What the agent adds to a module's environment; docs and SDK call these by the same names.
fn environment(
    surroundings: &Surroundings,
    module: &ModuleName,
    credential: &Path,
) -> Result<BTreeMap<String, String>, String> {
    let Surroundings {
        node,
        urls,
        ca,
        bus,
        ..
    } = surroundings;
    let instance = Principal::Instance(InstanceRef {
        module: module.clone(),
        node: node.clone(),
    });
    let mut env = vec![
        ("MESH_MODULE", module.to_string()),
        ("MESH_NODE", node.to_string()),
        ("MESH_BUS_URL", urls.join(",")),
        ("MESH_CREDS", text(credential)?),
        ("MESH_INBOX", inbox_prefix(&instance).to_string()),
    ];
    if !bus.account.is_empty() {
        env.push(("MESH_BUS_ACCOUNT", bus.account.clone()));
    }
    if let Some(domain) = &bus.domain {
        env.push(("MESH_BUS_DOMAIN", domain.clone()));
    }
    if let Some(ca) = ca {
        env.push(("MESH_CA", text(ca)?));
    }
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    Ok(env.into_iter().map(owned).collect())
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        format!(
            "the path {} is no text, and a module is handed it as one",
            path.display()
        )
    })
}

fn failed(release: String, reason: String) -> ModuleReport {
    ModuleReport {
        release,
        state: ModuleState::Failed,
        pid: None,
        restarts: 0,
        reason: Some(reason),
        image: None,
        last_exit: None,
        repairs: 0,
    }
}
