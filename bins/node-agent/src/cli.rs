//! What the agent is asked on its command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use mesh_host::{LogFormat, Place};

/// Runs on a host what the mesh's controller declares for it.
#[derive(Debug, Clone, Parser)]
#[command(name = "node-agent", version, about)]
pub(crate) struct Cli {
    /// The file `enrol` wrote; without it, the system's or the user's, and else the one in the default state directory.
    #[arg(long, global = true, env = "MESH_AGENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How the log is written: text or json.
    #[arg(long, global = true, env = "MESH_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Only warnings.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// More of what happens; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do; `run` without it.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// What the agent can do.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Verb {
    /// Run until told to stop. What it started goes on running.
    Run,
    /// Print what this node was last told to run, and what runs.
    Status,
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigVerb),
}

/// What can be done with the configuration.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print it as it is meant: every default filled in, every path whole.
    Show,
    /// Read the file and say what is wrong with it.
    Validate,
}

impl Cli {
    /// Below zero for warnings only, above for detail.
    pub(crate) fn verbosity(&self) -> i8 {
        if self.quiet {
            -1
        } else {
            i8::try_from(self.verbose).unwrap_or(i8::MAX)
        }
    }

    /// The configuration that is named, or the first of the two usual places that has one.
    pub(crate) fn config(&self) -> PathBuf {
        if let Some(file) = &self.config {
            return file.clone();
        }
        let usual = mesh_host::config_file(Place::Agent);
        let enrolled = mesh_host::state_dir(Place::Agent).join("agent.toml");
        if !usual.exists() && enrolled.exists() {
            enrolled
        } else {
            usual
        }
    }
}
