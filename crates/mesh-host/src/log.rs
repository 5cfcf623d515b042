//! The log: to standard error, as text or as JSON.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};
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
    let lines = fmt::layer().with_writer(std::io::stderr);
    let colour = std::io::stderr().is_terminal();
    let layer = match format {
        LogFormat::Text => lines.with_ansi(colour).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(targets(verbosity)))
        .init();
}

/// Who is heard from which level on.
fn targets(verbosity: i8) -> Targets {
    let (ours, others) = match verbosity {
        i8::MIN..=-1 => (LevelFilter::WARN, LevelFilter::ERROR),
        0 => (LevelFilter::INFO, LevelFilter::WARN),
        1 => (LevelFilter::DEBUG, LevelFilter::INFO),
        2.. => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    // They say every attempt to connect again that fails, and every connection that ends, without saying whose;
    // `mesh_nats` and `mesh_amqp` say it once, and of whom.
    let client = if verbosity <= 0 {
        LevelFilter::OFF
    } else {
        others
    };
    Targets::new()
        .with_default(others)
        .with_targets(OURS.map(|target| (target, ours)))
        .with_target("async_nats", client)
        .with_target("lapin", client)
}

/// Our crates that log, programs and libraries; whatever is not listed is a library below.
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

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_failed_attempt_to_connect_is_ours_to_tell_unless_more_is_asked_for() {
        for verbosity in [-1, 0] {
            let targets = targets(verbosity);
            for client in ["async_nats::connector", "lapin::connection"] {
                assert!(!targets.would_enable(client, &Level::ERROR), "{client}");
            }
            assert!(targets.would_enable("mesh_nats::connect", &Level::WARN));
            assert!(targets.would_enable("rustls", &Level::ERROR));
        }
        assert!(targets(1).would_enable("async_nats::connector", &Level::ERROR));
        assert!(targets(2).would_enable("async_nats::connector", &Level::DEBUG));
    }

    #[test]
    fn more_is_heard_of_us_than_of_what_is_below() {
        for (verbosity, ours) in [
            (-1, Level::WARN),
            (0, Level::INFO),
            (1, Level::DEBUG),
            (2, Level::TRACE),
        ] {
            let targets = targets(verbosity);
            for target in OURS {
                assert!(targets.would_enable(target, &ours), "{target} {ours}");
            }
            assert!(!targets.would_enable("rustls", &ours), "{ours}");
        }
    }
}
