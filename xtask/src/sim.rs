//! Runs the simulator: both ends of the conversation through loss, delay, restarts and outages.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::cargo::cargo;

/// Which seeds.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How many seeds to run
    #[arg(long, value_name = "N")]
    pub(crate) seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) from: u64,
}

/// Runs the seeds. The simulator's last line is the summary, and its exit code ours.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let status = simulator(options)
        .status()
        .context("starting the simulator")?;
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    Ok(ExitCode::from(code))
}

/// The command that runs the seeds.
pub(crate) fn simulator(options: &Options) -> Command {
    let mut command = cargo(["run", "--quiet", "--package", "mesh-testkit"]);
    command
        .args(["--example", "sim", "--"])
        .args(["--seeds", &options.seeds.to_string()])
        .args(["--from", &options.from.to_string()]);
    command
}
