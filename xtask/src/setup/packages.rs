//! Installs packages of the distribution, and sees to it that nothing is started by that: each test starts its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::{is_root, quietly, step, succeed};

/// What a package asks before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs packages. `otherwise` says what there is to do besides; `services` are what their next start of the machine
/// would bring, and does not.
pub(super) fn install(packages: &[&str], services: &[&str], otherwise: &str) -> Result<()> {
    let all = packages.join(" ");
    let root = Root::find(&all, otherwise)?;
    step(format_args!("{all}: installing with apt-get"));
    succeed(root.command("apt-get").args(["update", "-qq"]))?;
    let mut install = without_starting(&root, Path::new(POLICY));
    install.args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    install.args(["install", "-y", "-qq", "--no-install-recommends"]);
    succeed(install.args(packages))?;
    // Without systemd there is nothing to tell.
    for service in services {
        quietly(root.command("systemctl").args(["disable", service]));
    }
    Ok(())
}

/// The version of a package, where the distribution knows one.
pub(super) fn version(package: &str) -> Option<String> {
    let asked = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", package])
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
    fn find(packages: &str, otherwise: &str) -> Result<Self> {
        let otherwise = format!(
            "install {packages} (on Debian as root: apt-get install {packages}), or {otherwise}"
        );
        ensure!(
            quietly(Command::new("apt-get").arg("--version")),
            "there is no apt-get; {otherwise}"
        );
        if is_root() {
            return Ok(Self { through: None });
        }
        if quietly(Command::new("sudo").args(["-n", "true"])) {
            return Ok(Self {
                through: Some("sudo"),
            });
        }
        bail!("only root can install {packages}; {otherwise}")
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

/// What runs a command, which is to follow, while packages are told to start no service. However that ends, and if it is
/// interrupted, the machine is told no longer. One that has its own word on that keeps it.
fn without_starting(root: &Root, policy: &Path) -> Command {
    let mut command = root.command("sh");
    command.args(["-c", WITHOUT_STARTING, "sh"]).arg(policy);
    command
}

/// A shell ends its traps with itself, and with it the file; one that was killed leaves ours, and the next run knows it.
const WITHOUT_STARTING: &str = r#"
policy=$1; shift
ours='# Of cargo xtask setup, for as long as it installs.'
if [ -e "$policy" ] && ! grep -qxF "$ours" "$policy"; then exec "$@"; fi
trap 'rm -f "$policy"' EXIT
trap 'exit 130' HUP INT TERM
printf '#!/bin/sh\n%s\nexit 101\n' "$ours" > "$policy" && chmod 755 "$policy" || exit 1
"$@"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    const OURSELVES: Root = Root { through: None };

    /// Runs a line of shell, in which `$1` is the policy, without starting anything; how that ended.
    fn run(policy: &Path, line: &str) -> Option<i32> {
        let mut command = without_starting(&OURSELVES, policy);
        command.args(["sh", "-c", line, "sh"]).arg(policy);
        command.status().unwrap().code()
    }

    #[test]
    fn nothing_is_started_while_it_is_installed_and_the_machine_is_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        assert_eq!(
            run(&policy, "\"$1\" rabbitmq-server start; test $? = 101"),
            Some(0)
        );
        assert!(!policy.exists());
        assert_eq!(run(&policy, "exit 100"), Some(100));
        assert!(!policy.exists());
    }

    #[test]
    fn an_install_that_is_interrupted_leaves_nothing() {
        for signal in ["HUP", "INT", "TERM"] {
            let folder = tempfile::tempdir().unwrap();
            let policy = folder.path().join("policy-rc.d");
            let interrupted = format!("test -x \"$1\" && kill -{signal} $PPID");
            assert_eq!(run(&policy, &interrupted), Some(130), "{signal}");
            assert!(!policy.exists(), "{signal}");
        }
    }

    #[test]
    fn what_an_install_that_was_killed_left_is_taken_away_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        assert_eq!(run(&policy, "kill -KILL $PPID"), None);
        assert!(policy.exists());
        assert_eq!(run(&policy, "\"$1\"; test $? = 101"), Some(0));
        assert!(!policy.exists());
    }

    #[test]
    fn a_machine_that_says_itself_what_may_start_is_not_overruled() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        std::fs::write(&policy, "its own").unwrap();
        assert_eq!(run(&policy, "exit 0"), Some(0));
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
