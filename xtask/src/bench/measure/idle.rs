//! What an agent and a controller take while nothing happens, beside what is published of others.

mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Effort, Row};
use crate::clock::{Stopwatch, pause};
use crate::demo::act;
use crate::demo::stage::Stage;
use crate::{cargo, setup};
use process::{Taken, used};

const PACKAGES: [&str; 4] = ["controller", "node-agent", "enrol", "meshctl"];

/// Kibibytes of Ankaios 1.0, server and agent each, on a small board: the middle of 5.4 and 5.6 MiB.
const PUBLISHED_EACH: f64 = 5.5 * 1024.0;
/// Kibibytes of both together in a virtual machine of four processors, with what they share counted once: 11.2 MB.
const PUBLISHED_BOTH: f64 = 11_200_000.0 / 1024.0;
/// Microseconds of a second of one processor.
const PROCESSOR: f64 = 1e6;

/// What joining had in hand is put away by then.
const SETTLED: Duration = Duration::from_secs(15);
/// What a round waits: a minute in all, for all there are.
const ROUND: Duration = Duration::from_millis(1500);

/// Memory after, and processor time within, a minute in which one node is heard and nothing is asked of it.
pub(super) fn rows(effort: Effort) -> Result<Vec<Row>> {
    setup::nats_server()?;
    let programs = cargo::optimized(&PACKAGES)?;
    measured(programs, ROUND * effort.rounds)
}

fn measured(programs: BTreeMap<String, PathBuf>, time: Duration) -> Result<Vec<Row>> {
    let mut stage = Stage::new("bench", programs, None, Stopwatch::start())?;
    match idle(&mut stage, time) {
        Ok(idle) => {
            stage.strike()?;
            Ok(told(&idle))
        }
        Err(error) => {
            stage.show_logs();
            stage.abandon();
            Err(error)
        }
    }
}

/// What each process took.
struct Idle {
    agent: Taken,
    controller: Taken,
    bus: Taken,
}

fn idle(stage: &mut Stage, time: Duration) -> Result<Idle> {
    act::start_controller(stage)?;
    act::join(stage, "one")?;
    stage.await_so("the node is ready", |stage| {
        let status = stage.ctl.status()?;
        let state = status.pointer("/nodes/0/state").and_then(Value::as_str);
        Ok((state == Some("ready")).then_some(()))
    })?;
    let agent = stage.pid("node-agent-one")?;
    let controller = stage.pid("controller")?;
    let bus = stage.bus().context("the controller's own server")?;
    pause(SETTLED);
    stage.say(&format!("leaving all alone for {} s", time.as_secs()));
    let watch = Stopwatch::start();
    let before = (used(agent)?, used(controller)?, used(bus)?);
    pause(time);
    let time = watch.elapsed();
    Ok(Idle {
        agent: Taken::since(before.0, agent, time)?,
        controller: Taken::since(before.1, controller, time)?,
        bus: Taken::since(before.2, bus, time)?,
    })
}

fn told(idle: &Idle) -> Vec<Row> {
    let row = |name, value, ceiling, unit| Row {
        name,
        value,
        ceiling,
        unit,
        goal: None,
    };
    let Idle {
        agent,
        controller,
        bus,
    } = idle;
    let held = |name, value| row(name, value, PUBLISHED_EACH, "KiB");
    let mut rows = vec![
        held("idle agent, resident", agent.resident),
        held("idle controller, resident", controller.resident),
        held("idle nats-server, resident", bus.resident),
        held("idle agent, private", agent.private),
        held("idle controller, private", controller.private),
        held("idle nats-server, private", bus.private),
    ];
    let shares = [
        ("idle agent, its share", agent.share),
        ("idle controller, its share", controller.share),
        ("idle nats-server, its share", bus.share),
    ];
    for (name, share) in shares {
        rows.extend(share.map(|share| held(name, share)));
    }
    let both = agent.share.zip(controller.share);
    let both = both.map(|(agent, controller)| agent + controller);
    rows.extend(both.map(|both| row("idle both, their share", both, PUBLISHED_BOTH, "KiB")));
    let processor = |name, used| row(name, used, PROCESSOR, "µs/s");
    rows.extend([
        processor("idle agent, processor", agent.processor),
        processor("idle controller, processor", controller.processor),
        processor("idle nats-server, processor", bus.processor),
    ]);
    rows
}
