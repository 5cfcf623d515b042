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

/// Where programs of this user have their sockets: `$XDG_RUNTIME_DIR`.
pub fn runtime_dir() -> Option<PathBuf> {
    variable("XDG_RUNTIME_DIR").map(PathBuf::from)
}

/// Where programs are looked up.
pub fn search_path() -> Option<OsString> {
    variable("PATH")
}

/// How a person runs one of the mesh's programs from where they are: by name; in a checkout the one that was built beside
/// this, or through cargo.
pub fn how_to_run(program: &str) -> String {
    let this = std::env::current_exe().unwrap_or_default();
    let beside = this.with_file_name(program);
    match (is_cargos(&this), beside.exists()) {
        (true, true) => shown(&beside),
        (true, false) => format!("cargo run -p {program} --"),
        (false, _) => program.to_owned(),
    }
}

/// A path as short as it can be typed here.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here)
        .unwrap_or(path)
        .display()
        .to_string()
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
