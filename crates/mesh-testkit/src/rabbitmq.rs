//! A RabbitMQ of the tests' own: on loopback and free ports, with its own folder, ended with whoever started it.

mod management;
mod start;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, anyhow, bail, ensure};

pub use management::{Answer, Management};
use start::{Program, Running, Told};

/// Names a broker somebody runs: where it speaks AMQP, as `127.0.0.1:5672`.
pub const AMQP: &str = "MESH_TEST_AMQP";
/// Its management, with who may do everything there, as `http://guest:guest@127.0.0.1:15672`.
pub const HTTP: &str = "MESH_TEST_AMQP_HTTP";

/// Names the folder of a RabbitMQ that is unpacked and not installed, as `cargo xtask setup --rabbitmq 4` makes one. It is
/// started in the place of the installed one.
pub const ROOT: &str = "MESH_TEST_AMQP_ROOT";

/// How a broker of the tests' own is made.
#[derive(Debug, Default)]
pub struct Shape {
    /// Whether it tells of its queues all it collects now and then, instead of how many messages each has now.
    pub statistics: bool,
    /// Lines of its `rabbitmq.conf` besides those every one has.
    pub settings: String,
    /// What stands in its `advanced.config`, where some things have their only place.
    pub advanced: Option<String>,
    /// The chain of a certificate and its key, both in PEM: with them it speaks TLS as well.
    pub certificate: Option<(String, String)>,
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
        Self::find_with(&Shape::default())
    }

    /// One that is not shared, made as a test wants it and its to stop and start; of the same program as
    /// [`find`](Self::find) starts. There is none where the environment names a broker that somebody runs.
    pub fn own(shape: &Shape) -> anyhow::Result<Option<Self>> {
        if Self::named()?.is_none() {
            return Self::find_with(shape);
        }
        let missing = format!("{AMQP} names a broker, and a test has none to stop and start");
        if crate::in_ci() {
            bail!("{missing}, and in CI every live test runs");
        }
        said_aloud(&missing);
        Ok(None)
    }

    fn find_with(shape: &Shape) -> anyhow::Result<Option<Self>> {
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
            return Self::start(&program, shape).map(Some);
        }
        if let Some(program) = Program::installed() {
            return Self::start(&program, shape).map(Some);
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
        Self::once(&SHARED, &Shape::default())
    }

    /// The same, one that tells of each queue what policy it heeds, and of messages what they were a moment ago.
    pub fn shared_with_statistics() -> anyhow::Result<Option<&'static Self>> {
        static SHARED: Shared = OnceLock::new();
        let shape = Shape {
            statistics: true,
            ..Shape::default()
        };
        Self::once(&SHARED, &shape)
    }

    fn once(shared: &'static Shared, shape: &Shape) -> anyhow::Result<Option<&'static Self>> {
        let find = || Self::find_with(shape).map_err(|error| format!("{error:#}"));
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

    /// Where it speaks AMQP over TLS, if it was given a certificate.
    pub fn amqps(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(Running::amqps)
    }

    /// Where its management speaks HTTPS, if it was given a certificate.
    pub fn https(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(Running::https)
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.own_process()?.tell(Told::Stop)
    }

    /// Ends it without a word, as a crash would.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.own_process()?.tell(Told::Kill)
    }

    /// Starts it again after it ended, with what it had on disk, and waits until it serves.
    pub fn start_again(&self) -> anyhow::Result<()> {
        let running = self.own_process()?;
        running.tell(Told::Start)?;
        running.wait(&self.management)
    }

    /// Has it want more room on its disk than there is, or as little as any disk has: without it, it is short of disk.
    pub fn run_short_of_disk(&self, short: bool) -> anyhow::Result<()> {
        let limit = if short { "1000000000000000" } else { "1000000" };
        let told = format!("rabbit_disk_monitor:set_disk_free_limit({limit}).");
        let said = self.own_process()?.evaluate(&told)?;
        ensure!(said == "ok", "{told} {said}");
        Ok(())
    }

    fn own_process(&self) -> anyhow::Result<&Running> {
        let running = self.running.as_ref();
        running.context("the broker is somebody else's")
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

    fn start(program: &Program, shape: &Shape) -> anyhow::Result<Self> {
        let running = Running::start(program, shape)?;
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
