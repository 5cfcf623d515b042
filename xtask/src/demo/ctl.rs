//! `meshctl`, as the demo types it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// `meshctl` for one controller.
#[derive(Debug)]
pub(crate) struct Ctl {
    pub(crate) program: PathBuf,
    pub(crate) state_dir: PathBuf,
}

impl Ctl {
    /// Types a command, and gives what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .arg("--state-dir")
            .arg(&self.state_dir)
            .args(arguments)
            .output()
            .context("running meshctl")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "meshctl {} ended with {}: {said}",
                arguments.join(" "),
                output.status
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The mesh as it is.
    pub(crate) fn status(&self) -> Result<Value> {
        self.json(&["status"])
    }

    /// A command's answer, as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.run(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&text).context("reading meshctl's JSON")
    }

    /// How a person types it.
    pub(crate) fn line(&self) -> String {
        let (program, dir): (&Path, &Path) = (&self.program, &self.state_dir);
        format!("{} --state-dir {}", program.display(), dir.display())
    }
}

/// The processes of every module that runs, as the nodes reported them.
pub(crate) fn module_pids(status: &Value) -> Vec<(String, u32)> {
    let nodes = status.get("nodes").and_then(Value::as_array);
    let modules = nodes
        .into_iter()
        .flatten()
        .filter_map(|node| node.get("modules").and_then(Value::as_object))
        .flatten();
    modules
        .filter(|(_, report)| report.get("state").and_then(Value::as_str) == Some("running"))
        .filter_map(|(module, report)| {
            let pid = report.get("pid").and_then(Value::as_u64)?;
            Some((module.clone(), u32::try_from(pid).ok()?))
        })
        .collect()
}
