//! What the controller is asked on its command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use mesh_host::{LogFormat, Place};

/// Declares what each node of a mesh runs, and is the only writer of its bus.
#[derive(Debug, Clone, Parser)]
#[command(name = "controller", version, about)]
pub(crate) struct Cli {
    /// Configuration; without it, the system's or the user's file is read if it is there.
    #[arg(long, global = true, env = "MESH_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where keys, the store and the bus are kept [default: /var/lib/mesh/controller for root].
    #[arg(long, global = true, env = "MESH_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// How the log is written: text or json.
    #[arg(long, global = true, env = "MESH_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Only warnings.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// More of what happens; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Lets an operator make the store refuse for a while. For demonstrations and tests.
    #[arg(long, global = true, env = "MESH_ALLOW_FAULTS", hide = true)]
    pub(crate) allow_faults: bool,
    /// What to do; `run` without it.
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What the controller can do.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Verb {
    /// Run until told to stop.
    Run,
    /// Write everything that is kept into one file: records, keys and certificates. The controller must not run.
    Backup {
        /// The file.
        to: PathBuf,
    },
    /// Make a state directory from such a file. The directory must be new.
    Restore {
        /// The file.
        from: PathBuf,
    },
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigVerb),
}

/// What can be done with the configuration.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print it as it is meant, defaults included; with `--origin`, where each value comes from.
    Show {
        /// Say where each value comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Print a commented file to begin with.
    Init,
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

    /// Where everything is kept.
    pub(crate) fn state_dir(&self) -> PathBuf {
        let default = || mesh_host::state_dir(Place::Controller);
        self.state_dir.clone().unwrap_or_else(default)
    }
}
