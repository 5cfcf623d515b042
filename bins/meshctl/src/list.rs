//! Looking.

use std::process::ExitCode;

use mesh_control::{ModuleStatus, MovingStatus, NodeState, NodeStatus, SeatStatus, Status};
use mesh_model::{NodeName, Scheduling, Timestamp};
use serde_json::json;

use crate::cli::{Cli, Output};
use crate::inspect::wanted;
use crate::out;
use crate::table::{ago, dash, table, table_without};

/// The whole mesh.
pub(crate) async fn status(cli: &Cli) -> anyhow::Result<ExitCode> {
    let status = cli.client().status().await?;
    match cli.output {
        Output::Json => out::json("Status", &status)?,
        Output::Name => out::data(&format!("{}\n", status.mesh)),
        Output::Table => out::data(&status_text(&status)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The mesh, for people.
fn status_text(status: &Status) -> String {
    let store = if status.store_up {
        "takes commits"
    } else {
        "takes no commits"
    };
    let (mesh, revision) = (&status.mesh, status.revision);
    let mut parts = vec![format!("mesh {mesh}  revision {revision}  store {store}\n")];
    let window = &status.window;
    if window.held > 0 {
        let left = dash(
            window
                .lets_go_in
                .map(|millis| format!("{} s", millis / 1000)),
        );
        let held = window.held;
        parts.push(format!(
            "window: {held} held on the bus, the oldest is let go in {left}\n"
        ));
    }
    parts.push(node_table(status));
    if !status.modules.is_empty() {
        parts.push(module_table(status));
    }
    if !status.seats.is_empty() {
        parts.push(seat_table(status));
    }
    if !status.waiting_for.is_empty() {
        let lines = status.waiting_for.iter().map(|what| format!("  {what}\n"));
        parts.push(format!("waiting for:\n{}", lines.collect::<String>()));
    }
    parts.join("\n")
}

/// Nodes; in a mesh on two buses the bus of each, and where one is closed whether modules are placed on it.
fn node_table(status: &Status) -> String {
    let row = |node: &NodeStatus| {
        let state = if node.deaf { "deaf" } else { node.state.word() };
        let reason = node
            .reason
            .as_deref()
            .filter(|_| node.state != NodeState::Ready);
        let moving = node.moving.as_ref().map(|moving| way(moving, status.at));
        let rival = node.rival.map(|_| "two agents speak with its credential");
        let notes = moving.as_deref().into_iter().chain(rival).chain(reason);
        [
            node.node.to_string(),
            state.to_owned(),
            node.scheduling.word().to_owned(),
            node.declared.to_string(),
            dash(node.applied),
            node.heard_ago.map_or_else(|| "never".to_owned(), ago),
            node.modules.len().to_string(),
            node.bus.to_string(),
            notes.collect::<Vec<_>>().join("; "),
        ]
    };
    let rows: Vec<_> = status.nodes.iter().map(row).collect();
    let heading = [
        "NODE",
        "STATE",
        "SCHEDULING",
        "DECLARED",
        "APPLIED",
        "HEARD",
        "MODULES",
        "BUS",
        "REASON",
    ];
    let mut without = Vec::new();
    if status.buses.len() < 2 {
        without.push("BUS");
    }
    let closed = |node: &NodeStatus| node.scheduling != Scheduling::Open;
    if !status.nodes.iter().any(closed) {
        without.push("SCHEDULING");
    }
    table_without(heading, &rows, &without)
}

/// How far a node is on its way from one bus to the other.
pub(crate) fn way(moving: &MovingStatus, now: Timestamp) -> String {
    match moving {
        MovingStatus::Proving { to, since } => {
            format!("moving to {to} since {}", ago(now.since(*since)))
        }
        MovingStatus::Leaving { from } => format!("leaving {from}"),
    }
}

fn module_table(status: &Status) -> String {
    let rows: Vec<_> = status
        .modules
        .iter()
        .map(|module| {
            let nodes: Vec<&str> = module.nodes.iter().map(NodeName::as_str).collect();
            [
                module.module.to_string(),
                module.release.clone(),
                format!("{}/{}", module.running, wanted(module)),
                nodes.join(","),
                note(module, status),
            ]
        })
        .collect();
    table(["MODULE", "RELEASE", "RUNNING", "NODES", "NOTE"], &rows)
}

/// Why a module is not where it is placed, and where another release than the declared one runs.
fn note(module: &ModuleStatus, status: &Status) -> String {
    let kept_off = module.kept_off.as_ref();
    let kept_off = kept_off.map(|kept_off| format!("kept off: {kept_off}"));
    let others = status.nodes.iter().filter_map(|node| {
        let report = node.modules.get(&module.module)?;
        let other = report.release != module.release && report.pid.is_some();
        other.then(|| format!("{} runs {}", node.node, report.release))
    });
    let why = module.unplaced.clone().or(kept_off);
    let all: Vec<String> = why.into_iter().chain(others).collect();
    all.join("; ")
}

fn seat_table(status: &Status) -> String {
    let row = |seat: &SeatStatus| {
        let oldest = match (seat.backlog, seat.oldest) {
            (Some(_), Some(age)) => ago(age),
            (Some(0), None) => "-".to_owned(),
            // The bus does not tell; or it counts what waits, and does not tell since when.
            _ => "?".to_owned(),
        };
        [
            seat.seat.to_string(),
            dash(seat.holder.as_ref()),
            seat.by.word().to_owned(),
            seat.backlog
                .map_or_else(|| "?".to_owned(), |backlog| backlog.to_string()),
            oldest,
            seat.trouble.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = status.seats.iter().map(row).collect();
    table(["SEAT", "HOLDER", "BY", "BACKLOG", "OLDEST", "NOTE"], &rows)
}

/// Nodes.
pub(crate) async fn nodes(cli: &Cli) -> anyhow::Result<ExitCode> {
    let status = cli.client().status().await?;
    match cli.output {
        Output::Json => out::json("NodeList", json!({ "items": status.nodes }))?,
        Output::Name => names(status.nodes.iter().map(|node| &node.node)),
        Output::Table => out::data(&node_table(&status)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Modules.
pub(crate) async fn modules(cli: &Cli) -> anyhow::Result<ExitCode> {
    let status = cli.client().status().await?;
    match cli.output {
        Output::Json => out::json("ModuleList", json!({ "items": status.modules }))?,
        Output::Name => names(status.modules.iter().map(|module| &module.module)),
        Output::Table => out::data(&module_table(&status)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Seats.
pub(crate) async fn seats(cli: &Cli) -> anyhow::Result<ExitCode> {
    let status = cli.client().status().await?;
    match cli.output {
        Output::Json => out::json("SeatList", json!({ "items": status.seats }))?,
        Output::Name => names(status.seats.iter().map(|seat| &seat.seat)),
        Output::Table => out::data(&seat_table(&status)),
    }
    Ok(ExitCode::SUCCESS)
}

fn names<T: std::fmt::Display>(names: impl Iterator<Item = T>) {
    for name in names {
        out::data(&format!("{name}\n"));
    }
}

/// Reports as they stand in the store.
pub(crate) async fn reports(cli: &Cli, node: Option<&NodeName>) -> anyhow::Result<ExitCode> {
    let reports = cli.client().reports(node).await?;
    if cli.output == Output::Json {
        out::json("ReportList", &reports)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<_> = reports
        .items
        .iter()
        .map(|report| {
            [
                report.node.to_string(),
                report.generation.to_string(),
                report.seq.to_string(),
                report.outcome.clone(),
            ]
        })
        .collect();
    out::data(&table(["NODE", "GENERATION", "SEQ", "OUTCOME"], &rows));
    Ok(ExitCode::SUCCESS)
}

/// What the controller finds when it looks at itself.
pub(crate) async fn doctor(cli: &Cli) -> anyhow::Result<ExitCode> {
    let report = cli.client().doctor().await?;
    let sick = report.items.iter().any(|finding| finding.warning);
    if cli.output == Output::Json {
        out::json("Doctor", &report)?;
    } else {
        for finding in &report.items {
            let mark = if finding.warning { "warn" } else { "ok" };
            out::data(&format!("{mark:4}  {}\n", finding.text));
        }
    }
    Ok(ExitCode::from(u8::from(sick)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_runs_as_another_release_is_said_with_its_node() {
        let report = |release: &str, pid: Option<u32>| {
            serde_json::json!({ "release": release, "state": "running", "pid": pid, "restarts": 0,
                "reason": null, "image": null, "last_exit": null, "repairs": 0 })
        };
        let node = |name: &str, report: serde_json::Value| {
            let generation = serde_json::json!({ "incarnation": 1, "counter": 1 });
            serde_json::json!({ "node": name, "state": "ready", "labels": {}, "bus": "nats", "moving": null,
                "declared": generation, "applied": null, "reported": null, "heard_ago": 1, "deaf": false,
                "version": null, "reason": null, "modules": { "shop": report } })
        };
        let status: Status = serde_json::from_value(serde_json::json!({
            "mesh": "home", "revision": 1, "at": 1, "buses": [],
            "nodes": [node("a", report("1", Some(7))), node("b", report("2", Some(8))), node("c", report("1", None))],
            "modules": [{ "module": "shop", "release": "2", "nodes": ["a", "b"], "running": 2,
                "unplaced": "not enrolled: d" }],
            "seats": [], "window": { "held": 0, "peak": 0, "lets_go_in": null },
            "store_up": true, "settled": true, "waiting_for": [], "tally": mesh_control::Tally::default(),
        }))
        .unwrap();
        let said = note(&status.modules[0], &status);
        assert_eq!(said, "not enrolled: d; a runs 1");
    }
}
