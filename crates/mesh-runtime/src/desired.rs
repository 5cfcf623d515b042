//! One workload as this host is to run it: what was declared and what the agent adds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use mesh_model::{ModuleName, Workload};
use zeroize::Zeroizing;

/// A workload and what the agent adds to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Desired {
    /// What was declared.
    pub workload: Workload,
    /// `MESH_NODE`, `MESH_CREDS` and their like, as a process is told them. A change here alone restarts nothing: it is
    /// used at the next start.
    pub extra_env: BTreeMap<String, String>,
    /// The same as a container is told it: its files are at [`HANDED_IN_CONTAINER`].
    pub extra_env_in_container: BTreeMap<String, String>,
    /// The directory of the files it is handed: `creds`, `ca.pem`, `secrets/NAME`. Files in it are replaced by rename
    /// while the module runs; the directory itself stays the same one for as long as the module is declared.
    pub handed: PathBuf,
    /// What its image's registry is asked with.
    pub pull_secret: Option<PullSecret>,
}

/// Where in a container the files a module is handed are, read only.
pub const HANDED_IN_CONTAINER: &str = "/run/mesh";

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

/// An operator's secret, opened, for a registry. Wiped when dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PullSecret(Arc<Zeroizing<Vec<u8>>>);

impl PullSecret {
    /// Takes hold of it.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    /// The bytes themselves, for the one who asks the registry.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PullSecret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_secret_is_not_printed() {
        let secret = PullSecret::new(b"hunter2".to_vec());
        let printed = format!("{secret:?} {secret:#?}");
        assert!(
            !printed.contains("hunter2") && !printed.contains("104"),
            "{printed}"
        );
        assert_eq!(secret.expose(), b"hunter2");
    }
}
