//! Runs worlds of the simulator: `--seeds N` of them, `--from S` on.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};

fn main() -> anyhow::Result<ExitCode> {
    let (mut seeds, mut from) = (200_u64, 1_u64);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args
            .next()
            .with_context(|| format!("{arg} needs a number"))?;
        let value = value
            .parse()
            .with_context(|| format!("{arg} {value}: not a number"))?;
        match arg.as_str() {
            "--seeds" => seeds = value,
            "--from" => from = value,
            other => bail!("{other} is not known; there are --seeds N and --from S"),
        }
    }
    let mut out = std::io::stdout().lock();
    let (mut steps, mut failed) = (0, 0);
    for seed in from..from.saturating_add(seeds) {
        match mesh_testkit::sim::run(seed) {
            Ok(ran) => steps += ran.steps,
            Err(failure) => {
                failed += 1;
                writeln!(out, "{failure}")?;
            }
        }
    }
    writeln!(
        out,
        "sim: {seeds} seeds from {from}, {steps} steps, {failed} failed"
    )?;
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
