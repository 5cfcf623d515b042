//! Starting a broker, and having it ended with us, however we end.

mod program;
mod settings;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::Shape;
use super::management::Management;
pub(super) use program::Program;
use settings::{PASSWORD, Ports, USER};

/// A broker and the shell that ends it.
#[derive(Debug)]
pub(super) struct Running {
    dir: PathBuf,
    ports: Ports,
    shell: Child,
    /// Where its Erlang is found.
    path: OsString,
}

/// What a broker's shell is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Ask the broker to end, and do not wait for it for ever.
    Stop,
    /// End it as a crash would.
    Kill,
    /// Start it, on its data and where it was.
    Start,
}

/// Starts the broker and the server of names it wants, does what it is told, and ends both when whoever started this is
/// gone: then its input ends. A test that panics, or is killed, leaves nothing behind.
const SHELL: &str = r#"
epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & names=$!
start() {
  "$1" >> "$2/out" 2>&1 & broker=$!
  echo "$broker" > "$2/pid"
}
ended() {
  wait "$broker"
  broker=
  rm "$1/pid"
}
start "$@"
while read -r told; do
  case "$told" in
    start) start "$@" ;;
    kill) kill -9 "$broker"; ended "$2" ;;
    stop)
      kill "$broker"
      for _ in $(seq 300); do
        kill -0 "$broker" || break
        sleep 0.1
      done
      kill -9 "$broker"
      ended "$2" ;;
  esac
done
kill -9 $broker "$names"
wait
rm -rf "$2"
"#;

impl Running {
    pub(super) fn start(program: &Program, shape: &Shape) -> anyhow::Result<Self> {
        let ports = Ports::free()?;
        let dir = tempfile::Builder::new()
            .prefix("mesh-rabbitmq-")
            .tempdir()?;
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("home"))?;
        fs::write(at("rabbitmq.conf"), ports.configuration(shape, dir.path())?)?;
        if let Some(advanced) = &shape.advanced {
            fs::write(at("advanced.config"), advanced)?;
        }
        fs::write(at("plugins"), "[rabbitmq_management].\n")?;
        let path = program.path()?;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SHELL, "sh"])
            .args([&program.file, dir.path()]);
        ports.name(&mut shell, dir.path(), &path);
        let shell = shell
            .env("RABBITMQ_MNESIA_BASE", at("data"))
            .env("RABBITMQ_LOG_BASE", at("log"))
            .env("RABBITMQ_CONFIG_FILE", at("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", at("advanced.config"))
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
            .stderr(Stdio::null())
            // A signal from the terminal is for us: the shell has to live on to clear up.
            .process_group(0)
            .spawn()
            .context("starting a shell")?;
        // From here on the shell removes it.
        let dir = dir.keep();
        Ok(Self {
            dir,
            ports,
            shell,
            path,
        })
    }

    /// Has the broker ended or started, and waits until it has ended, or has a process again.
    pub(super) fn tell(&self, told: Told) -> anyhow::Result<()> {
        let word = match told {
            Told::Stop => "stop\n",
            Told::Kill => "kill\n",
            Told::Start => "start\n",
        };
        let runs = told == Told::Start;
        ensure!(
            self.pid().is_some() != runs,
            "the broker is told {told:?} twice"
        );
        let mut shell = self.shell.stdin.as_ref().context("a shell is told")?;
        shell.write_all(word.as_bytes())?;
        self.has_process(runs)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the end of another's child tells nobody: it is looked for, up to a deadline"
    )]
    fn has_process(&self, runs: bool) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.pid().is_some() != runs {
            let elapsed = began.elapsed();
            ensure!(elapsed < PATIENCE, "the broker does not start or end");
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// What an expression of Erlang is worth in the broker. By Erlang alone: the broker's own tool does not start with
    /// one that is unpacked.
    pub(super) fn evaluate(&self, expression: &str) -> anyhow::Result<String> {
        let broker = self.ports.nodename();
        let here = format!("asks-{broker}");
        let ask = format!(
            "{{ok, S, _}} = erl_scan:string({expression:?}), {{ok, E}} = erl_parse:parse_exprs(S), \
             {{value, V, _}} = rpc:call('{broker}', erl_eval, exprs, [E, []]), io:format(\"~p\", [V]), halt()."
        );
        let mut command = Command::new("erl");
        self.ports.name(&mut command, &self.dir, &self.path);
        let output = command
            .args(["-noshell", "-sname", &here])
            .args(["-kernel", "inet_dist_use_interface", "{127,0,0,1}"])
            .args(["-eval", &ask])
            .stdin(Stdio::null())
            .output()
            .context("erl")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{expression}: {said}{err}");
        Ok(said)
    }

    pub(super) const fn amqps(&self) -> SocketAddr {
        on_loopback(self.ports.amqps)
    }

    pub(super) const fn https(&self) -> SocketAddr {
        on_loopback(self.ports.https)
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

const fn on_loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

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

        let mut running = Running::start(&Program::at(program), &Shape::default()).unwrap();
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

    #[test]
    fn a_broker_is_stopped_killed_and_started_again_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("stand-in");
        fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let running = Running::start(&Program::at(program), &Shape::default()).unwrap();
        let command = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        running.has_process(true).unwrap();
        let mut before = running.pid().unwrap();
        for told in [Told::Stop, Told::Kill] {
            assert!(running.tell(Told::Start).is_err(), "it runs");
            running.tell(told).unwrap();
            assert_eq!(running.pid(), None);
            assert_eq!(command(before), b"", "{told:?}");
            running.tell(Told::Start).unwrap();
            let after = running.pid().unwrap();
            assert_ne!(after, before);
            before = after;
        }
    }
}
