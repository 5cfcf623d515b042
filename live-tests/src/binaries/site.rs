//! One mesh of real programs in a folder of its own: a controller with the server it brings, and agents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use mesh_model::{Generation, Seq};
use serde_json::Value;

use super::broker::Vhost;
use super::programs::Programs;
use super::remains::{self, Process};
use super::service::{Said, Service, tail};
use crate::patience::{eventually, within};

/// A mesh on this machine.
#[derive(Debug)]
pub struct Site {
    programs: Programs,
    /// Of a mesh over RabbitMQ.
    pub(super) broker: Option<Vhost>,
    state_dir: PathBuf,
    controller: Option<Service>,
    agents: BTreeMap<String, Service>,
    /// Last, so that it outlives everything that runs in it.
    dir: tempfile::TempDir,
}

impl Site {
    /// A folder in which nothing runs yet; nothing when the test is not to run, which was said aloud.
    pub fn new() -> anyhow::Result<Option<Self>> {
        let Some(programs) = Programs::get()? else {
            return Ok(None);
        };
        Self::with(programs, None).map(Some)
    }

    pub(super) fn with(programs: Programs, broker: Option<Vhost>) -> anyhow::Result<Self> {
        mesh_host::install_tls();
        let dir = tempfile::tempdir()?;
        let site = Self {
            programs,
            broker,
            state_dir: dir.path().join("controller"),
            controller: None,
            agents: BTreeMap::new(),
            dir,
        };
        site.write("controller.toml", "version = 1\n")?;
        Ok(site)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the controller keeps everything.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Has the next controller keep everything elsewhere in the folder.
    pub fn use_state_dir(&mut self, name: &str) {
        self.state_dir = self.dir.path().join(name);
    }

    /// Writes a file in the folder.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.dir.path().join(name);
        let folder = path.parent().context("a file is in a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// One of the programs, ready to be given arguments, with an environment of this site alone.
    pub fn command(&self, program: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(self.programs.path(program)?);
        command
            .env_clear()
            .env("PATH", self.programs.search_path()?)
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path());
        Ok(command)
    }

    /// Runs a program to its end.
    pub async fn run(&self, command: Command) -> anyhow::Result<Said> {
        let mut command = tokio::process::Command::from(command);
        let output = command.kill_on_drop(true).output();
        let output = within(DEADLINE, "a program ends", output).await??;
        Ok(output.into())
    }
}

/// The controller.
impl Site {
    /// The controller, ready to be given a verb.
    pub fn controller(&self) -> anyhow::Result<Command> {
        let mut command = self.command("controller")?;
        command
            .arg("--config")
            .arg(self.dir.path().join("controller.toml"))
            .arg("--state-dir")
            .arg(&self.state_dir);
        Ok(command)
    }

    /// Starts the controller without waiting for it.
    pub fn launch_controller(&mut self) -> anyhow::Result<()> {
        let log = self.dir.path().join("controller.log");
        self.controller = Some(Service::start("controller", self.controller()?, &log)?);
        Ok(())
    }

    /// Starts the controller, and waits until its bus is as it should be and every node was told.
    pub async fn start_controller(&mut self) -> anyhow::Result<()> {
        self.launch_controller()?;
        self.settled().await
    }

    /// Waits until the bus is as it should be and every node was told.
    pub async fn settled(&mut self) -> anyhow::Result<()> {
        let began = tokio::time::Instant::now();
        loop {
            self.controller_runs()?;
            let status = self.status().await.ok();
            let settled = status.and_then(|status| status.get("settled")?.as_bool());
            if settled == Some(true) {
                return Ok(());
            }
            if began.elapsed() > DEADLINE {
                bail!(
                    "the controller does not settle:\n{}",
                    tail(&self.controller_log())
                );
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// An error if the controller ended.
    pub fn controller_runs(&mut self) -> anyhow::Result<()> {
        self.controller.as_mut().context(NO_CONTROLLER)?.must_run()
    }

    /// The controller's process.
    pub fn controller_pid(&self) -> anyhow::Result<u32> {
        Ok(self.controller.as_ref().context(NO_CONTROLLER)?.pid())
    }

    /// Everything the controllers of this site said.
    pub fn controller_log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("controller.log")).unwrap_or_default()
    }

    /// Kills the controller; its server runs on.
    pub fn kill_controller(&mut self) -> anyhow::Result<()> {
        self.controller.take().context(NO_CONTROLLER)?.kill()
    }

    /// Asks the controller to end, and its server with it.
    pub async fn stop_controller(&mut self) -> anyhow::Result<()> {
        let controller = self.controller.take().context(NO_CONTROLLER)?;
        controller.stop().await
    }

    /// Starts a controller that has to refuse, and gives what it says.
    pub async fn refused_controller(&self) -> anyhow::Result<Said> {
        let said = self.run(self.controller()?).await?;
        ensure!(said.code != Some(0), "it is not refused: {said:?}");
        Ok(said)
    }

    /// Process and port of the server.
    pub fn server(&self) -> anyhow::Result<(u32, u16)> {
        let state = std::fs::read(self.state_dir.join("bus/state.json"))?;
        let state: Value = serde_json::from_slice(&state)?;
        let number = |key: &str| state.get(key).and_then(Value::as_u64).context("no number");
        Ok((number("pid")?.try_into()?, number("port")?.try_into()?))
    }
}

/// The operator.
impl Site {
    /// `meshctl`, as typed.
    pub async fn ctl(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        let mut command = self.command("meshctl")?;
        command
            .arg("--state-dir")
            .arg(&self.state_dir)
            .args(arguments);
        self.run(command).await
    }

    /// What `meshctl` answers a program.
    pub async fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = self
            .ctl(&[arguments, &["-o", "json"]].concat())
            .await?
            .ok()?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The mesh as it is.
    pub async fn status(&self) -> anyhow::Result<Value> {
        self.json(&["status"]).await
    }

    /// One node of it.
    pub async fn node(&self, node: &str) -> anyhow::Result<Value> {
        let status = self.status().await?;
        let nodes = status.get("nodes").and_then(Value::as_array).cloned();
        let mut nodes = nodes.unwrap_or_default().into_iter();
        let found = nodes.find(|found| found.get("node").and_then(Value::as_str) == Some(node));
        found.with_context(|| format!("no node {node} in {status}"))
    }

    /// What a node was last told.
    pub async fn declared(&self, node: &str) -> anyhow::Result<Generation> {
        let found = self.node(node).await?;
        let generation = found.get("declared").context("no generation")?;
        Ok(serde_json::from_value(generation.clone())?)
    }

    /// Which reports of a node about a declaration the store holds.
    pub async fn reported(&self, node: &str, about: Generation) -> anyhow::Result<BTreeSet<Seq>> {
        let list = self.json(&["reports", node]).await?;
        let items = list.get("items").and_then(Value::as_array);
        let about = serde_json::to_value(about)?;
        let items = items.into_iter().flatten();
        let seqs = items.filter(|item| item.get("generation") == Some(&about));
        seqs.map(|item| {
            let seq = item.get("seq").and_then(Value::as_u64);
            Ok(Seq(seq.context("a report without a number")?))
        })
        .collect()
    }

    /// Writes a mesh of modules, each with the rest of its manifest and where it is placed, and gives its folder.
    pub fn mesh(&self, modules: &[(&str, &str, &[&str])]) -> anyhow::Result<PathBuf> {
        let folder = self.dir.path().join("mesh");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let mut mesh = "version = 1\n[mesh]\nname = \"home\"\n".to_owned();
        for (module, rest, nodes) in modules {
            // Writing to a string cannot fail.
            let _written = writeln!(mesh, "[[place]]\nmodule = \"{module}\"\nnodes = {nodes:?}");
            let text =
                format!("version = 1\n[module]\nname = \"{module}\"\nrelease = \"1\"\n{rest}");
            self.write(&format!("mesh/modules/{module}.toml"), &text)?;
        }
        self.write("mesh/mesh.toml", &mesh)?;
        Ok(folder)
    }

    /// Declares such a mesh, and waits until it is true on the nodes.
    pub async fn apply(&self, modules: &[(&str, &str, &[&str])]) -> anyhow::Result<()> {
        let folder = self.mesh(modules)?.display().to_string();
        self.ctl(&["apply", &folder, "--timeout", "45s"])
            .await?
            .ok()?;
        Ok(())
    }
}

/// The hosts.
impl Site {
    /// A host's own folder.
    pub fn home(&self, node: &str) -> PathBuf {
        self.dir.path().join("hosts").join(node)
    }

    /// A token for a node.
    pub async fn token(&self, node: &str) -> anyhow::Result<String> {
        let said = self.ctl(&["token", "create", "--node", node]).await?.ok()?;
        Ok(said.trim().to_owned())
    }

    /// `enrol`, with the folder of a host.
    pub async fn enrol(&self, token: &str, host: &str, more: &[&str]) -> anyhow::Result<Said> {
        let mut command = self.command("enrol")?;
        command
            .arg(token)
            .arg("--dir")
            .arg(self.home(host))
            .args(more);
        self.run(command).await
    }

    /// Makes a host a node, of its own name.
    pub async fn join(&self, node: &str) -> anyhow::Result<()> {
        let token = self.token(node).await?;
        self.enrol(&token, node, &[]).await?.ok()?;
        Ok(())
    }

    /// The agent of a host, ready to be given a verb.
    pub fn agent(&self, node: &str) -> anyhow::Result<Command> {
        let mut command = self.command("node-agent")?;
        command
            .arg("--config")
            .arg(self.home(node).join("agent.toml"));
        Ok(command)
    }

    /// Starts a host's agent.
    pub fn start_agent(&mut self, node: &str) -> anyhow::Result<()> {
        let log = self.dir.path().join(format!("agent-{node}.log"));
        let agent = Service::start(&format!("agent {node}"), self.agent(node)?, &log)?;
        self.agents.insert(node.to_owned(), agent);
        Ok(())
    }

    /// Kills a host's agent.
    pub fn kill_agent(&mut self, node: &str) -> anyhow::Result<()> {
        self.agents.remove(node).context(NO_AGENT)?.kill()
    }

    /// An error if a host's agent ended.
    pub fn agent_runs(&mut self, node: &str) -> anyhow::Result<()> {
        self.agents.get_mut(node).context(NO_AGENT)?.must_run()
    }

    /// Everything a host's agents said.
    pub fn agent_log(&self, node: &str) -> String {
        self.agents.get(node).map(Service::log).unwrap_or_default()
    }

    /// Every process of this site, whoever started it.
    pub fn everything(&self) -> Vec<Process> {
        remains::of(self.dir.path())
    }

    /// Every process of a module on a node, whoever started it.
    pub fn processes(&self, node: &str, module: &str) -> Vec<Process> {
        let mut found = self.everything();
        let is = |process: &Process, name: &str, value: &str| {
            process.variable(name).as_deref() == Some(value)
        };
        found.retain(|process| {
            is(process, "MESH_NODE", node)
                && is(process, "MESH_MODULE", module)
                && process.variable("MESH_INSTANCE").is_some()
        });
        found
    }

    /// Kills every process of a module on a node.
    pub fn kill_module(&self, node: &str, module: &str) -> anyhow::Result<()> {
        let found = self.processes(node, module);
        ensure!(!found.is_empty(), "module {module} does not run on {node}");
        found.iter().for_each(remains::kill);
        Ok(())
    }

    /// The one process of a module that forks none.
    pub fn pid(&self, node: &str, module: &str) -> anyhow::Result<u32> {
        match self.processes(node, module).as_slice() {
            [one] => Ok(one.pid),
            other => bail!("module {module} on node {node} has these processes: {other:?}"),
        }
    }

    /// Waits until a node has applied what it was last told, and is heard.
    pub async fn ready(&self, node: &str) -> anyhow::Result<()> {
        let what = format!("node {node} is ready");
        eventually(DEADLINE, &what, async || {
            let found = self.node(node).await?;
            let applied = found.get("applied") == found.get("declared");
            Ok(applied && found.get("state").and_then(Value::as_str) == Some("ready"))
        })
        .await?;
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Whoever starts others first, then whatever they started and left.
        self.agents.clear();
        self.controller = None;
        remains::end(self.dir.path());
    }
}

const NO_CONTROLLER: &str = "no controller runs";
const NO_AGENT: &str = "no such agent runs";
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// No longer than anything here may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);
