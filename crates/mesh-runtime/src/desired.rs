//! One workload as this host is to run it: what was declared and what the agent adds.

use std::collections::BTreeMap;
use std::fmt;

use mesh_model::{ModuleName, Workload};

/// A workload and the environment the agent adds to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Desired {
    /// What was declared.
    pub workload: Workload,
    /// `MESH_NODE`, `MESH_CREDS` and their like. A change here alone restarts nothing: it is used at the next start.
    pub extra_env: BTreeMap<String, String>,
}

impl Desired {
    /// Which module it is.
    pub const fn module(&self) -> &ModuleName {
        &self.workload.module
    }
}

/// Names of the environment only: a value may be a secret, and a secret is not printed.
impl fmt::Debug for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desired")
            .field("module", self.module())
            .field("release", &self.workload.release)
            .field("env", &self.workload.env.keys())
            .field("extra_env", &self.extra_env.keys())
            .finish_non_exhaustive()
    }
}
