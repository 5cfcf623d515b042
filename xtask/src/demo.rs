//! `demo`: the whole mesh on this machine, from nothing, over a real server, and nothing left of it afterwards.

pub(crate) mod act;
mod broker;
mod children;
mod ctl;
pub(crate) mod stage;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use broker::Stand;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::clock::Stopwatch;
use crate::{cargo, out, setup};
use stage::Stage;

/// How the demo is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Over which bus
    #[arg(long, value_enum, default_value_t = Bus::Nats)]
    bus: Bus,
    /// Leave it running, and print what to try next
    #[arg(long)]
    keep: bool,
    /// Print one JSON object as the last line of stdout
    #[arg(long)]
    json: bool,
}

/// A bus to play on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bus {
    /// NATS: a server the controller brings along
    Nats,
    /// RabbitMQ: a broker of the demo's own
    Amqp,
}

/// What was seen, read back from the store, the status and the modules' own files.
#[derive(Debug, Serialize)]
struct Seen {
    nodes: usize,
    modules: usize,
    reports_stored: usize,
    events_delivered: usize,
    seat_work_done: usize,
    window_held: u64,
    seconds: u64,
}

/// What is built, and nothing else is.
const PACKAGES: [&str; 5] = ["controller", "node-agent", "enrol", "meshctl", "hello"];

/// Runs the demo.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let seen = perform(options)?;
    show(&seen, options)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the demo for a test: it must have shown what it is there to show.
pub(crate) fn rehearse() -> Result<()> {
    let seen = perform(&Options {
        bus: Bus::Nats,
        keep: false,
        json: true,
    })?;
    let counts = (seen.nodes, seen.modules, seen.seat_work_done);
    let flowed = seen.reports_stored > 0 && seen.events_delivered > 0 && seen.window_held > 0;
    if counts == (2, 3, 5) && flowed {
        Ok(())
    } else {
        bail!("the demo did not show what it should: {seen:?}")
    }
}

fn perform(options: &Options) -> Result<Seen> {
    let watch = Stopwatch::start();
    if options.keep && options.bus == Bus::Amqp {
        bail!(
            "--keep leaves nothing to keep with --bus amqp: the demo's RabbitMQ ends with the demo"
        );
    }
    say("demo", watch, "setting up what is missing");
    let broker = match options.bus {
        Bus::Nats => setup::nats_server().map(|_| None)?,
        Bus::Amqp => Some(Stand::start()?),
    };
    say("demo", watch, "building what is started");
    let programs = cargo::executables(&PACKAGES)?;
    let mut stage = Stage::new("demo", programs, broker, watch).context("the demo's folder")?;
    match act::play(&mut stage) {
        Ok(seen) if options.keep => {
            stage.keep();
            try_next(&stage)?;
            Ok(seen)
        }
        Ok(seen) => {
            stage.strike()?;
            Ok(seen)
        }
        Err(error) => {
            stage.show_logs();
            stage.abandon();
            Err(error)
        }
    }
}

fn say(task: &str, watch: Stopwatch, what: &str) {
    let seconds = watch.elapsed().as_secs_f32();
    out::step(task, format_args!("{seconds:6.1}s  {what}"));
}

fn show(seen: &Seen, options: &Options) -> Result<()> {
    let rows = [
        ("nodes", seen.nodes.to_string()),
        ("modules running", seen.modules.to_string()),
        ("reports in the store", seen.reports_stored.to_string()),
        ("events delivered", seen.events_delivered.to_string()),
        ("seat work done", seen.seat_work_done.to_string()),
        ("held at once, at most", seen.window_held.to_string()),
        ("seconds", seen.seconds.to_string()),
    ];
    for (what, value) in rows {
        let line = format_args!("{what:24}{value:>6}").to_string();
        if options.json {
            out::step("demo", line);
        } else {
            out::data(line);
        }
    }
    if options.json {
        out::data(serde_json::to_string(seen)?);
    }
    Ok(())
}

fn try_next(stage: &Stage) -> Result<()> {
    let (ctl, dir) = (stage.meshctl_line(), stage.dir().display());
    let empty = stage.empty_mesh()?;
    for line in [
        format!("it is left running in {dir}; try:"),
        format!("  {ctl} status"),
        format!("  {ctl} plan {dir}/mesh"),
        format!("  {ctl} seat release post"),
        format!("  {ctl} token create --node three"),
        format!("  tail -f {dir}/out/listener.log"),
        "and end it: the modules by declaring none, then the agents, the controller, the folder"
            .to_owned(),
        format!(
            "  {ctl} apply {} && kill {} && rm -r {dir}",
            empty.display(),
            stage.pids()
        ),
    ] {
        out::step("demo", line);
    }
    Ok(())
}
