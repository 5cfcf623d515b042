//! Which RabbitMQ the live tests over AMQP run against: the one the environment names, or each of two of ours.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{BROKER, Variables, step};
use crate::setup::{self, Installed, Unpacked};

/// The variable that names the folder of an unpacked broker.
const ROOT: &str = "MESH_TEST_AMQP_ROOT";

/// A broker, or how one is started.
#[derive(Debug)]
pub(super) struct Broker {
    says: String,
    variables: Variables,
}

impl Broker {
    /// What tells the tests about it.
    pub(super) const fn variables(&self) -> &Variables {
        &self.variables
    }

    fn new(says: impl Into<String>) -> Self {
        Self {
            says: says.into(),
            variables: Vec::new(),
        }
    }

    fn unpacked(Unpacked { root, version }: Unpacked) -> Self {
        Self {
            says: format!("RabbitMQ {version} in {}", root.display()),
            variables: vec![(ROOT, root)],
        }
    }
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

/// All of them. The installed one has to be there; a newer one is unpacked into a folder of ours. In CI a newer one that cannot be had is an error; elsewhere it is said aloud.
pub(super) fn all() -> Result<Vec<Broker>> {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    if let Some(at) = named(BROKER) {
        return Ok(vec![Broker::new(format!("the broker at {}", at.display()))]);
    }
    if let Some(root) = named(ROOT) {
        return Ok(vec![Broker::new(format!("RabbitMQ in {}", root.display()))]);
    }
    let installed = setup::rabbitmq()?;
    let (brokers, missing) = both(installed, setup::rabbitmq_4, mesh_testkit::in_ci())?;
    if let Some(missing) = missing {
        step(format_args!("NOT RUN against RabbitMQ 4: {missing}"));
    }
    Ok(brokers)
}

/// The installed one and a newer, unless that is what is installed; and why there is no newer.
fn both(
    Installed { version, .. }: Installed,
    newer: impl FnOnce() -> Result<Unpacked>,
    ci: bool,
) -> Result<(Vec<Broker>, Option<String>)> {
    let known = version.as_deref().unwrap_or("of a version unknown");
    let mut brokers = vec![Broker::new(format!("RabbitMQ {known} as installed"))];
    let major = known
        .split('.')
        .next()
        .and_then(|it| it.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 4) {
        return Ok((brokers, None));
    }
    match newer() {
        Ok(unpacked) => brokers.push(Broker::unpacked(unpacked)),
        Err(error) if ci => {
            return Err(error)
                .context("in CI every live test over AMQP runs against RabbitMQ 4, too");
        }
        Err(error) => return Ok((brokers, Some(format!("{error:#}")))),
    }
    Ok((brokers, None))
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn installed(version: Option<&str>) -> Installed {
        Installed {
            program: PathBuf::from("rabbitmq-server"),
            version: version.map(str::to_owned),
        }
    }

    fn newer() -> Unpacked {
        Unpacked {
            root: PathBuf::from("/of/four"),
            version: "4.0.5-6".to_owned(),
        }
    }

    fn said(brokers: &[Broker]) -> Vec<String> {
        brokers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_installed_broker_is_followed_by_a_newer_one_that_the_tests_are_told_of() {
        let (brokers, _) = both(installed(Some("3.10.8-1")), || Ok(newer()), true).unwrap();
        assert_eq!(
            said(&brokers),
            [
                "RabbitMQ 3.10.8-1 as installed",
                "RabbitMQ 4.0.5-6 in /of/four"
            ]
        );
        assert!(brokers[0].variables().is_empty());
        assert_eq!(brokers[1].variables(), &[(ROOT, PathBuf::from("/of/four"))]);
        let (brokers, _) = both(installed(None), || Ok(newer()), true).unwrap();
        assert_eq!(brokers.len(), 2);
    }

    #[test]
    fn an_installed_broker_that_is_new_is_the_only_one() {
        let fails = || bail!("asked for");
        let (brokers, missing) = both(installed(Some("4.0.5-6")), fails, true).unwrap();
        assert_eq!((brokers.len(), missing), (1, None));
    }

    #[test]
    fn a_newer_broker_that_cannot_be_had_fails_ci_and_is_said_elsewhere() {
        let fails = || bail!("no network");
        let error = both(installed(Some("3.10.8-1")), fails, true).unwrap_err();
        assert!(format!("{error:#}").contains("no network"), "{error:#}");
        let (brokers, missing) = both(installed(Some("3.10.8-1")), fails, false).unwrap();
        assert_eq!((brokers.len(), missing.as_deref()), (1, Some("no network")));
    }
}
