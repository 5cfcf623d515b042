//! What enrolment is asked on its command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use mesh_host::{LogFormat, Place};
use mesh_model::NodeName;

use crate::out;

/// Makes this host a node of a mesh, with a token `meshctl token create` printed. Its private keys are made here and
/// stay here. Run it again after an interruption: it asks as the same host.
#[derive(Debug, Clone, Parser)]
#[command(name = "enrol", version, about)]
pub(crate) struct Cli {
    /// The token. Better given as `MESH_TOKEN` in the environment: an argument is seen by every user of this host in the
    /// list of processes, and kept in the shell's history; whoever has the token first becomes the node.
    #[arg(env = "MESH_TOKEN", hide_env_values = true)]
    pub token: String,
    /// Where the agent's keys and configuration go [default: /var/lib/mesh/agent for root].
    #[arg(long, env = "MESH_AGENT_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What the node is to be called, unless the token says it.
    #[arg(long, env = "MESH_NODE_NAME", value_name = "NAME")]
    pub name: Option<NodeName>,
    /// How long to wait for the controller's answer.
    #[arg(long, env = "MESH_TIMEOUT", default_value = "60s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// Write a systemd unit for the agent too; needs root.
    #[arg(long)]
    pub install_unit: bool,
    /// How the log is written: text or json.
    #[arg(long, env = "MESH_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Only what goes wrong.
    #[arg(short, long)]
    pub quiet: bool,
    /// More of what happens; thrice for everything.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Cli {
    /// The log's level. This program says its steps itself, so its log begins with warnings.
    pub(crate) fn verbosity(&self) -> i8 {
        i8::try_from(self.verbose).unwrap_or(i8::MAX) - 1
    }

    /// Says that a step was taken, to who wants to know.
    pub(crate) fn say(&self, step: &str) {
        if !self.quiet {
            out::step(step);
        }
    }

    /// Where the agent's keys and configuration go.
    pub(crate) fn dir(&self) -> PathBuf {
        let default = || mesh_host::state_dir(Place::Agent);
        self.dir.clone().unwrap_or_else(default)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_help_says_how_to_give_the_token_and_why() {
        let help = Cli::command().render_help().to_string();
        for said in ["MESH_TOKEN", "seen by every user"] {
            assert!(help.contains(said), "{said} in {help}");
        }
    }
}
