//! The log: to standard error, as text or as JSON.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("{other:?} is no log format: write text or json")),
        }
    }
}

/// Begins to log. `verbosity` is below zero for warnings only, zero for what an operator reads, one and more for detail.
pub fn log_to_stderr(format: LogFormat, verbosity: i8) {
    let (ours, others) = match verbosity {
        i8::MIN..=-1 => (Level::WARN, Level::ERROR),
        0 => (Level::INFO, Level::WARN),
        1 => (Level::DEBUG, Level::INFO),
        2.. => (Level::TRACE, Level::DEBUG),
    };
    // Every crate of ours has a name that begins so; the libraries below speak only when something is wrong.
    let targets = Targets::new()
        .with_default(others)
        .with_targets(OURS.map(|target| (target, ours)));
    let lines = fmt::layer().with_writer(std::io::stderr);
    let colour = std::io::stderr().is_terminal();
    let layer = match format {
        LogFormat::Text => lines.with_ansi(colour).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(targets))
        .init();
}

const OURS: [&str; 9] = [
    "controller",
    "node_agent",
    "enrol",
    "mesh_agent",
    "mesh_api",
    "mesh_bus",
    "mesh_nats",
    "mesh_runtime",
    "mesh_store",
];
