//! Looking at one node, or at one module, as a whole.

use std::fmt::Write as _;
use std::process::ExitCode;

use mesh_api::{ApiError, CallError, Code};
use mesh_control::{ModuleStatus, NodeStatus, Status};
use mesh_model::{ModuleName, ModuleReport, NodeName, SeatName, Timestamp};
use serde::Serialize;

use crate::cli::{Cli, Output};
use crate::list::way;
use crate::out;
use crate::table::{ago, dash, table};

/// One node: all that is known of it, and each of its modules.
pub(crate) async fn node(cli: &Cli, name: &NodeName) -> anyhow::Result<ExitCode> {
    let status = cli.client().status().await?;
    let found = status.nodes.iter().find(|node| node.node == *name);
    let node = found.ok_or_else(|| unknown("node", name))?;
    match cli.output {
        Output::Json => out::json("Node", node)?,
        Output::Name => out::data(&format!("{name}\n")),
        Output::Table => out::data(&node_text(node, status.at)),
    }
    Ok(ExitCode::SUCCESS)
}

/// One module: where it is placed, and what it does on each node.
pub(crate) async fn module(cli: &Cli, name: &ModuleName) -> anyhow::Result<ExitCode> {
    let status = cli.client().status().await?;
    let module = Whole::of(&status, name).ok_or_else(|| unknown("module", name))?;
    match cli.output {
        Output::Json => out::json("Module", &module)?,
        Output::Name => out::data(&format!("{name}\n")),
        Output::Table => out::data(&module_text(&module, status.at)),
    }
    Ok(ExitCode::SUCCESS)
}

fn unknown(what: &str, name: &impl ToString) -> CallError {
    let name = name.to_string();
    let message = format!("there is no {what} {name}; `meshctl {what} ls` lists them");
    ApiError::new(Code::NotFound, message).into()
}

/// A module with everything that is spread over the mesh's status.
#[derive(Debug, Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    module: &'a ModuleStatus,
    /// Seats it holds.
    holds: Vec<&'a SeatName>,
    /// Each node it is placed on, and each on which it still is.
    instances: Vec<Instance<'a>>,
}

/// A module on one node.
#[derive(Debug, Serialize)]
struct Instance<'a> {
    node: &'a NodeName,
    /// How its node does.
    state: &'a str,
    /// It is placed there.
    placed: bool,
    /// What its node said of it last.
    report: Option<&'a ModuleReport>,
    /// How far it is with what takes long.
    doing: Option<&'a str>,
}

impl<'a> Whole<'a> {
    fn of(status: &'a Status, name: &ModuleName) -> Option<Self> {
        let module = status.modules.iter().find(|it| it.module == *name)?;
        let seats = status.seats.iter();
        let held = seats.filter(|seat| seat.holder.as_ref() == Some(name));
        let instances = status.nodes.iter().filter_map(|node| {
            let (placed, report) = (module.nodes.contains(&node.node), node.modules.get(name));
            (placed || report.is_some()).then(|| Instance {
                node: &node.node,
                state: node.state.word(),
                placed,
                report,
                doing: node.doing.get(name).map(String::as_str),
            })
        });
        Some(Self {
            module,
            holds: held.map(|seat| &seat.seat).collect(),
            instances: instances.collect(),
        })
    }
}

/// Lines of a heading and what stands under it.
struct Lines(String);

impl Lines {
    fn add(&mut self, heading: &str, text: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _written = writeln!(self.0, "  {heading:11} {text}");
    }

    fn add_some(&mut self, heading: &str, text: Option<impl std::fmt::Display>) {
        if let Some(text) = text {
            self.add(heading, text);
        }
    }
}

fn node_text(node: &NodeStatus, now: Timestamp) -> String {
    let mut lines = Lines(format!("node {}\n", node.node));
    let reason = node.reason.as_deref().map(|reason| format!(": {reason}"));
    let state = node.state.word();
    lines.add("state", format!("{state}{}", reason.unwrap_or_default()));
    let deaf = "it misses its consumer's signs of life, and may hear nothing";
    lines.add_some("deaf", node.deaf.then_some(deaf));
    lines.add("scheduling", node.scheduling.word());
    let labels = node.labels.iter().map(|(k, v)| format!("{k}={v}"));
    let labels: Vec<String> = labels.collect();
    lines.add(
        "labels",
        dash((!labels.is_empty()).then(|| labels.join(", "))),
    );
    lines.add("bus", node.bus);
    lines.add_some("moving", node.moving.as_ref().map(|it| way(it, now)));
    lines.add("declared", node.declared);
    lines.add("applied", dash(node.applied));
    let reported = node
        .reported
        .map(|(generation, seq)| format!("{generation}, report {seq}"));
    lines.add("reported", dash(reported));
    lines.add(
        "heard",
        node.heard_ago.map_or_else(|| "never".to_owned(), past),
    );
    let began = node.session.map(|began| past(now.since(began)));
    let agent = node.version.as_ref().map(|version| match &began {
        Some(began) => format!("{version}, started {began}"),
        None => version.clone(),
    });
    lines.add("agent", dash(agent));
    let rival = node.rival.map(|began| {
        format!(
            "another agent speaks with its credential, started {}, and is not listened to",
            past(now.since(began))
        )
    });
    lines.add_some("rival", rival);
    let rows: Vec<_> = node
        .modules
        .iter()
        .map(|(module, report)| row(module.to_string(), Some(report), now))
        .collect();
    let mut text = lines.0;
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(heading("MODULE"), &rows));
    }
    let modules = node.modules.iter();
    let reasons = modules.filter_map(|(module, report)| Some((module, report.reason.as_deref()?)));
    text.push_str(&under("reasons", reasons));
    let doing = node.doing.iter();
    text.push_str(&under(
        "doing",
        doing.map(|(module, line)| (module, line.as_str())),
    ));
    text
}

fn module_text(whole: &Whole<'_>, now: Timestamp) -> String {
    let module = whole.module;
    let mut lines = Lines(format!("module {}\n", module.module));
    lines.add("release", &module.release);
    lines.add("running", format!("{}/{}", module.running, wanted(module)));
    lines.add_some("count", module.count);
    lines.add_some("not placed", module.unplaced.as_deref());
    lines.add_some("kept off", module.kept_off.as_deref());
    let holds: Vec<&str> = whole.holds.iter().map(|seat| seat.as_str()).collect();
    lines.add_some("holds", (!holds.is_empty()).then(|| holds.join(", ")));
    let rows: Vec<_> = whole
        .instances
        .iter()
        .map(|instance| {
            let gone = if instance.placed { "" } else { " (no more)" };
            row(format!("{}{gone}", instance.node), instance.report, now)
        })
        .collect();
    let mut text = lines.0;
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(heading("NODE"), &rows));
    }
    let instances = || whole.instances.iter();
    let reasons = instances().filter_map(|it| Some((it.node, it.report?.reason.as_deref()?)));
    text.push_str(&under("reasons", reasons));
    let doing = instances().filter_map(|it| Some((it.node, it.doing?)));
    text.push_str(&under("doing", doing));
    text
}

/// On how many nodes a module is to run.
pub(crate) fn wanted(module: &ModuleStatus) -> usize {
    let counted = module.count.map(|count| usize::try_from(count.get()));
    counted.and_then(Result::ok).unwrap_or(module.nodes.len())
}

const fn heading(first: &str) -> [&str; 8] {
    [
        first,
        "RELEASE",
        "STATE",
        "PID",
        "RESTARTS",
        "REPAIRS",
        "IMAGE",
        "LAST EXIT",
    ]
}

fn row(first: String, report: Option<&ModuleReport>, now: Timestamp) -> [String; 8] {
    let Some(report) = report else {
        let unknown = || "-".to_owned();
        return [
            first,
            unknown(),
            "not reported".to_owned(),
            unknown(),
            unknown(),
            unknown(),
            unknown(),
            unknown(),
        ];
    };
    let last = report.last_exit.as_ref();
    [
        first,
        report.release.clone(),
        report.state.word().to_owned(),
        dash(report.pid),
        report.restarts.to_string(),
        report.repairs.to_string(),
        dash(report.image.as_deref().map(short)),
        dash(last.map(|last| format!("{}, {}", last.how, past(now.since(last.at))))),
    ]
}

/// A digest, as long as people compare; JSON has all of it.
fn short(digest: &str) -> &str {
    digest.get(..DIGEST).unwrap_or(digest)
}

/// `sha256:` and twelve digits.
const DIGEST: usize = 19;

/// A sentence of each under a heading; nothing without any.
fn under<'a, K: std::fmt::Display + 'a>(
    heading: &str,
    lines: impl Iterator<Item = (&'a K, &'a str)>,
) -> String {
    let mut text = String::new();
    for (of, line) in lines {
        let before = if text.is_empty() { heading } else { "" };
        if !before.is_empty() {
            text = format!("\n{before}\n");
        }
        // Writing to a string does not fail.
        let _written = writeln!(text, "  {of}: {line}");
    }
    text
}

fn past(millis: u64) -> String {
    match ago(millis).as_str() {
        "now" => "now".to_owned(),
        time => format!("{time} ago"),
    }
}

#[cfg(test)]
mod tests;
