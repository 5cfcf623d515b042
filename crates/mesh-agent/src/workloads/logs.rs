//! The logs of this host's modules, as the runtime has them.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use mesh_bus::{LogLines, LogSource, NoLog};
use mesh_model::ModuleName;
use mesh_runtime::{RuntimeError, Tail};

use super::Shown;

/// Reads them, whichever way a module runs.
#[derive(Debug, Clone)]
pub(crate) struct HostLogs(Arc<Shown>);

impl HostLogs {
    pub(super) fn of(shown: Arc<Shown>) -> Self {
        Self(shown)
    }
}

impl LogSource for HostLogs {
    async fn read(&self, module: &ModuleName, tail: u32, follow: bool) -> Result<LogLines, NoLog> {
        let tail = Tail {
            lines: usize::try_from(tail).unwrap_or(usize::MAX),
            follow,
        };
        let logs = match self.0.runtime.logs(module, tail).await {
            Ok(logs) => logs,
            Err(RuntimeError::NoLog { .. }) => return Err(NoLog::NotHere),
            Err(error) => return Err(NoLog::Failed(error.to_string())),
        };
        let lines = stream::unfold(logs, |mut logs| async move {
            let line = logs.next().await?;
            let line = line.map(|line| line.bytes);
            Some((line.map_err(|broken| broken.to_string()), logs))
        });
        Ok(lines.boxed())
    }
}
