//! Where a host keeps the mesh's files, and what of the environment is passed on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Whose files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The controller's.
    Controller,
    /// The agent's.
    Agent,
}

impl Place {
    const fn word(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Agent => "agent",
        }
    }
}

/// `/etc/mesh/<who>.toml` for root, `$XDG_CONFIG_HOME/mesh/<who>.toml` for others.
pub fn config_file(place: Place) -> PathBuf {
    let file = format!("{}.toml", place.word());
    if is_root() {
        return PathBuf::from("/etc/mesh").join(file);
    }
    base("XDG_CONFIG_HOME", ".config").join("mesh").join(file)
}

/// `/var/lib/mesh/<who>` for root, `$XDG_DATA_HOME/mesh/<who>` for others.
pub fn state_dir(place: Place) -> PathBuf {
    if is_root() {
        return PathBuf::from("/var/lib/mesh").join(place.word());
    }
    base("XDG_DATA_HOME", ".local/share")
        .join("mesh")
        .join(place.word())
}

/// The agent's own environment, of which a module is given a little.
pub fn base_env() -> BTreeMap<String, String> {
    ["PATH", "HOME", "LANG", "TZ"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), variable(name)?.into_string().ok()?)))
        .collect()
}

/// Where programs are looked up.
pub fn search_path() -> Option<OsString> {
    variable("PATH")
}

/// How a person runs one of the mesh's programs from where they are: through cargo in a checkout, by name elsewhere.
pub fn how_to_run(program: &str) -> String {
    let here = std::env::current_exe().unwrap_or_default();
    if is_cargos(&here) {
        format!("cargo run -p {program} --")
    } else {
        program.to_owned()
    }
}

/// Whether a program lies where cargo puts what it built.
fn is_cargos(program: &Path) -> bool {
    let mut above = program.ancestors().skip(1).filter_map(Path::file_name);
    let profile = above
        .next()
        .is_some_and(|name| name == "debug" || name == "release");
    profile && above.next().is_some_and(|name| name == "target")
}

fn base(name: &str, below_home: &str) -> PathBuf {
    variable(name).map_or_else(
        || PathBuf::from(variable("HOME").unwrap_or_else(|| "/".into())).join(below_home),
        PathBuf::from,
    )
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_a_checkout_is_known_by_its_folders() {
        for (program, expected) in [
            ("/src/mesh/target/debug/meshctl", true),
            ("/src/mesh/target/release/meshctl", true),
            ("/usr/bin/meshctl", false),
            ("/home/debug/meshctl", false),
        ] {
            assert_eq!(is_cargos(Path::new(program)), expected, "{program}");
        }
    }
}
