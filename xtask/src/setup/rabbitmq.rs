//! Installs RabbitMQ from the distribution, and sees to it that nothing is started by that: each test starts its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{quietly, step, succeed};

const PACKAGE: &str = "rabbitmq-server";
/// Where Debian and Ubuntu put the broker's own program.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
/// What a package asks before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The machine's own RabbitMQ.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) program: PathBuf,
    /// The package's version, where the distribution knows one.
    pub(crate) version: Option<String>,
}

/// A RabbitMQ, installed first when there is none.
pub(super) fn installed() -> Result<Installed> {
    if let Some(program) = found() {
        let version = version();
        let known = version.as_deref().unwrap_or("of a version unknown");
        step(format_args!("{PACKAGE} {known} already there"));
        return Ok(Installed { program, version });
    }
    let root = Root::find()?;
    step(format_args!("{PACKAGE}: installing it with apt-get"));
    succeed(root.command("apt-get").args(["update", "-qq"]))?;
    without_starting(Path::new(POLICY), &root, || {
        let mut install = root.command("env");
        install.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "install"]);
        install.args(["-y", "-qq", "--no-install-recommends", PACKAGE]);
        succeed(&mut install)
    })?;
    // The next start of the machine is none of ours, either. Without systemd there is nothing to tell.
    quietly(root.command("systemctl").args(["disable", PACKAGE]));
    let program =
        found().with_context(|| format!("{PACKAGE} is installed, and not at {PROGRAM}"))?;
    let version = version();
    let known = version.as_deref().unwrap_or_default();
    step(format_args!("{PACKAGE} {known} installed, not started"));
    Ok(Installed { program, version })
}

fn found() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|dir| dir.join(PACKAGE));
    [PathBuf::from(PROGRAM)]
        .into_iter()
        .chain(in_path)
        .find(|program| program.is_file())
}

fn version() -> Option<String> {
    let asked = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", PACKAGE])
        .output();
    let output = asked.ok().filter(|output| output.status.success())?;
    let version = String::from_utf8(output.stdout).ok()?;
    Some(version).filter(|version| !version.is_empty())
}

/// How a command is run as root.
#[derive(Debug)]
struct Root {
    through: Option<&'static str>,
}

impl Root {
    fn find() -> Result<Self> {
        let otherwise = format!(
            "install {PACKAGE} (on Debian as root: apt-get install {PACKAGE}), or name a broker for tests alone in \
             MESH_TEST_AMQP and MESH_TEST_AMQP_HTTP"
        );
        ensure!(
            quietly(Command::new("apt-get").arg("--version")),
            "there is no apt-get; {otherwise}"
        );
        if super::is_root() {
            return Ok(Self { through: None });
        }
        if quietly(Command::new("sudo").args(["-n", "true"])) {
            return Ok(Self {
                through: Some("sudo"),
            });
        }
        bail!("only root can install {PACKAGE}; {otherwise}")
    }

    fn command(&self, program: &str) -> Command {
        match self.through {
            None => Command::new(program),
            Some(through) => {
                let mut command = Command::new(through);
                command.args(["-n", program]);
                command
            }
        }
    }
}

/// Does something while packages are told to start no service. A machine that has its own word on that keeps it.
fn without_starting(policy: &Path, root: &Root, act: impl FnOnce() -> Result<()>) -> Result<()> {
    if policy.exists() {
        return act();
    }
    let mut deny = root.command("sh");
    deny.args([
        "-c",
        "printf '#!/bin/sh\\nexit 101\\n' > \"$1\" && chmod 755 \"$1\"",
        "sh",
    ]);
    succeed(deny.arg(policy))?;
    let outcome = act();
    succeed(root.command("rm").arg("-f").arg(policy))?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURSELVES: Root = Root { through: None };

    #[test]
    fn nothing_is_started_while_it_is_installed_and_the_machine_is_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        let asked = || {
            Command::new(&policy)
                .args(["rabbitmq-server", "start"])
                .status()
        };
        let denied = || {
            assert_eq!(asked()?.code(), Some(101));
            Ok(())
        };
        without_starting(&policy, &OURSELVES, denied).unwrap();
        assert!(!policy.exists());
        without_starting(&policy, &OURSELVES, || bail!("no network")).unwrap_err();
        assert!(!policy.exists());
    }

    #[test]
    fn a_machine_that_says_itself_what_may_start_is_not_overruled() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        std::fs::write(&policy, "its own").unwrap();
        without_starting(&policy, &OURSELVES, || Ok(())).unwrap();
        assert_eq!(std::fs::read_to_string(&policy).unwrap(), "its own");
    }

    #[test]
    fn what_is_run_as_root_is_run_by_whoever_may() {
        let sudo = Root {
            through: Some("sudo"),
        };
        let command = sudo.command("apt-get");
        assert_eq!(command.get_program(), "sudo");
        assert!(command.get_args().eq(["-n", "apt-get"]));
        assert_eq!(OURSELVES.command("apt-get").get_program(), "apt-get");
    }
}
