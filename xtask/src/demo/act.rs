//! What the demo shows, in order.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;

use super::Seen;
use super::children::signal;
use super::ctl::module_pids;
use super::stage::Stage;
use crate::cargo;

/// The hosts that join.
const NODES: [&str; 2] = ["one", "two"];
/// Letters the greeter writes to the seat when it starts.
const LETTERS: usize = 5;

/// Plays it all, and reads back what came of it.
pub(super) fn play(stage: &mut Stage) -> Result<Seen> {
    start_controller(stage)?;
    for node in NODES {
        join(stage, node)?;
    }
    declare(stage)?;
    events_flow(stage)?;
    seat_work_waits_and_is_done(stage)?;
    store_refuses(stage)?;
    read_back(stage)
}

/// Starts the controller, and waits until it answers and its bus is as it should be.
pub(crate) fn start_controller(stage: &mut Stage) -> Result<()> {
    let mut command = stage.command("controller")?;
    match &stage.broker {
        None => stage.say("starting the controller, which brings its own NATS server"),
        Some(broker) => {
            stage.say("starting the controller, which makes everything it needs in a RabbitMQ");
            command.arg("--config").arg(broker.configure(stage.dir())?);
        }
    }
    command
        .arg("--state-dir")
        .arg(&stage.ctl.state_dir)
        .arg("--allow-faults");
    stage.start("controller", &mut command)?;
    let status = stage.await_so("the controller answers", |stage| {
        let status = stage.ctl.status().ok();
        Ok(status.filter(|status| status.get("settled") == Some(&Value::Bool(true))))
    })?;
    stage.remember(&status);
    Ok(())
}

/// Has a host join, and starts its agent: the service `node-agent-NODE`.
pub(crate) fn join(stage: &mut Stage, node: &str) -> Result<()> {
    stage.say(&format!("node {node}: a token, enrolment, and its agent"));
    let token = stage.ctl.run(&["token", "create", "--node", node])?;
    let dir = stage.dir().join(node);
    let enrolled = stage
        .command("enrol")?
        .arg(token.trim())
        .arg("--dir")
        .arg(&dir)
        .output()
        .context("running enrol")?;
    if !enrolled.status.success() {
        let said = String::from_utf8_lossy(&enrolled.stderr);
        bail!("enrol ended with {}: {said}", enrolled.status);
    }
    let mut command = stage.command("node-agent")?;
    command.arg("--config").arg(dir.join("agent.toml"));
    stage.start(&format!("node-agent-{node}"), &mut command)
}

/// Declares the mesh in `examples/hello`, with a folder of its own for what the modules write.
fn declare(stage: &mut Stage) -> Result<()> {
    stage.say("declaring the mesh in examples/hello, and waiting until it is true on the nodes");
    let (from, to) = (
        cargo::root().join("examples/hello"),
        stage.dir().join("mesh"),
    );
    let out = stage.dir().join("out").display().to_string();
    fs::create_dir_all(to.join("modules"))?;
    copy(&from.join("mesh.toml"), &to.join("mesh.toml"), &out)?;
    for entry in fs::read_dir(from.join("modules"))? {
        let name = entry?.file_name();
        copy(
            &from.join("modules").join(&name),
            &to.join("modules").join(&name),
            &out,
        )?;
    }
    stage.ctl.run(&["apply", &to.display().to_string()])?;
    let status = stage.ctl.status()?;
    stage.remember(&status);
    Ok(())
}

fn copy(from: &Path, to: &Path, out: &str) -> Result<()> {
    let text = fs::read_to_string(from).with_context(|| format!("reading {}", from.display()))?;
    Ok(fs::write(to, text.replace("/tmp/mesh-hello", out))?)
}

fn events_flow(stage: &mut Stage) -> Result<()> {
    stage.say("waiting for three events emitted on node one and followed on node two");
    stage.await_so("events are followed", |stage| {
        Ok((lines(stage, "listener.log") >= 3).then_some(()))
    })
}

fn seat_work_waits_and_is_done(stage: &mut Stage) -> Result<()> {
    stage.say("letters wait for the seat `post`, which nobody holds");
    let early = lines(stage, "postman.log");
    if early > 0 {
        bail!("{early} letters were carried although nobody holds the seat");
    }
    stage.say("assigning the seat to the postman, who runs already");
    stage.ctl.run(&["seat", "assign", "post", "postman"])?;
    stage.await_so("the letters that waited are carried", |stage| {
        Ok((lines(stage, "postman.log") >= LETTERS).then_some(()))
    })
}

/// A report is made while the store refuses: the listener's process ends, and is started again by its agent.
fn store_refuses(stage: &mut Stage) -> Result<()> {
    let before = reports(stage)?;
    stage.say(
        "making the store refuse for three seconds, and ending a module so that its node reports",
    );
    stage.ctl.run(&["refuse-store", "3s"])?;
    let status = stage.ctl.status()?;
    let pids = module_pids(&status);
    let listener = pids.iter().find(|(module, _)| module == "listener");
    let (_, pid) = listener.context("the listener runs")?;
    signal(*pid, Signal::KILL);
    stage.await_so("a report is held at the broker", |stage| {
        let held = stage
            .ctl
            .status()?
            .pointer("/window/held")
            .and_then(Value::as_u64);
        Ok(held.filter(|held| *held > 0))
    })?;
    stage.say("the report is held at the broker; waiting until the store takes it");
    stage.await_so("the report is recorded", |stage| {
        let status = stage.ctl.status()?;
        let held = status.pointer("/window/held").and_then(Value::as_u64);
        let up = status.get("store_up") == Some(&Value::Bool(true));
        Ok((up && held == Some(0) && reports(stage)? > before).then_some(()))
    })?;
    stage.say("recorded; waiting until everything runs again");
    let status = stage.await_so("everything runs again", |stage| {
        let status = stage.ctl.status()?;
        let calm = status
            .get("waiting_for")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty);
        Ok((calm && module_pids(&status).len() == 3).then_some(status))
    })?;
    stage.remember(&status);
    Ok(())
}

fn read_back(stage: &Stage) -> Result<Seen> {
    let status = stage.ctl.status()?;
    let nodes = status
        .get("nodes")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    let mut modules: Vec<String> = module_pids(&status)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    modules.sort();
    modules.dedup();
    stage.say("the mesh as it is:");
    for line in stage.ctl.run(&["status"])?.lines() {
        crate::out::step("demo", line);
    }
    Ok(Seen {
        nodes,
        modules: modules.len(),
        reports_stored: reports(stage)?,
        events_delivered: lines(stage, "listener.log"),
        seat_work_done: lines(stage, "postman.log"),
        window_held: status
            .pointer("/window/peak")
            .and_then(Value::as_u64)
            .unwrap_or(0),
        seconds: stage.watch.elapsed().as_secs(),
    })
}

fn reports(stage: &Stage) -> Result<usize> {
    let reports = stage.ctl.json(&["reports"])?;
    Ok(reports
        .get("items")
        .and_then(Value::as_array)
        .map_or(0, Vec::len))
}

/// How many messages a module wrote down, each once.
fn lines(stage: &Stage, file: &str) -> usize {
    let text = fs::read_to_string(stage.dir().join("out").join(file));
    text.unwrap_or_default().lines().count()
}
