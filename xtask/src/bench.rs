//! Measurements, each beside a ceiling measured in the same run on the same machine.
//!
//! A number alone says how fast the machine is; its ratio to the ceiling says how much of the
//! machine we use. To add a row, write a [`Group`] in a file of its own and list it in [`GROUPS`].

mod append;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::cargo;
use crate::out;

/// How to tell the results.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// JSON on stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: &'static str,
    value: f64,
    /// The most that this machine allowed, in the same unit and the same run.
    ceiling: f64,
    unit: &'static str,
    /// The ratio of the value to the ceiling that we aim for.
    goal: Option<f64>,
}

/// Measures rows that share a ceiling, in a folder that is gone afterwards.
type Group = fn(&Path) -> Result<Vec<Row>>;

const GROUPS: &[(&str, Group)] = &[("append", append::rows)];

impl Row {
    fn ratio(&self) -> f64 {
        self.value / self.ceiling
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "ceiling": self.ceiling,
            "ratio": self.ratio(),
            "unit": self.unit,
            "goal": self.goal,
        })
    }

    fn line(&self) -> String {
        let goal = match self.goal {
            None => String::new(),
            Some(goal) if self.ratio() < goal => format!("{goal:.2} missed"),
            Some(goal) => format!("{goal:.2}"),
        };
        let (name, unit, ratio) = (self.name, self.unit, self.ratio());
        let line = format!(
            "{name:<28} {:>12.0} {:>12.0} {ratio:>6.2} {unit:<10} {goal}",
            self.value, self.ceiling
        );
        line.trim_end().to_owned()
    }
}

/// Measures every group and prints the rows. An unoptimized build hands over to an optimized one.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        return optimized(options);
    }
    let mut rows = Vec::new();
    for (name, group) in GROUPS {
        out::step("bench", format_args!("{name} .."));
        let folder = scratch()?;
        rows.extend(group(folder.path()).with_context(|| format!("measuring {name}"))?);
    }
    if options.json {
        let items: Vec<_> = rows.iter().map(Row::json).collect();
        out::data(json!({"apiVersion": "mesh/v1", "kind": "BenchList", "items": items}));
    } else {
        let (name, value, ceiling) = ("what", "value", "ceiling");
        out::data(format_args!(
            "{name:<28} {value:>12} {ceiling:>12} {:>6} {:<10} goal",
            "ratio", "unit"
        ));
        for row in &rows {
            out::data(row.line());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn optimized(options: &Options) -> Result<ExitCode> {
    let mut command = Command::new(cargo::executable("xtask", "xtask", &["--release"])?);
    command.arg("bench").args(options.json.then_some("--json"));
    let status = command.status().context("starting the optimized build")?;
    ensure!(status.success(), "the optimized build ended with {status}");
    Ok(ExitCode::SUCCESS)
}

/// A folder beside the sources, for a temporary one is often in memory and flushes for nothing.
fn scratch() -> Result<tempfile::TempDir> {
    let folder = cargo::root().join(".mesh");
    std::fs::create_dir_all(&folder)
        .and_then(|()| tempfile::tempdir_in(&folder))
        .with_context(|| format!("creating a folder in {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = Row {
        name: "half",
        value: 50.0,
        ceiling: 100.0,
        unit: "records/s",
        goal: Some(0.4),
    };

    #[test]
    fn a_row_tells_its_ratio_and_whether_it_misses_its_goal() {
        assert!(
            ROW.line().ends_with("0.50 records/s  0.40"),
            "{}",
            ROW.line()
        );
        let missed = Row {
            goal: Some(0.6),
            ..ROW
        };
        assert!(missed.line().ends_with("0.60 missed"), "{}", missed.line());
        assert_eq!(ROW.json()["ratio"], 0.5);
    }

    #[test]
    fn every_group_measures_something_above_nothing() {
        for (name, group) in GROUPS {
            let folder = scratch().unwrap();
            let rows = group(folder.path()).unwrap();
            assert!(!rows.is_empty(), "{name}");
            for row in rows {
                assert!(row.value > 0.0 && row.ceiling > 0.0, "{row:?}");
            }
        }
    }
}
