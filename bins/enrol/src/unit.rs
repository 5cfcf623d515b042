//! The agent as a unit of systemd.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use mesh_auth::keyfile::write_public;

/// Where a unit would go, if this host and this user can have one.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "--install-unit needs root; run it with sudo, or leave it out and start the agent yourself"
        );
    }
    let dir = Path::new("/etc/systemd/system");
    if !dir.is_dir() {
        bail!(
            "--install-unit needs systemd, and this host has no {}; leave it out",
            dir.display()
        );
    }
    Ok(dir.join(UNIT))
}

/// Writes the unit that runs the agent of this configuration; answers what to run next.
pub(crate) fn install(place: &Path, config: &Path) -> anyhow::Result<String> {
    let program = program()?;
    write_public(place, &render(&program, config)?)?;
    Ok(format!(
        "systemctl daemon-reload\nsystemctl enable --now {UNIT}\n"
    ))
}

/// The agent beside this program, else in `PATH`.
fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path is not known")?;
    let path = mesh_host::search_path().unwrap_or_default();
    let beside = own.parent().map(Path::to_owned);
    beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join("node-agent"))
        .find(|program| program.is_absolute() && fs::metadata(program).is_ok_and(|m| m.is_file()))
        .context("no node-agent is beside this program or in PATH; install it, then write the unit by hand")
}

/// The unit's text. Only the agent is ended with its unit, never what it started.
///
/// What it starts inherits whatever confines the agent, and may be any program: so it gains no rights, and nothing of
/// the host is hidden from it.
fn render(program: &Path, config: &Path) -> anyhow::Result<String> {
    let state = state_directory(config).map_or(String::new(), |dir| {
        format!("StateDirectory={dir}\nStateDirectoryMode=0700\n")
    });
    let (program, config) = (quoted(program)?, quoted(config)?);
    Ok(format!(
        "[Unit]\n\
         Description=Agent of a mesh\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=simple\n\
         ExecStart={program} --config {config}\n\
         {state}\
         NoNewPrivileges=yes\n\
         KillMode=process\n\
         Restart=always\n\
         RestartSec=2\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    ))
}

/// The directory of this configuration as systemd makes and closes one (`systemd.exec(5)`): below `/var/lib`, named
/// without anything it would read as its own.
fn state_directory(config: &Path) -> Option<&str> {
    let dir = config.parent()?.strip_prefix("/var/lib").ok()?.to_str()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte);
    (!dir.is_empty() && dir.bytes().all(is_plain)).then_some(dir)
}

/// A path as one word of a command line (`systemd.service(5)`, "Command lines"): `%` and `$` stand for themselves when
/// doubled, and quotes and backslashes are escaped.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path
        .to_str()
        .filter(|text| !text.contains(char::is_control))
        .with_context(|| format!("the path {} cannot stand in a unit", path.display()))?;
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    Ok(format!("\"{escaped}\""))
}

const UNIT: &str = "mesh-node-agent.service";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_ends_the_agent_alone_and_starts_it_always() {
        let unit = render(
            Path::new("/usr/local/bin/node-agent"),
            Path::new("/var/lib/mesh/agent/agent.toml"),
        )
        .unwrap();
        for line in [
            "ExecStart=\"/usr/local/bin/node-agent\" --config \"/var/lib/mesh/agent/agent.toml\"",
            "KillMode=process",
            "Restart=always",
            "StartLimitIntervalSec=0",
            "NoNewPrivileges=yes",
            "StateDirectory=mesh/agent",
            "StateDirectoryMode=0700",
        ] {
            assert!(unit.lines().any(|found| found == line), "{line} in {unit}");
        }
    }

    #[test]
    fn a_directory_is_systemds_to_keep_only_where_it_keeps_them() {
        for (config, directory) in [
            ("/var/lib/mesh/agent/agent.toml", Some("mesh/agent")),
            ("/var/lib/agent.toml", None),
            ("/srv/agent/agent.toml", None),
            ("/var/lib/../etc/agent.toml", None),
            ("/var/lib/a b%n/agent.toml", None),
        ] {
            assert_eq!(state_directory(Path::new(config)), directory, "{config}");
        }
    }

    #[test]
    fn a_path_is_one_word_whatever_is_in_it() {
        for (path, word) in [
            ("/a b", "\"/a b\""),
            ("/a%b$c", "\"/a%%b$$c\""),
            ("/a\"b\\c", "\"/a\\\"b\\\\c\""),
        ] {
            assert_eq!(quoted(Path::new(path)).unwrap(), word);
        }
        assert!(quoted(Path::new("/a\nExecStart=evil")).is_err());
    }
}
