//! Starting a broker, and having it ended with us, however we end.

mod program;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::Statistics;
use super::management::Management;
pub(super) use program::Program;

/// A broker and the shell that ends it.
#[derive(Debug)]
pub(super) struct Running {
    dir: PathBuf,
    ports: Ports,
    shell: Child,
}

/// Where it listens, on loopback all of them.
#[derive(Debug, Clone, Copy)]
struct Ports {
    amqp: u16,
    management: u16,
    names: u16,
    distribution: u16,
}

/// Starts the broker and the server of names it wants, and ends both when whoever started this is gone: then its input
/// ends. A test that panics, or is killed, leaves nothing behind.
const SHELL: &str = r#"
epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & names=$!
"$1" > "$2/out" 2>&1 & broker=$!
echo "$broker" > "$2/pid"
cat > /dev/null
kill -9 "$broker" "$names"
wait
rm -rf "$2"
"#;

impl Running {
    pub(super) fn start(program: &Program, statistics: Statistics) -> anyhow::Result<Self> {
        let ports = Ports::free()?;
        let dir = tempfile::Builder::new()
            .prefix("mesh-rabbitmq-")
            .tempdir()?;
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("home"))?;
        fs::write(at("rabbitmq.conf"), ports.configuration(statistics))?;
        fs::write(at("plugins"), "[rabbitmq_management].\n")?;
        let shell = Command::new("sh")
            .args(["-c", SHELL, "sh"])
            .args([&program.file, dir.path()])
            .env_clear()
            .env("PATH", program.path()?)
            .env("HOME", at("home"))
            .env("LANG", "C.UTF-8")
            .env("ERL_EPMD_PORT", ports.names.to_string())
            .env(
                "RABBITMQ_NODENAME",
                format!("mesh-{}@localhost", ports.amqp),
            )
            .env("RABBITMQ_MNESIA_BASE", at("data"))
            .env("RABBITMQ_LOG_BASE", at("log"))
            .env("RABBITMQ_CONF_ENV_FILE", at("none"))
            .env("RABBITMQ_CONFIG_FILE", at("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", at("plugins"))
            .env("RABBITMQ_DIST_PORT", ports.distribution.to_string())
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
            )
            // Its script then becomes the broker instead of waiting for it, and the process we know is the one to end.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A signal from the terminal is for us: the shell has to live on to clear up.
            .process_group(0)
            .spawn()
            .context("starting a shell")?;
        // From here on the shell removes it.
        let dir = dir.keep();
        Ok(Self { dir, ports, shell })
    }

    pub(super) const fn amqp(&self) -> SocketAddr {
        on_loopback(self.ports.amqp)
    }

    pub(super) fn management(&self) -> Management {
        Management::new(on_loopback(self.ports.management), USER, PASSWORD)
    }

    /// The broker's process.
    pub(super) fn pid(&self) -> Option<i32> {
        let text = fs::read_to_string(self.dir.join("pid")).ok()?;
        text.trim().parse().ok()
    }

    /// Waits until it serves.
    #[expect(
        clippy::disallowed_methods,
        reason = "a broker tells nobody when it is up: it is asked, up to a deadline"
    )]
    pub(super) fn wait(&self, management: &Management) -> anyhow::Result<()> {
        let began = Instant::now();
        while management.get("overview").is_err() {
            if began.elapsed() > PATIENCE {
                let out = fs::read_to_string(self.dir.join("out")).unwrap_or_default();
                bail!("RabbitMQ did not come up within {PATIENCE:?}; it said: {out}");
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It kills at once; that it could not be waited for changes nothing.
        let _ended = self.shell.wait();
    }
}

impl Ports {
    /// Four that nobody uses now.
    fn free() -> std::io::Result<Self> {
        let held = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (a, b, c, d) = (held()?, held()?, held()?, held()?);
        let port = |held: &TcpListener| held.local_addr().map(|at| at.port());
        Ok(Self {
            amqp: port(&a)?,
            management: port(&b)?,
            names: port(&c)?,
            distribution: port(&d)?,
        })
    }

    fn configuration(self, statistics: Statistics) -> String {
        let disabled = statistics == Statistics::None;
        format!(
            "listeners.tcp.local = 127.0.0.1:{}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {}\n\
             default_user = {USER}\ndefault_pass = {PASSWORD}\nlog.file.level = warning\n\
             disk_free_limit.absolute = 1MB\ncollect_statistics_interval = 100\n\
             management.disable_stats = {disabled}\nmanagement.enable_queue_totals = {disabled}\n",
            self.amqp, self.management
        )
    }
}

const fn on_loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

const USER: &str = "provisioner";
/// Of a broker that lives for a test, on loopback.
const PASSWORD: &str = "of-a-test";
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_broker_ends_with_who_started_it_and_leaves_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("stand-in");
        fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();

        let mut running = Running::start(&Program::at(program), Statistics::None).unwrap();
        let folder = running.dir.clone();
        // What the shell's input end means is that we are gone.
        let input = running.shell.stdin.take().unwrap();
        assert!(running.shell.try_wait().unwrap().is_none() && folder.exists());
        drop(input);
        assert!(running.shell.wait().unwrap().success());
        assert!(!folder.exists(), "{}", folder.display());
        let left = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let command = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&command).into_owned())
        });
        let names = format!("-port\0{}\0", running.ports.names);
        let left: Vec<String> = left.filter(|it| it.contains(&names)).collect();
        assert_eq!(left, [""; 0]);
    }
}
