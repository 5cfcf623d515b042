//! Measurements, each beside a ceiling measured in the same run on the same machine.

#[cfg(feature = "bench")]
mod measure;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cargo;

/// How to tell the results.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// JSON on stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

/// Measures, in an optimized build that has the crates to be measured. Any other hands over to one,
/// so that no other task waits for those crates to be compiled.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    #[cfg(feature = "bench")]
    if cfg!(not(debug_assertions)) {
        return measure::run(options.json);
    }
    hand_over(options)
}

fn hand_over(options: &Options) -> Result<ExitCode> {
    let flags = ["--release", "--features", "bench"];
    let mut command = Command::new(cargo::executable("xtask", "xtask", &flags)?);
    command.arg("bench").args(options.json.then_some("--json"));
    let status = command.status().context("starting the optimized build")?;
    ensure!(status.success(), "the optimized build ended with {status}");
    Ok(ExitCode::SUCCESS)
}
