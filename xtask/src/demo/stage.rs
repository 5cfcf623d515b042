//! Where the demo plays: a folder of its own, the processes in it, and how both are cleared away.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::broker::Stand;
use super::children::{Service, alive, signal};
use super::ctl::{Ctl, module_pids};
use super::say;
use crate::clock::{Stopwatch, pause};
use crate::{cargo, out};

/// The folder, the programs and what of them runs.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Which task plays on it.
    task: &'static str,
    folder: TempDir,
    programs: BTreeMap<String, PathBuf>,
    pub(crate) watch: Stopwatch,
    /// Where the bus is a RabbitMQ.
    pub(crate) broker: Option<Stand>,
    pub(crate) ctl: Ctl,
    services: Vec<Service>,
    /// Processes the services started, which outlive them if nobody ends them.
    offspring: Vec<u32>,
}

/// Nobody waits longer for any one thing.
const PATIENCE: Duration = Duration::from_mins(1);

impl Stage {
    pub(crate) fn new(
        task: &'static str,
        programs: BTreeMap<String, PathBuf>,
        broker: Option<Stand>,
        watch: Stopwatch,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("mesh-demo-").tempdir()?;
        let ctl = Ctl {
            program: find(&programs, "meshctl")?,
            state_dir: folder.path().join("controller"),
        };
        Ok(Self {
            task,
            folder,
            programs,
            watch,
            broker,
            ctl,
            services: Vec::new(),
            offspring: Vec::new(),
        })
    }

    pub(crate) fn say(&self, what: &str) {
        say(self.task, self.watch, what);
    }

    pub(crate) fn dir(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn meshctl_line(&self) -> String {
        self.ctl.line()
    }

    /// A command of one of our programs, which finds the modules' programs as commands.
    pub(crate) fn command(&self, program: &str) -> Result<Command> {
        let path = find(&self.programs, program)?;
        let beside = path.parent().context("a program lies in a folder")?;
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(beside.to_owned()).chain(std::env::split_paths(&inherited));
        let search = std::env::join_paths(dirs)?;
        let mut command = Command::new(path);
        command.env("PATH", search).current_dir(cargo::root());
        Ok(command)
    }

    /// Starts a service with its log in the folder.
    pub(crate) fn start(&mut self, name: &str, command: &mut Command) -> Result<()> {
        let log = self.dir().join(format!("{name}.log"));
        self.services.push(Service::start(name, command, &log)?);
        Ok(())
    }

    /// The process of a service.
    #[cfg(feature = "bench")]
    pub(crate) fn pid(&self, name: &str) -> Result<u32> {
        let service = self.services.iter().find(|service| service.name == name);
        service
            .map(Service::pid)
            .context("a service that was started")
    }

    /// The process of the bus that the controller brought along, once it is remembered.
    #[cfg(feature = "bench")]
    pub(crate) fn bus(&self) -> Option<u32> {
        self.offspring.first().copied()
    }

    /// Looks until something is so, saying what is awaited; a service that ends meanwhile is an error.
    pub(crate) fn await_so<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let watch = Stopwatch::start();
        loop {
            for service in &mut self.services {
                service.must_run()?;
            }
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if watch.elapsed() > PATIENCE {
                bail!("{what}: not so after {} s", PATIENCE.as_secs());
            }
            pause(Duration::from_millis(100));
        }
    }

    /// Remembers what the services started: the bus, and every module that runs.
    pub(crate) fn remember(&mut self, status: &Value) {
        let bus = fs::read_to_string(self.ctl.state_dir.join("bus/state.json")).unwrap_or_default();
        let bus = serde_json::from_str::<Value>(&bus).unwrap_or_default();
        let bus = bus.get("pid").and_then(Value::as_u64);
        let bus = bus.and_then(|pid| u32::try_from(pid).ok());
        let modules = module_pids(status).into_iter().map(|(_, pid)| pid);
        for pid in modules.chain(bus) {
            if !self.offspring.contains(&pid) {
                self.offspring.push(pid);
            }
        }
    }

    /// Ends everything in order: the modules by declaration, then the agents, then the controller with its bus. An error
    /// if anything is left.
    pub(crate) fn strike(mut self) -> Result<()> {
        self.say("declaring an empty mesh, so that nothing runs");
        let empty = self.empty_mesh()?;
        self.ctl.run(&["apply", &empty.display().to_string()])?;
        self.say("stopping the agents, then the controller and its bus");
        while let Some(mut service) = self.services.pop() {
            service.stop(PATIENCE)?;
        }
        if let Some(broker) = self.broker.take() {
            broker.clear()?;
        }
        let left: Vec<String> = self
            .offspring
            .iter()
            .filter(|pid| alive(**pid))
            .map(u32::to_string)
            .collect();
        if !left.is_empty() {
            self.abandon();
            bail!("left running: {}", left.join(" "));
        }
        self.say("nothing is left running");
        Ok(())
    }

    /// A directory that declares nothing.
    pub(crate) fn empty_mesh(&self) -> Result<PathBuf> {
        let empty = self.dir().join("empty");
        fs::create_dir_all(empty.join("modules"))?;
        fs::write(
            empty.join("mesh.toml"),
            "version = 1\n[mesh]\nname = \"hello\"\n",
        )?;
        Ok(empty)
    }

    /// Ends everything at once, in no order.
    pub(crate) fn abandon(&mut self) {
        for service in &mut self.services {
            service.kill();
        }
        for pid in &self.offspring {
            signal(*pid, Signal::KILL);
        }
    }

    /// Leaves everything as it is.
    pub(crate) fn keep(&mut self) {
        self.folder.disable_cleanup(true);
    }

    /// What to end it with, later.
    pub(crate) fn pids(&self) -> String {
        let services = self.services.iter().rev().map(Service::pid);
        let pids = services.chain(self.offspring.iter().copied());
        pids.map(|pid| pid.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub(crate) fn show_logs(&self) {
        for service in &self.services {
            out::step(
                &service.name,
                format_args!("the end of its log:\n{}", service.last_words()),
            );
        }
    }
}

fn find(programs: &BTreeMap<String, PathBuf>, name: &str) -> Result<PathBuf> {
    let path = programs.get(name).cloned();
    path.with_context(|| format!("cargo built no program {name}"))
}
