//! A module's manifest on disk.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{Manifest, Run};
use serde::{Deserialize, Serialize};

use crate::codec::{text, texts, written};
use crate::declaration::{RestartV1, RunV1};
use crate::error::FieldError;
use crate::run::{HealthV1, RunV2};

#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct ModuleV1 {
    module: String,
    release: String,
    run: RunV1,
    after: BTreeSet<String>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    emits: BTreeSet<String>,
    follows: BTreeSet<String>,
    can_hold: BTreeSet<String>,
    sends_to: BTreeSet<String>,
}

impl From<&Manifest> for ModuleV1 {
    fn from(manifest: &Manifest) -> Self {
        Self {
            module: manifest.module.to_string(),
            release: manifest.release.clone(),
            run: (&manifest.run).into(),
            after: written(&manifest.after),
            env: manifest.env.clone(),
            restart: manifest.restart.into(),
            emits: written(&manifest.emits),
            follows: written(&manifest.follows),
            can_hold: written(&manifest.can_hold),
            sends_to: written(&manifest.sends_to),
        }
    }
}

impl TryFrom<ModuleV1> for Manifest {
    type Error = FieldError;
    fn try_from(form: ModuleV1) -> Result<Self, FieldError> {
        Ok(Self {
            module: text("module", form.module)?,
            release: form.release,
            run: form.run.into(),
            after: texts("after", form.after)?,
            env: form.env,
            restart: form.restart.into(),
            emits: texts("emits", form.emits)?,
            follows: texts("follows", form.follows)?,
            can_hold: texts("can_hold", form.can_hold)?,
            sends_to: texts("sends_to", form.sends_to)?,
            health: None,
            secrets: BTreeSet::new(),
        })
    }
}

/// With what a container is given, how health is asked for, and which secrets it is handed.
#[derive(Serialize, Deserialize)]
pub(in crate::fact) struct ModuleV2 {
    module: String,
    release: String,
    run: RunV2,
    after: BTreeSet<String>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    health: Option<HealthV1>,
    secrets: BTreeSet<String>,
    emits: BTreeSet<String>,
    follows: BTreeSet<String>,
    can_hold: BTreeSet<String>,
    sends_to: BTreeSet<String>,
}

impl ModuleV2 {
    /// Whether the first form does not say everything.
    pub(in crate::fact) fn needed(manifest: &Manifest) -> bool {
        matches!(manifest.run, Run::Image(_))
            || manifest.health.is_some()
            || !manifest.secrets.is_empty()
    }
}

impl From<&Manifest> for ModuleV2 {
    fn from(manifest: &Manifest) -> Self {
        Self {
            module: manifest.module.to_string(),
            release: manifest.release.clone(),
            run: (&manifest.run).into(),
            after: written(&manifest.after),
            env: manifest.env.clone(),
            restart: manifest.restart.into(),
            health: manifest.health.as_ref().map(Into::into),
            secrets: written(&manifest.secrets),
            emits: written(&manifest.emits),
            follows: written(&manifest.follows),
            can_hold: written(&manifest.can_hold),
            sends_to: written(&manifest.sends_to),
        }
    }
}

impl TryFrom<ModuleV2> for Manifest {
    type Error = FieldError;
    fn try_from(form: ModuleV2) -> Result<Self, FieldError> {
        Ok(Self {
            module: text("module", form.module)?,
            release: form.release,
            run: form.run.try_into()?,
            after: texts("after", form.after)?,
            env: form.env,
            restart: form.restart.into(),
            health: form.health.map(Into::into),
            secrets: texts("secrets", form.secrets)?,
            emits: texts("emits", form.emits)?,
            follows: texts("follows", form.follows)?,
            can_hold: texts("can_hold", form.can_hold)?,
            sends_to: texts("sends_to", form.sends_to)?,
        })
    }
}
