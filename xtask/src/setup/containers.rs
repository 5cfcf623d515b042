//! Installs what the tests of containers start, from the distribution: Docker's engine, Podman, and a registry of images.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use mesh_testkit::engine::{DOCKER, Kind};
use mesh_testkit::{program, registry};

use super::{packages, step};

/// What the packages would start with the machine.
const SERVICES: &[&str] = &[
    "docker.socket",
    "docker.service",
    "containerd.service",
    "docker-registry.service",
    "podman.socket",
    "podman.service",
    "podman-auto-update.timer",
    "podman-restart.service",
];

/// That everything is installed. Nothing is done when it is not.
pub(super) fn there() -> Result<()> {
    none_of(&missing())
}

/// The same, with what is missing installed first.
pub(super) fn installed() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        for package in ["docker.io", "podman", registry::PACKAGE] {
            let version = packages::version(package);
            let known = version.as_deref().unwrap_or("of a version unknown");
            step(format_args!("{package} {known} already there"));
        }
        return Ok(());
    }
    let missing: Vec<&str> = missing.into_iter().collect();
    let otherwise = format!("name an engine for tests alone in {DOCKER}");
    packages::install(&missing, SERVICES, &otherwise)?;
    there()?;
    step(format_args!("{} installed, not started", missing.join(" ")));
    Ok(())
}

/// The packages that are not installed.
fn missing() -> BTreeSet<&'static str> {
    let engines = Kind::ALL.into_iter().flat_map(Kind::missing);
    let registry = [registry::PACKAGE].into_iter();
    let registry = registry.filter(|name| program::found(name).is_none());
    engines.chain(registry).collect()
}

fn none_of(missing: &BTreeSet<&str>) -> Result<()> {
    let missing: Vec<&str> = missing.iter().copied().collect();
    ensure!(
        missing.is_empty(),
        "{} not installed; run `cargo xtask setup` as root, which installs what is missing",
        missing.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_run() {
        assert!(none_of(&BTreeSet::new()).is_ok());
        let error = none_of(&BTreeSet::from(["podman", "runc"])).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("podman, runc not installed") && error.contains("xtask setup"),
            "{error}"
        );
    }

    #[test]
    fn an_engine_is_started_with_packages_that_setup_knows() {
        for kind in Kind::ALL {
            assert!(
                kind.needs()
                    .iter()
                    .all(|(program, package)| { !program.is_empty() && !package.is_empty() })
            );
        }
    }
}
