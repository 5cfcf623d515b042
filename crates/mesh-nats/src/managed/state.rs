//! What is remembered of a server that was started, for the controller that finds it running.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::authority::replace;
use crate::managed::process::ProcessId;

/// A server that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) pid: i32,
    pub(crate) started: u64,
    pub(crate) port: u16,
    /// Nothing while it has not answered yet.
    pub(crate) server_id: Option<String>,
    pub(crate) config: PathBuf,
}

impl State {
    /// What is remembered, if anything is and it can be read.
    pub(crate) fn load(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let state = serde_json::from_str(&text);
        if let Err(error) = &state {
            tracing::warn!(path = %path.display(), %error, "cannot be read; a server that runs is not adopted");
        }
        state.ok()
    }

    /// Remembers it.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        replace(path, &text)
    }

    pub(crate) fn process(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            started: self.started,
        }
    }
}
