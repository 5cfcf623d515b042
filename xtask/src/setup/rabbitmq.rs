//! Installs RabbitMQ from the distribution.

use std::path::PathBuf;

use anyhow::{Context, Result};
use mesh_testkit::rabbitmq::installed as installed_at;

use super::{packages, step};

const PACKAGE: &str = "rabbitmq-server";
/// What there is to do besides.
const OTHERWISE: &str = "name a broker for tests alone in MESH_TEST_AMQP and MESH_TEST_AMQP_HTTP";

/// The machine's own RabbitMQ.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) program: PathBuf,
    /// The package's version, where the distribution knows one.
    pub(crate) version: Option<String>,
}

/// The RabbitMQ that is installed. Nothing is done when there is none.
pub(super) fn there() -> Result<Installed> {
    missing_or(installed_at())
}

fn missing_or(program: Option<PathBuf>) -> Result<Installed> {
    let program = program.with_context(|| {
        format!(
            "{PACKAGE} is not installed; run `cargo xtask setup`, which installs it, or {OTHERWISE}"
        )
    })?;
    Ok(Installed {
        program,
        version: version(),
    })
}

/// A RabbitMQ, installed first when there is none.
pub(super) fn installed() -> Result<Installed> {
    if let Ok(installed) = there() {
        let known = installed.version.as_deref();
        let known = known.unwrap_or("of a version unknown");
        step(format_args!("{PACKAGE} {known} already there"));
        return Ok(installed);
    }
    packages::install(&[PACKAGE], &[PACKAGE], OTHERWISE)?;
    let program = installed_at().with_context(|| {
        format!("{PACKAGE} was installed, and its program is neither where Debian puts it nor in the path")
    })?;
    let version = version();
    let known = version.as_deref().unwrap_or_default();
    step(format_args!("{PACKAGE} {known} installed, not started"));
    Ok(Installed { program, version })
}

fn version() -> Option<String> {
    packages::version(PACKAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_missing_is_told_of_with_what_to_run_and_not_installed() {
        let error = missing_or(None).unwrap_err().to_string();
        assert!(
            error.contains("`cargo xtask setup`") && error.contains("MESH_TEST_AMQP"),
            "{error}"
        );
    }
}
