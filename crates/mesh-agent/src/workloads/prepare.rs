//! From a declaration to what the runtime is told: credentials and secrets opened and on disk, the environment filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use mesh_auth::creds::Credentials;
use mesh_auth::seal;
use mesh_auth::secret::SecretBytes;
use mesh_bus::States;
use mesh_derive::subject::inbox_prefix;
use mesh_model::{
    Declaration, HandedSecret, InstanceRef, ModuleName, ModuleReport, ModuleState, Principal,
    Sealed, SecretName, Workload,
};
use mesh_runtime::{Desired, HANDED_IN_CONTAINER, PullSecret};

use super::Surroundings;
use super::handed::{CA, CREDS, Files, Reader, SECRETS};
use crate::memory::with_causes;
use crate::{bus_at, public_on};

/// What the runtime is told, and of which modules it is not told what was declared.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    pub(super) desired: Vec<Desired>,
    /// What they were sent cannot be used; nothing but another declaration mends that.
    pub(super) refused: States,
    /// The host does not take their files, or not now.
    pub(super) unplaced: Vec<Unplaced>,
    /// Secrets they are told of that were not declared: what they were before may come back, and needs them.
    pub(super) kept: Kept,
}

/// Secrets of modules, beside those that are declared.
pub(super) type Kept = BTreeMap<ModuleName, BTreeSet<SecretName>>;

/// A module whose files are not, or not all, in place.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) module: ModuleName,
    pub(super) release: String,
    pub(super) why: String,
}

/// Puts the files a declaration brings in place, and fills in each module's environment. Blocks on the disk.
pub(super) fn prepare(surroundings: &Surroundings, declaration: Declaration) -> Prepared {
    let mut prepared = Prepared::default();
    let ca = read_ca(surroundings.ca.as_deref());
    for workload in declaration.workloads {
        let opened = open_all(surroundings, &workload);
        let handed = surroundings.handed.of(&workload.module);
        let kept = kept(surroundings, &workload);
        let ready = opened.and_then(|opened| {
            let process = environment(surroundings, &workload, &kept, &handed)?;
            let inside = Path::new(HANDED_IN_CONTAINER);
            let container = environment(surroundings, &workload, &kept, inside)?;
            Ok((opened, process, container))
        });
        let (opened, extra_env, extra_env_in_container) = match ready {
            Ok(ready) => ready,
            Err(why) => {
                tracing::error!(module = %workload.module, why, "a module is not run");
                let report = failed(workload.release, why);
                prepared.refused.insert(workload.module, report);
                continue;
            }
        };
        match place(surroundings, &workload, opened.files, ca.clone()) {
            Ok(()) => {
                if !kept.is_empty() {
                    prepared.kept.insert(workload.module.clone(), kept);
                }
                prepared.desired.push(Desired {
                    extra_env,
                    extra_env_in_container,
                    handed,
                    pull_secret: opened.pull_secret,
                    workload,
                });
            }
            Err(why) => prepared.unplaced.push(Unplaced {
                module: workload.module,
                release: workload.release,
                why,
            }),
        }
    }
    prepared
}

/// The secrets a module has from before.
fn kept(surroundings: &Surroundings, workload: &Workload) -> BTreeSet<SecretName> {
    let mut kept = surroundings.handed.secrets_of(&workload.module);
    kept.retain(|name| !workload.secrets.contains_key(name));
    kept
}

/// Tells a module of secrets no longer. It is not restarted for that.
pub(super) fn forget(kept: &BTreeSet<SecretName>, desired: &mut Desired) {
    for env in [&mut desired.extra_env, &mut desired.extra_env_in_container] {
        for name in kept {
            env.remove(&variable(name));
        }
        if desired.workload.secrets.is_empty() {
            env.remove(DIR_OF_SECRETS);
        }
    }
}

/// Where the value of a secret is told.
fn variable(name: &SecretName) -> String {
    format!("{name}_FILE")
}

const DIR_OF_SECRETS: &str = "MESH_SECRETS";

/// What was sealed to this node for one module.
struct Opened {
    files: Files,
    pull_secret: Option<PullSecret>,
}

fn open_all(surroundings: &Surroundings, workload: &Workload) -> Result<Opened, String> {
    let secret = |what: &str, handed: &HandedSecret| open(surroundings, what, &handed.sealed);
    let mut secrets = BTreeMap::new();
    for (name, handed) in &workload.secrets {
        secrets.insert(name.clone(), secret(&format!("its secret {name}"), handed)?);
    }
    let pull_secret = workload.pull_secret.as_ref();
    let pull_secret = pull_secret.map(|handed| secret("the secret of its image", handed));
    Ok(Opened {
        files: Files {
            creds: open_credential(surroundings, workload)?,
            ca: None,
            secrets,
        },
        pull_secret: pull_secret
            .transpose()?
            .map(|opened| PullSecret::new(opened.expose().to_vec())),
    })
}

fn open(surroundings: &Surroundings, what: &str, sealed: &Sealed) -> Result<SecretBytes, String> {
    let sealed = seal::Sealed::from_bytes(sealed.0.clone());
    seal::open(&surroundings.box_key, &sealed)
        .map_err(|error| format!("{what} cannot be opened: {error}"))
}

/// A module's credential, as its file has it.
fn open_credential(
    surroundings: &Surroundings,
    workload: &Workload,
) -> Result<SecretBytes, String> {
    let opened = open(surroundings, "its credential", &workload.credential)?;
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
    Ok(SecretBytes::new(
        credentials.render().expose().as_bytes().to_vec(),
    ))
}

fn read_ca(path: Option<&Path>) -> Result<Option<SecretBytes>, String> {
    let Some(path) = path else { return Ok(None) };
    let read = fs::read(path).map_err(|error| {
        let path = path.display();
        format!("the certificate authority {path} cannot be read: {error}")
    });
    Ok(Some(SecretBytes::new(read?)))
}

fn place(
    surroundings: &Surroundings,
    workload: &Workload,
    files: Files,
    ca: Result<Option<SecretBytes>, String>,
) -> Result<(), String> {
    let files = Files { ca: ca?, ..files };
    let reader = match workload.run.container() {
        Some(_) => Reader::Container,
        None => Reader::Process,
    };
    let placed = surroundings.handed.place(&workload.module, &files, reader);
    placed.map_err(|error| {
        let why = with_causes(&error);
        format!("the files it is handed cannot be written: {why}")
    })
}

/// What the agent adds to a module's environment; docs and SDK call these by the same names. A secret is told by where
/// it is: what is in an environment is in `/proc` and in an engine's answers.
fn environment(
    surroundings: &Surroundings,
    workload: &Workload,
    kept: &BTreeSet<SecretName>,
    handed: &Path,
) -> Result<BTreeMap<String, String>, String> {
    let Surroundings {
        node,
        urls,
        ca,
        bus,
        ..
    } = surroundings;
    let module = workload.module.clone();
    let instance = Principal::Instance(InstanceRef {
        module,
        node: node.clone(),
    });
    let set = |name: &str, value: String| (name.to_owned(), value);
    let mut env = BTreeMap::from([
        set("MESH_MODULE", workload.module.to_string()),
        set("MESH_NODE", node.to_string()),
        set("MESH_BUS_URL", urls.join(",")),
        set("MESH_CREDS", text(handed.join(CREDS))?),
        set("MESH_INBOX", inbox_prefix(&instance).to_string()),
    ]);
    if !bus.account.is_empty() {
        env.extend([set("MESH_BUS_ACCOUNT", bus.account.clone())]);
    }
    if let Some(domain) = &bus.domain {
        env.extend([set("MESH_BUS_DOMAIN", domain.clone())]);
    }
    if ca.is_some() {
        env.extend([set("MESH_CA", text(handed.join(CA))?)]);
    }
    let secrets = handed.join(SECRETS);
    // What is declared of where a file is, stands.
    let kept = kept
        .iter()
        .filter(|name| !workload.env.contains_key(&variable(name)));
    for name in workload.secrets.keys().chain(kept.clone()) {
        let path = text(secrets.join(name.as_str()))?;
        env.extend([set(&variable(name), path)]);
    }
    if !workload.secrets.is_empty() || kept.count() > 0 {
        env.extend([set(DIR_OF_SECRETS, text(secrets)?)]);
    }
    Ok(env)
}

fn text(path: PathBuf) -> Result<String, String> {
    let text = path.into_os_string().into_string();
    text.map_err(|path| {
        let path = Path::new(&path).display();
        format!("the path {path} is no text, and a module is handed it as one")
    })
}

pub(super) fn failed(release: String, reason: String) -> ModuleReport {
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
