//! The version of a declaration that knows of containers, health, secrets and credentials that are replaced.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{Declaration, Home, Run, Sealed, Workload};
use serde::{Deserialize, Serialize};

use super::{GenerationV1, HomeV2, RestartV1};
use crate::codec::{text, texts, written};
use crate::error::FieldError;
use crate::run::{HandedV1, HealthV1, RunV2, SecretsV1, secrets, written_secrets};

/// Whether a workload says what no earlier version can.
pub(super) fn says_more(workload: &Workload) -> bool {
    matches!(workload.run, Run::Image(_))
        || workload.health.is_some()
        || !workload.secrets.is_empty()
        || workload.pull_secret.is_some()
        || !workload.accepts.is_empty()
}

/// On the wire and on disk alike, as the versions before it.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeclarationV3 {
    node: String,
    generation: GenerationV1,
    workloads: Vec<WorkloadV3>,
    home: Option<HomeV2>,
}

#[derive(Serialize, Deserialize)]
struct WorkloadV3 {
    module: String,
    release: String,
    run: RunV2,
    after: BTreeSet<String>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    health: Option<HealthV1>,
    secrets: SecretsV1,
    pull_secret: Option<HandedV1>,
    key: String,
    credential: Vec<u8>,
    accepts: BTreeSet<String>,
}

impl From<&Declaration> for DeclarationV3 {
    fn from(declaration: &Declaration) -> Self {
        Self {
            node: declaration.node.to_string(),
            generation: declaration.generation.into(),
            workloads: declaration.workloads.iter().map(Into::into).collect(),
            home: HomeV2::new(&declaration.home),
        }
    }
}

impl TryFrom<DeclarationV3> for Declaration {
    type Error = FieldError;
    fn try_from(form: DeclarationV3) -> Result<Self, FieldError> {
        Ok(Self {
            node: text("node", form.node)?,
            generation: form.generation.into(),
            workloads: form
                .workloads
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            home: form.home.map_or(Home::Here, Into::into),
        })
    }
}

impl From<&Workload> for WorkloadV3 {
    fn from(workload: &Workload) -> Self {
        Self {
            module: workload.module.to_string(),
            release: workload.release.clone(),
            run: (&workload.run).into(),
            after: written(&workload.after),
            env: workload.env.clone(),
            restart: workload.restart.into(),
            health: workload.health.as_ref().map(Into::into),
            secrets: written_secrets(&workload.secrets),
            pull_secret: workload.pull_secret.as_ref().map(Into::into),
            key: workload.key.to_string(),
            credential: workload.credential.0.clone(),
            accepts: written(&workload.accepts),
        }
    }
}

impl TryFrom<WorkloadV3> for Workload {
    type Error = FieldError;
    fn try_from(form: WorkloadV3) -> Result<Self, FieldError> {
        Ok(Self {
            module: text("workloads.module", form.module)?,
            release: form.release,
            run: form.run.try_into()?,
            after: texts("workloads.after", form.after)?,
            env: form.env,
            restart: form.restart.into(),
            health: form.health.map(Into::into),
            secrets: secrets("workloads.secrets", form.secrets)?,
            pull_secret: form.pull_secret.map(Into::into),
            key: text("workloads.key", form.key)?,
            credential: Sealed(form.credential),
            accepts: texts("workloads.accepts", form.accepts)?,
        })
    }
}
