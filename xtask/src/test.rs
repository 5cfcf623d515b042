//! Every check and every test, in the order in which they are cheapest to fail.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{cargo, root};
use crate::clock::Stopwatch;
use crate::tally::Tally;
use crate::{demo, out, setup, sim, test_live, tidy};

/// How thorough.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Many more seeds and generated cases
    #[arg(long)]
    long: bool,
}

type Step = fn(&Options, &mut Tally) -> Result<()>;

const STEPS: &[(&str, Step)] = &[
    ("fmt", |_, _| {
        succeed(&mut cargo(["fmt", "--all", "--check"]))
    }),
    ("clippy", |_, _| succeed(&mut clippy())),
    ("tidy", |_, _| tidy::check()),
    ("deny", |_, _| succeed(&mut deny()?)),
    ("wasm", |_, _| browser()),
    ("tests", tests),
    ("sim", simulation),
    ("live", |_, tally| {
        test_live::count(&test_live::Options::everything(), tally)
    }),
    ("demo", |_, _| demo::rehearse()),
];

/// Seeds and generated cases of an ordinary run and of a long one.
const SEEDS: u64 = 200;
const LONG_SEEDS: u64 = 20_000;
const LONG_CASES: &str = "8192";

/// Runs the steps up to the first that fails, and closes with the count of all tests.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut tally = Tally::default();
    let outcome = walk(STEPS, options, &mut tally);
    out::data(tally);
    outcome.map(|()| ExitCode::SUCCESS)
}

fn walk(steps: &[(&str, Step)], options: &Options, tally: &mut Tally) -> Result<()> {
    for (name, step) in steps {
        out::step("test", format_args!("{name} .."));
        let watch = Stopwatch::start();
        step(options, tally).with_context(|| format!("step {name}"))?;
        let seconds = watch.elapsed().as_secs();
        out::step("test", format_args!("{name} ok, {seconds} s"));
    }
    Ok(())
}

fn clippy() -> Command {
    let mut command = cargo(["clippy", "--workspace", "--all-targets", "--locked"]);
    command.args(["--all-features", "--", "-D", "warnings"]);
    command
}

/// What we may depend on. Advisories are left to where their database is at hand.
fn deny() -> Result<Command> {
    let mut command = Command::new(setup::cargo_deny()?);
    command.current_dir(root()).args(["--log-level", "error"]);
    command.args(["check", "bans", "licenses", "sources"]);
    Ok(command)
}

/// That the derivation is built for a browser, where nothing is that an operating system gives.
fn browser() -> Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", BROWSER])
        .current_dir(root())
        .output()
        .context("asking rustc where its libraries are")?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !Path::new(libraries.trim()).exists() {
        let not_to_be_had = std::env::var_os(NO_BROWSER).is_some();
        let unchecked = unchecked(mesh_testkit::in_ci(), not_to_be_had)?;
        out::step("test", unchecked);
        return Ok(());
    }
    let mut command = cargo(["check", "--package", "mesh-derive", "--locked"]);
    succeed(command.args(["--target", BROWSER]))
}

/// What is said where the target is missing. In CI that is an error, unless it was tried to have it.
fn unchecked(ci: bool, not_to_be_had: bool) -> Result<String> {
    if not_to_be_had {
        return Ok(format!(
            "NOT CHECKED: {BROWSER} is not installed, and cannot be had here"
        ));
    }
    let missing = format!("{BROWSER} is not installed; run `rustup target add {BROWSER}`");
    if ci {
        bail!("{missing}, and in CI the derivation is checked for a browser");
    }
    Ok(format!("NOT CHECKED: {missing}"))
}

/// Set by `.ci/run` where rustup could not add the target.
const NO_BROWSER: &str = "MESH_TEST_NO_BROWSER";
/// The target without an operating system.
const BROWSER: &str = "wasm32-unknown-unknown";

/// All tests that need no server, those in the documentation included.
fn tests(options: &Options, tally: &mut Tally) -> Result<()> {
    let mut command = cargo(["test", "--workspace", "--locked", "--no-fail-fast"]);
    command.args(["--all-features", "--exclude", "live-tests"]);
    // In CI a live test without its server fails. Here none has one: the step after this runs them.
    command.env_remove("CI");
    if options.long {
        command.env("PROPTEST_CASES", LONG_CASES);
    }
    tally.run(&mut command)
}

fn simulation(options: &Options, _: &mut Tally) -> Result<()> {
    let seeds = if options.long { LONG_SEEDS } else { SEEDS };
    succeed(&mut sim::simulator(&sim::Options { seeds, from: 0 }))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    if !status.success() {
        bail!("ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_named_and_the_last() {
        let steps: &[(&str, Step)] = &[
            ("first", |_, tally| {
                tally.passed += 1;
                Ok(())
            }),
            ("second", |_, _| bail!("broken")),
            ("third", |_, tally| {
                tally.passed += 1;
                Ok(())
            }),
        ];
        let mut tally = Tally::default();
        let error = walk(steps, &Options { long: false }, &mut tally).unwrap_err();
        assert_eq!(format!("{error:#}"), "step second: broken");
        assert_eq!(tally.passed, 1);
    }

    #[test]
    fn a_target_that_is_missing_fails_in_ci_unless_it_cannot_be_had() {
        let error = unchecked(true, false).unwrap_err().to_string();
        assert!(error.contains("rustup target add"), "{error}");
        assert!(
            unchecked(false, false)
                .unwrap()
                .contains("rustup target add")
        );
        assert!(unchecked(true, true).unwrap().contains("cannot be had"));
    }

    #[test]
    fn a_command_that_fails_fails_its_step() {
        assert!(succeed(&mut Command::new("false")).is_err());
        assert!(succeed(&mut Command::new("true")).is_ok());
    }
}
