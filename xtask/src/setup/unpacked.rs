//! A RabbitMQ newer than the distribution's: unpacked from its next release into a folder of ours, nothing installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::apt::{Apt, Mirror, Package};
use super::relocated::relocate;
use super::{step, succeed, told};
use crate::cargo::root;
use crate::clock::Stopwatch;

/// A release of RabbitMQ that setup unpacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Release {
    /// 4.0.3 or later, below 5
    #[value(name = "4")]
    Four,
}

/// A RabbitMQ in a folder of its own.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// The folder, as `MESH_TEST_AMQP_ROOT` names it.
    pub(crate) root: PathBuf,
    /// The package's version.
    pub(crate) version: String,
}

/// The release of each distribution that has this RabbitMQ.
const SUITES: [(&str, &str); 2] = [("debian", "trixie"), ("ubuntu", "resolute")];
const PACKAGE: &str = "rabbitmq-server";
/// The first line of the file that tells a whole folder. Another way to lay one out gets another number.
const LAYOUT: &str = "layout 1";
const STAMP: &str = "versions";

/// The RabbitMQ 4 of ours, unpacked first when it is not there yet.
pub(super) fn installed() -> Result<Unpacked> {
    let place = root().join(".mesh/rabbitmq-4");
    if let Some(version) = version_in(&place) {
        step(format_args!("{PACKAGE} {version} already there, in .mesh"));
        return Ok(Unpacked {
            root: place,
            version,
        });
    }
    let version = unpack(&place).with_context(|| format!("{PACKAGE} 4 was not unpacked"))?;
    Ok(Unpacked {
        root: place,
        version,
    })
}

/// The version of a folder that is whole.
fn version_in(place: &Path) -> Option<String> {
    let stamp = fs::read_to_string(place.join(STAMP)).ok()?;
    let mut lines = stamp.lines();
    let mut versions = lines.clone().filter_map(|line| line.split_once(' '));
    (lines.next() == Some(LAYOUT)).then_some(())?;
    let (_, version) = versions.find(|(name, _)| *name == PACKAGE)?;
    Some(version.to_owned())
}

/// Makes the folder beside its place and renames it at the end, so that what is there is whole.
fn unpack(place: &Path) -> Result<String> {
    let watch = Stopwatch::start();
    let mirror = Mirror::find()?;
    let suite = suite(&mirror.distribution)?;
    let folder = place.parent().context("a folder lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let scratch = tempfile::tempdir_in(folder)
        .with_context(|| format!("creating a folder in {}", folder.display()))?;

    step(format_args!(
        "{PACKAGE} 4: asking the mirror for what {suite} has"
    ));
    let apt = Apt::of(&scratch.path().join("apt"), &mirror, suite)?;
    let mut packages = apt.closure(PACKAGE)?;
    packages.retain(|it| is_run(&it.name));
    let version = serves(&packages)?;
    let count = packages.len();
    step(format_args!(
        "{PACKAGE} {version}: downloading it and what it runs on, {count} packages"
    ));
    let files = apt.download(&packages)?;
    let mut bytes = 0;
    let made = scratch.path().join("root");
    for file in &files {
        bytes += file.metadata()?.len();
        succeed(Command::new("dpkg-deb").arg("-x").arg(file).arg(&made))?;
    }
    relocate(&made)?;
    let erlang = erlang(&made)?;
    fs::write(made.join(STAMP), stamp(&packages))?;
    if place.exists() {
        fs::remove_dir_all(place).with_context(|| format!("removing {}", place.display()))?;
    }
    fs::rename(&made, place).with_context(|| format!("installing {}", place.display()))?;
    let (megabytes, seconds) = (bytes / 1_000_000, watch.elapsed().as_secs());
    step(format_args!(
        "{PACKAGE} {version} on Erlang {erlang}: unpacked into .mesh, {megabytes} MB of packages, {seconds} s"
    ));
    Ok(version)
}

fn suite(distribution: &str) -> Result<&'static str> {
    let mut suites = SUITES.iter().filter(|(name, _)| *name == distribution);
    let suite = suites.next().map(|(_, suite)| *suite);
    suite.with_context(|| {
        format!(
            "it is taken from the packages of Debian and Ubuntu, and this is {distribution}; name a broker for tests \
             alone in MESH_TEST_AMQP and MESH_TEST_AMQP_HTTP"
        )
    })
}

/// Whether a broker that runs has to do with a package: scripts run in the machine's own shell, and nothing is installed.
fn is_run(package: &str) -> bool {
    [PACKAGE, "zlib1g"].contains(&package)
        || package.starts_with("erlang-")
        || (package.starts_with("lib") && !package.starts_with("libpython"))
}

/// The broker's version among the packages, if it is one whose rights hold what is derived.
fn serves(packages: &[Package]) -> Result<String> {
    let package = packages.iter().find(|it| it.name == PACKAGE);
    let version = &package.context("it is not among the packages")?.version;
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    let numbers = (number(), number(), number());
    ensure!(
        ((4, 0, 3)..(5, 0, 0)).contains(&numbers),
        "the mirror has {version}, and one from 4.0.3 and below 5 is wanted"
    );
    Ok(version.clone())
}

/// Starts the Erlang once, with what a broker needs of the libraries, and tells its release.
fn erlang(root: &Path) -> Result<String> {
    let mut erl = Command::new(root.join("usr/lib/erlang/bin/erl"));
    erl.args(["-noinput", "-boot", "no_dot_erlang", "-eval"]);
    erl.arg("ok = crypto:start(), io:put_chars(erlang:system_info(otp_release)), halt().");
    told(&mut erl).context("the Erlang that was unpacked does not run here")
}

fn stamp(packages: &[Package]) -> String {
    let lines = packages
        .iter()
        .map(|it| [&it.name, " ", &it.version, "\n"].concat());
    format!("{LAYOUT}\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(version: &str) -> Vec<Package> {
        let package = |(name, version): (&str, &str)| Package {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        [("erlang-base", "1:27.3"), (PACKAGE, version)]
            .map(package)
            .into()
    }

    #[test]
    fn a_broker_that_is_not_what_was_asked_for_is_refused() {
        assert_eq!(
            serves(&packages("4.0.5-6+deb13u2")).unwrap(),
            "4.0.5-6+deb13u2"
        );
        for version in ["3.13.7-1", "4.0.2-1", "5.0.0-1", "unknown"] {
            let error = serves(&packages(version)).unwrap_err().to_string();
            assert!(error.contains(version), "{error}");
        }
        serves(&[]).unwrap_err();
    }

    #[test]
    fn a_folder_that_is_whole_tells_its_version_and_any_other_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(version_in(folder.path()), None);
        let written = stamp(&packages("4.0.5-6"));
        fs::write(folder.path().join(STAMP), &written).unwrap();
        assert_eq!(version_in(folder.path()).as_deref(), Some("4.0.5-6"));
        let older = written.replace(LAYOUT, "layout 0");
        fs::write(folder.path().join(STAMP), older).unwrap();
        assert_eq!(version_in(folder.path()), None);
    }

    #[test]
    fn only_what_a_broker_runs_on_is_taken() {
        let taken = [
            "rabbitmq-server",
            "erlang-ssl",
            "libc6",
            "libssl3t64",
            "zlib1g",
        ];
        assert!(taken.into_iter().all(is_run));
        let left = ["passwd", "python3", "libpython3-stdlib", "dpkg", "socat"];
        assert!(!left.into_iter().any(is_run));
    }

    #[test]
    fn a_distribution_without_one_is_told_what_to_do() {
        assert_eq!(suite("debian").unwrap(), "trixie");
        let error = suite("slackware").unwrap_err().to_string();
        assert!(
            error.contains("slackware") && error.contains("MESH_TEST_AMQP"),
            "{error}"
        );
    }
}
