//! A command that is run beside a module's process, with its environment and where it works.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use mesh_model::Workload;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;
use tracing::debug;

use crate::ending::Ending;
use crate::health::Exec;
use crate::host::Host;
use crate::proc::numbered;
use crate::process;

/// Runs commands beside one module.
#[derive(Debug)]
pub(crate) struct Beside {
    env: Vec<(String, String)>,
    dir: PathBuf,
}

impl Beside {
    /// Beside one of `workload`, to which the agent `added` this.
    pub(crate) fn new(host: &Host, workload: &Workload, added: &BTreeMap<String, String>) -> Self {
        let env = process::environment(host, workload, added);
        Self {
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            dir: host.files_path(&workload.module),
        }
    }
}

impl Exec for Beside {
    async fn exec(&self, command: &[String]) -> Result<(), String> {
        let Some((program, args)) = command.split_first() else {
            return Err("no command to ask with".to_owned());
        };
        // In a group of its own, so that what it starts can be ended with it. Without the mark of the module's starts: a
        // later agent would take it for the module.
        let mut child = Command::new(program)
            .args(args)
            .current_dir(&self.dir)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|refused| format!("{program} could not be started: {refused}"))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        let mut group = Group(pid.and_then(numbered));
        let status = child
            .wait()
            .await
            .map_err(|lost| format!("{program}: {lost}"))?;
        // From here on the number may be another's.
        group.0 = None;
        if status.success() {
            return Ok(());
        }
        Err(format!("{program} {}", Ending::from(status)))
    }
}

/// A command that nobody waits for any longer is ended with all it started.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0
            && let Err(gone) = kill_process_group(leader, Signal::KILL)
        {
            debug!(pid = %leader.as_raw_nonzero(), %gone, "it ended just now");
        }
    }
}
