//! A RabbitMQ of the tests' own: on loopback and free ports, with its own folder, ended with whoever started it.

mod management;
mod start;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, anyhow, bail, ensure};

pub use management::{Answer, Management};
use start::{Program, Running};

/// Names a broker somebody runs: where it speaks AMQP, as `127.0.0.1:5672`.
pub const AMQP: &str = "MESH_TEST_AMQP";
/// Its management, with who may do everything there, as `http://guest:guest@127.0.0.1:15672`.
pub const HTTP: &str = "MESH_TEST_AMQP_HTTP";

/// Names the folder of a RabbitMQ that is unpacked and not installed, as `cargo xtask setup --rabbitmq 4` makes one. It is
/// started in the place of the installed one.
pub const ROOT: &str = "MESH_TEST_AMQP_ROOT";

/// What a broker of the tests' own tells of its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statistics {
    /// How many messages there are now, asked of each queue.
    None,
    /// All it collects now and then.
    Kept,
}

/// Where the program of the installed RabbitMQ is, if one is installed.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Program::found(Path::new("/"), &path)
}

type Shared = OnceLock<Result<Option<Broker>, String>>;

/// A broker that is really there.
#[derive(Debug)]
pub struct Broker {
    amqp: SocketAddr,
    management: Management,
    /// Only of one that was started here.
    running: Option<Running>,
}

impl Broker {
    /// The one that the environment names, or else one of its own: of the RabbitMQ that the environment names, or else of
    /// the installed one. With none of them there is none, which is said aloud and in CI an error.
    pub fn find() -> anyhow::Result<Option<Self>> {
        Self::find_with(Statistics::None)
    }

    fn find_with(statistics: Statistics) -> anyhow::Result<Option<Self>> {
        let root = std::env::var_os(ROOT).map(PathBuf::from);
        if let Some(named) = Self::named()? {
            ensure!(
                root.is_none(),
                "{AMQP} names a broker and {ROOT} another: set one of them"
            );
            return Ok(Some(named));
        }
        if let Some(root) = root {
            let program =
                Program::unpacked(&root).with_context(|| format!("{ROOT}={}", root.display()))?;
            return Self::start(&program, statistics).map(Some);
        }
        if let Some(program) = Program::installed() {
            return Self::start(&program, statistics).map(Some);
        }
        let missing = format!(
            "no RabbitMQ is installed (`cargo xtask setup` installs one) and {AMQP} names none"
        );
        if crate::in_ci() {
            bail!("{missing}, and in CI every live test runs");
        }
        said_aloud(&missing);
        Ok(None)
    }

    /// The same, once for all tests of a process: one takes several seconds to start. It ends with the process.
    pub fn shared() -> anyhow::Result<Option<&'static Self>> {
        static SHARED: Shared = OnceLock::new();
        Self::once(&SHARED, Statistics::None)
    }

    /// The same, one that tells of each queue what policy it heeds, and of messages what they were a moment ago.
    pub fn shared_with_statistics() -> anyhow::Result<Option<&'static Self>> {
        static SHARED: Shared = OnceLock::new();
        Self::once(&SHARED, Statistics::Kept)
    }

    fn once(
        shared: &'static Shared,
        statistics: Statistics,
    ) -> anyhow::Result<Option<&'static Self>> {
        let find = || Self::find_with(statistics).map_err(|error| format!("{error:#}"));
        let found = shared.get_or_init(find);
        found
            .as_ref()
            .map(Option::as_ref)
            .map_err(|error| anyhow!("{error}"))
    }

    /// Where it speaks AMQP.
    pub const fn amqp(&self) -> SocketAddr {
        self.amqp
    }

    /// Its management.
    pub const fn management(&self) -> &Management {
        &self.management
    }

    /// Its process, if it was started here.
    pub fn pid(&self) -> Option<i32> {
        self.running.as_ref().and_then(Running::pid)
    }

    fn named() -> anyhow::Result<Option<Self>> {
        let variable = |name| std::env::var_os(name).map(|it| it.to_string_lossy().into_owned());
        let (amqp, http) = match (variable(AMQP), variable(HTTP)) {
            (None, None) => return Ok(None),
            (Some(amqp), Some(http)) => (amqp, http),
            _ => bail!("{AMQP} and {HTTP} belong together: set both or neither"),
        };
        Ok(Some(Self {
            amqp: on_loopback(&amqp).with_context(|| format!("{AMQP}={amqp}"))?,
            management: named_management(&http).with_context(|| format!("{HTTP}={http}"))?,
            running: None,
        }))
    }

    fn start(program: &Program, statistics: Statistics) -> anyhow::Result<Self> {
        let running = Running::start(program, statistics)?;
        let management = running.management();
        running.wait(&management)?;
        program.is_what_runs(&management)?;
        Ok(Self {
            amqp: running.amqp(),
            management,
            running: Some(running),
        })
    }
}

fn named_management(url: &str) -> anyhow::Result<Management> {
    let form = "write http://USER:PASSWORD@HOST:PORT";
    let rest = url.strip_prefix("http://").context(form)?;
    let (login, at) = rest.trim_end_matches('/').rsplit_once('@').context(form)?;
    let (user, password) = login.split_once(':').context(form)?;
    Ok(Management::new(on_loopback(at)?, user, password))
}

/// Tests speak to this machine alone.
fn on_loopback(at: &str) -> anyhow::Result<SocketAddr> {
    let mut addresses = at.to_socket_addrs().context("write HOST:PORT")?;
    let address = addresses.next().context("no such host")?;
    ensure!(address.ip().is_loopback(), "tests talk to loopback only");
    Ok(address)
}

#[expect(
    clippy::print_stderr,
    reason = "a live test that does not run says so aloud"
)]
fn said_aloud(missing: &str) {
    eprintln!("did not run: {missing}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_named_is_on_loopback_and_has_a_login() {
        assert!(named_management("http://guest:guest@127.0.0.1:15672/").is_ok());
        for url in [
            "guest:guest@127.0.0.1:15672",
            "http://127.0.0.1:15672",
            "http://guest@127.0.0.1:15672",
            "http://guest:guest@192.0.2.1:15672",
        ] {
            assert!(named_management(url).is_err(), "{url}");
        }
    }
}
