//! The tests that need a server, against one that is really there.
//!
//! A test target is live when it lies in `live-tests`, or its name begins with `live`, or its
//! source reads a `MESH_TEST_` variable. In `live-tests` the name of a target says what it
//! needs: `loopback*` no server, `containers*` container engines and a NATS server, `amqp*` and `*_amqp` a RabbitMQ, `*_both` and those whose mesh is
//! on both a NATS server as well, `faults*` a NATS server that is killed and stopped on the way, any
//! other a NATS server. Elsewhere the variable it reads says it. Those that need a RabbitMQ run once
//! for each there is: the installed one, and a newer.

mod brokers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::cargo::{Metadata, Package, Target, cargo, root};
use crate::clock::Stopwatch;
use crate::tally::Tally;
use crate::{out, setup};

/// Which live tests.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only the tests over this bus
    #[arg(long, value_enum)]
    only: Option<Bus>,
    /// Also the tests that kill, stop and starve the server
    #[arg(long)]
    faults: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Bus {
    Nats,
    Amqp,
    Loopback,
    Containers,
}

/// What a live test target needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Need {
    Loopback,
    Nats,
    Amqp,
    /// A NATS server and a RabbitMQ.
    Both,
    Faults,
    /// Container engines and a NATS server.
    Containers,
}

/// The variable that names the server's binary.
const SERVER: &str = "MESH_TEST_NATS";
/// The variable that names the folder of a NATS client for Python.
const PYTHON: &str = "MESH_TEST_PYTHON";
/// The variable that names a broker somebody runs.
const BROKER: &str = "MESH_TEST_AMQP";

/// The variable that names a container engine somebody runs, or has each test start its own.
const ENGINE: &str = mesh_testkit::engine::DOCKER;
const OWN: &str = mesh_testkit::engine::OWN;

type Variables = Vec<(&'static str, PathBuf)>;

impl Options {
    /// Every live test there is.
    pub(crate) const fn everything() -> Self {
        Self {
            only: None,
            faults: true,
        }
    }

    fn wants(&self, need: Need) -> bool {
        match need {
            Need::Loopback => self.over(Bus::Loopback),
            Need::Nats => self.over(Bus::Nats),
            Need::Amqp => self.over(Bus::Amqp),
            Need::Both => self.only.is_none(),
            Need::Containers => self.over(Bus::Containers),
            Need::Faults => self.faults && self.over(Bus::Nats),
        }
    }

    fn over(&self, bus: Bus) -> bool {
        self.only.is_none_or(|only| only == bus)
    }
}

/// Runs the live tests and closes with their count.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut tally = Tally::default();
    let outcome = count(options, &mut tally);
    out::data(tally);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Runs the live tests, counting. A missing server is a failure, and so is a run of no test.
pub(crate) fn count(options: &Options, tally: &mut Tally) -> Result<()> {
    let over_nats = options.over(Bus::Nats);
    let of_containers = options.over(Bus::Containers);
    let server = (over_nats || of_containers).then(server).transpose()?;
    let client = over_nats.then(nats_py).transpose()?;
    let metadata = Metadata::read()?;
    let before = tally.ran();
    let others = live(
        &metadata,
        &|need| !needs_broker(need) && need != Need::Containers && options.wants(need),
        &read,
    );
    let server = server.map(|it| (SERVER, it));
    let client = client.map(|it| (PYTHON, it));
    let variables: Variables = server.into_iter().chain(client).collect();
    let mut outcome = run_all(&others, "", &variables, tally);
    if of_containers {
        let targets = live(&metadata, &|need| need == Need::Containers, &read);
        let run = of_engines(&targets, setup::containers(), &variables, tally);
        outcome = outcome.and(run);
    }
    if options.over(Bus::Amqp) {
        let targets = live(
            &metadata,
            &|need| needs_broker(need) && options.wants(need),
            &read,
        );
        let run = over_amqp(&targets, brokers::all(), &variables, tally);
        outcome = outcome.and(run);
    }
    outcome?;
    ensure!(tally.ran() > before, "no live test ran");
    Ok(())
}

const fn needs_broker(need: Need) -> bool {
    matches!(need, Need::Amqp | Need::Both)
}

/// Runs the targets that need a RabbitMQ against each there is. Where one cannot be had they fail, and nothing else does.
fn over_amqp(
    targets: &[(String, Vec<String>)],
    brokers: Result<Vec<brokers::Broker>>,
    variables: &Variables,
    tally: &mut Tally,
) -> Result<()> {
    let brokers = brokers.with_context(|| failed(targets, "broker", tally))?;
    let mut outcome = Ok(());
    for broker in &brokers {
        let watch = Stopwatch::start();
        let against = format!(" against {broker}");
        let both: Variables = variables
            .iter()
            .chain(broker.variables())
            .cloned()
            .collect();
        let run = run_all(targets, &against, &both, tally);
        let seconds = watch.elapsed().as_secs();
        step(format_args!("over AMQP{against}: {seconds} s"));
        outcome = outcome.and(run);
    }
    outcome
}

/// Runs the targets that need container engines, with engines of each test's own unless the environment names one. Where
/// they cannot be had the targets fail, and nothing else does.
fn of_engines(
    targets: &[(String, Vec<String>)],
    engines: Result<()>,
    variables: &Variables,
    tally: &mut Tally,
) -> Result<()> {
    let mut variables = variables.clone();
    if std::env::var_os(ENGINE).is_none() {
        engines.with_context(|| failed(targets, "container engine", tally))?;
        variables.push((ENGINE, OWN.into()));
    }
    let watch = Stopwatch::start();
    let outcome = run_all(targets, "", &variables, tally);
    let seconds = watch.elapsed().as_secs();
    step(format_args!("of containers: {seconds} s"));
    outcome
}

/// Counts targets as failed that have not what they need, and says so.
fn failed(targets: &[(String, Vec<String>)], what: &str, tally: &mut Tally) -> String {
    let named = targets.iter().flat_map(|(_, targets)| targets);
    let names: Vec<&str> = named.map(String::as_str).collect();
    tally.failed += names.iter().map(|_| 1).sum::<u64>();
    let missing = format!("these have no {what}: {}", names.join(", "));
    step(format_args!("FAILED: {missing}"));
    missing
}

/// Runs targets, all of them even when one fails. The first failure is the outcome.
fn run_all(
    packages: &[(String, Vec<String>)],
    against: &str,
    variables: &Variables,
    tally: &mut Tally,
) -> Result<()> {
    let mut outcome = Ok(());
    for (package, targets) in packages {
        step(format_args!("{package}: {}{against}", targets.join(", ")));
        let mut command = cargo(["test", "--no-fail-fast", "--package", package]);
        for target in targets {
            command.args(["--test", target]);
        }
        command.args(["--", "--test-threads=2"]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let run = tally.run(&mut command);
        let run = run.with_context(|| format!("live tests of {package}{against}"));
        outcome = outcome.and(run);
    }
    outcome
}

fn step(line: impl std::fmt::Display) {
    out::step("test-live", line);
}

/// The server that the environment names, or else the one that setup installs.
fn server() -> Result<PathBuf> {
    let Some(named) = std::env::var_os(SERVER).map(PathBuf::from) else {
        return setup::nats_server();
    };
    if !named.is_file() {
        bail!(
            "{SERVER} names {}, which is not there; unset it to use the one `cargo xtask setup` installs",
            named.display()
        );
    }
    Ok(named)
}

/// The NATS client for Python that the environment names, or else the one that setup installs.
fn nats_py() -> Result<PathBuf> {
    std::env::var_os(PYTHON).map_or_else(setup::nats_py, |named| Ok(named.into()))
}

/// The packages with live test targets, and the targets that are wanted.
fn live(
    metadata: &Metadata,
    wants: &dyn Fn(Need) -> bool,
    read: &dyn Fn(&Path) -> String,
) -> Vec<(String, Vec<String>)> {
    metadata
        .members()
        .map(|package| {
            let wanted = package
                .targets
                .iter()
                .filter(|target| target.is("test"))
                .filter(|target| need(package, target, read).is_some_and(wants))
                .map(|target| target.name.clone());
            (package.name.clone(), wanted.collect::<Vec<_>>())
        })
        .filter(|(_, targets)| !targets.is_empty())
        .collect()
}

fn need(package: &Package, target: &Target, read: &dyn Fn(&Path) -> String) -> Option<Need> {
    if package.name == "live-tests" {
        let on_both = || read(Path::new(&target.src_path)).contains("Site::on_both");
        return Some(if target.name.starts_with("loopback") {
            Need::Loopback
        } else if target.name.starts_with("containers") {
            Need::Containers
        } else if target.name.ends_with("_both") || on_both() {
            Need::Both
        } else if target.name.starts_with("amqp") || target.name.ends_with("_amqp") {
            Need::Amqp
        } else if target.name.starts_with("faults") {
            Need::Faults
        } else {
            Need::Nats
        });
    }
    // A test that talks of the variable without being live is only run once more.
    let source = read(Path::new(&target.src_path));
    if source.contains(BROKER) {
        return Some(Need::Amqp);
    }
    if source.contains(ENGINE) || source.contains("mesh_testkit::engine") {
        return Some(Need::Containers);
    }
    let live = target.name.starts_with("live") || source.contains("MESH_TEST_");
    live.then_some(Need::Nats)
}

/// The source of a test target: one file, or all in the folder of a `main.rs`.
fn read(path: &Path) -> String {
    let path = root().join(path);
    let folder = path.parent().filter(|_| path.ends_with("main.rs"));
    let Some(folder) = folder.and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return std::fs::read_to_string(path).unwrap_or_default();
    };
    folder
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .collect()
}

#[cfg(test)]
mod tests;
