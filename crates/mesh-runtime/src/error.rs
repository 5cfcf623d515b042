//! Why a plan could not be carried out.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_model::ModuleName;

/// Why a plan could not be carried out; what does not depend on the refused step was carried out all the same.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// A file the runtime must have was refused by the host: a full disk, a missing permission.
    #[error("{} could not be {step} ({source}); nothing was started without it", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What was being done to it.
        step: &'static str,
        /// What the host said.
        source: Arc<io::Error>,
    },
    /// Two agents on one directory would start everything twice.
    #[error("{} is held by another agent; end that one first", path.display())]
    InUse {
        /// The lock.
        path: PathBuf,
    },
    /// The host refused a signal.
    #[error(
        "process group {pid} of module {module} could not be signalled ({source}); end it by hand"
    )]
    Signal {
        /// Whose.
        module: ModuleName,
        /// The process that leads the group.
        pid: u32,
        /// What the host said.
        source: Arc<io::Error>,
    },
    /// Something of it is still there after SIGKILL: it hangs in the kernel.
    #[error(
        "process group {pid} of module {module} is still there {waited_ms} ms after SIGKILL; the next declaration \
         tries again"
    )]
    Unkillable {
        /// Whose.
        module: ModuleName,
        /// The process that leads the group.
        pid: u32,
        /// How long it was waited for, in milliseconds.
        waited_ms: u128,
    },
    /// Nothing was ever said by this module here.
    #[error("there is no log of module {module} on this host: it was never started here")]
    NoLog {
        /// Which.
        module: ModuleName,
    },
    /// A container engine did not do what it was asked.
    #[error("module {module}: {why}")]
    Engine {
        /// For which module.
        module: ModuleName,
        /// Why not.
        why: String,
    },
    /// The runtime is being dropped.
    #[error("the runtime has ended; open it again")]
    Closed,
}

impl RuntimeError {
    /// `source`, met while `path` was being `step`.
    pub(crate) fn file(path: &Path, step: &'static str, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            step,
            source: Arc::new(source),
        }
    }
}
