//! Changing.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use mesh_api::{Apply as ApplyRequest, Assign, Label, PlanRequest, RefuseStore};
use mesh_control::{Chosen, Preview, Status};
use mesh_model::{Declared, ModuleName, NodeName, Revision, SeatName};
use serde_json::json;
use tokio::time::Instant;

use crate::cli::{Apply, Cli, NodeVerb, Output, Verb};
use crate::exit::TimedOut;
use crate::out;

/// Reads a directory; what is wrong with it is said all at once.
pub(crate) fn load(dir: &Path) -> anyhow::Result<Declared> {
    mesh_files::load(dir).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{} is not taken:\n{}", dir.display(), lines.join("\n"))
    })
}

/// What an apply would change. Ends with 1 if anything would.
pub(crate) async fn plan(cli: &Cli, dir: &Path) -> anyhow::Result<ExitCode> {
    let declared = load(dir)?;
    let preview = cli.client().plan(&PlanRequest { declared }).await?;
    match cli.output {
        Output::Json => out::json("Plan", &preview)?,
        Output::Table | Output::Name => out::data(&preview_text(&preview, dir)),
    }
    Ok(ExitCode::from(u8::from(!preview.is_empty())))
}

fn preview_text(preview: &Preview, dir: &Path) -> String {
    let revision = preview.revision;
    let warnings = preview.warnings.iter().map(|line| format!("note: {line}"));
    if preview.is_empty() {
        let said = format!("revision {revision}: nothing to change\n");
        return said + &warnings.map(|line| line + "\n").collect::<String>();
    }
    let mut lines = vec![format!("revision {revision}")];
    lines.extend(preview.declared.iter().map(|line| format!("  {line}")));
    if !preview.authority.is_empty() {
        lines.push("authority (! lets somebody do or read more than before)".to_owned());
        let authority = preview.authority.to_string();
        lines.extend(authority.lines().map(|line| format!("  {line}")));
    }
    lines.extend(preview.chosen.iter().map(chosen));
    if !preview.nodes.is_empty() {
        let nodes: Vec<&str> = preview.nodes.iter().map(NodeName::as_str).collect();
        lines.push(format!("told anew: {}", nodes.join(", ")));
    }
    lines.extend(warnings);
    lines.push(format!(
        "apply it with: meshctl apply {} --if-revision {revision}
",
        dir.display()
    ));
    lines.join("\n")
}

/// Where a module with a count would run, and what is new about that.
fn chosen(chosen: &Chosen) -> String {
    let names = |nodes: &std::collections::BTreeSet<NodeName>, mark: &str| {
        let nodes = nodes.iter().map(|node| format!("{mark}{node}"));
        nodes.collect::<Vec<_>>()
    };
    let stays = chosen.nodes.difference(&chosen.joins).cloned().collect();
    let nodes = [
        names(&stays, ""),
        names(&chosen.joins, "+"),
        names(&chosen.leaves, "-"),
    ]
    .concat();
    format!(
        "{} on {} of {}: {}",
        chosen.module,
        chosen.nodes.len(),
        chosen.count,
        nodes.join(", ")
    )
}

/// Declares, and waits until it is true on the nodes.
pub(crate) async fn apply(cli: &Cli, apply: &Apply) -> anyhow::Result<ExitCode> {
    let declared = load(&apply.dir)?;
    let request = ApplyRequest {
        declared,
        if_revision: apply.if_revision,
    };
    let applied = cli.client().apply(&request).await?;
    out::note(&format!("revision {} is declared", applied.revision));
    wait(cli, applied.revision).await
}

/// Waits until everything is as declared, saying what is missing whenever that changes.
pub(crate) async fn wait(cli: &Cli, revision: Revision) -> anyhow::Result<ExitCode> {
    let client = cli.client();
    let began = Instant::now();
    let mut said: Vec<String> = Vec::new();
    let mut progress = Progress {
        said: Vec::new(),
        at: began,
    };
    if cli.no_wait {
        return done(cli, revision);
    }
    loop {
        let status = client.status().await?;
        if status.waiting_for.is_empty() {
            out::note("it is true on every node");
            return done(cli, revision);
        }
        if status.waiting_for != said {
            for what in status
                .waiting_for
                .iter()
                .filter(|what| !said.contains(*what))
            {
                out::note(&format!("waiting: {what}"));
            }
            said.clone_from(&status.waiting_for);
        }
        progress.say(&status);
        if began.elapsed() >= cli.timeout {
            let after = humantime::format_duration(cli.timeout).to_string();
            return Err(TimedOut {
                after,
                waiting_for: said,
            }
            .into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// How far nodes are with what takes long: it goes on changing, so it is said now and then.
struct Progress {
    said: Vec<String>,
    at: Instant,
}

impl Progress {
    fn say(&mut self, status: &Status) {
        let nodes = status.nodes.iter();
        let lines = nodes.flat_map(|node| {
            let doing = node.doing.iter();
            doing.map(|(module, line)| format!("node {}: {module}: {line}", node.node))
        });
        let lines: Vec<String> = lines.collect();
        if lines != self.said && self.at.elapsed() >= SAY_AGAIN {
            for line in lines.iter().filter(|line| !self.said.contains(*line)) {
                out::note(line);
            }
            (self.said, self.at) = (lines, Instant::now());
        }
    }
}

/// How often progress is said.
const SAY_AGAIN: Duration = Duration::from_secs(5);

/// How often it is looked whether something has become true.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(crate) fn done(cli: &Cli, revision: Revision) -> anyhow::Result<ExitCode> {
    match cli.output {
        Output::Json => out::json("Applied", json!({ "revision": revision }))?,
        Output::Table => out::data(&format!("revision {revision}\n")),
        Output::Name => out::data(&format!("{revision}\n")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives a seat to a module, or takes it away.
pub(crate) async fn assign(
    cli: &Cli,
    seat: &SeatName,
    holder: Option<&ModuleName>,
) -> anyhow::Result<ExitCode> {
    let holder = holder.cloned();
    let applied = cli.client().assign(seat, &Assign { holder }).await?;
    done(cli, applied.revision)
}

/// Sets a node's labels.
pub(crate) async fn label(
    cli: &Cli,
    node: &NodeName,
    labels: &[(String, String)],
) -> anyhow::Result<ExitCode> {
    let labels = labels.iter().cloned().collect();
    let applied = cli.client().label(node, &Label { labels }).await?;
    done(cli, applied.revision)
}

/// Ends a node's membership.
pub(crate) async fn remove_node(cli: &Cli, node: &NodeName) -> anyhow::Result<ExitCode> {
    if !agreed(cli, node)? {
        bail!("node {node} is left as it is");
    }
    let applied = cli.client().remove_node(node).await?;
    done(cli, applied.revision)
}

fn agreed(cli: &Cli, node: &NodeName) -> anyhow::Result<bool> {
    if matches!(cli.verb, Verb::Node(NodeVerb::Rm { yes: true, .. })) {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("removing a node ends its credentials; say so with --yes");
    }
    agreed_at_the_terminal(&format!("end the membership of node {node}?"))
}

/// Asks whoever sits there.
pub(crate) fn agreed_at_the_terminal(question: &str) -> anyhow::Result<bool> {
    let mut err = std::io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "yes"))
}

/// A manifest to begin with.
pub(crate) fn skeleton(module: &ModuleName) -> ExitCode {
    out::data(&mesh_files::skeleton(module));
    ExitCode::SUCCESS
}

/// What a manifest may hold, or the mesh's own file.
pub(crate) fn schema(mesh: bool) -> ExitCode {
    out::data(if mesh {
        mesh_files::mesh_schema()
    } else {
        mesh_files::manifest_schema()
    });
    ExitCode::SUCCESS
}

/// Makes the store refuse for a while.
pub(crate) async fn refuse_store(cli: &Cli, time: Duration) -> anyhow::Result<ExitCode> {
    let for_millis = u64::try_from(time.as_millis())?;
    cli.client()
        .refuse_store(RefuseStore { for_millis })
        .await?;
    Ok(ExitCode::SUCCESS)
}
