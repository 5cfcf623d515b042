//! The rows, and how they are told.
//!
//! A number alone says how fast the machine is; its ratio to the ceiling says how much of the
//! machine we use. To add a row, write a [`Group`] in a file of its own and list it in [`GROUPS`].

mod append;
mod derivation;
mod idle;
mod store;

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{cargo, out};

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: &'static str,
    value: f64,
    /// The most that this machine allowed, in the same unit and the same run; of a time, what it is saved from; of what is
    /// taken for nothing, what others published.
    ceiling: f64,
    unit: &'static str,
    /// The ratio of the value to the ceiling that we aim for.
    goal: Option<f64>,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// How often each is measured; the middle one counts.
    runs: usize,
    /// How many rounds a measurement has.
    rounds: u32,
}

/// Measures rows that share a ceiling.
type Group = fn(Effort) -> Result<Vec<Row>>;

const FULL: Effort = Effort {
    runs: 5,
    rounds: 40,
};

const GROUPS: &[(&str, Group)] = &[
    // First, while the heap has no holes that would hide how it grows.
    ("derivation", derivation::rows),
    ("append", append::rows),
    ("store", store::rows),
];

/// Those that start programs of ours and a real server.
const STARTED: &[(&str, Group)] = &[("idle", idle::rows)];

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
        // A share so small that two digits say nothing of it.
        let digits = if ratio < 0.01 { 4 } else { 2 };
        let line = format!(
            "{name:<28} {:>12.0} {:>12.0} {ratio:>6.digits$} {unit:<10} {goal}",
            self.value, self.ceiling
        );
        line.trim_end().to_owned()
    }
}

/// Measures every group and prints the rows.
pub(super) fn run(json: bool) -> Result<ExitCode> {
    let mut rows = Vec::new();
    for (name, group) in GROUPS.iter().chain(STARTED) {
        out::step("bench", format_args!("{name} .."));
        rows.extend(group(FULL).with_context(|| format!("measuring {name}"))?);
    }
    if json {
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

/// The middle of what was measured, for a neighbour's load makes outliers.
fn middle(mut measured: Vec<f64>) -> f64 {
    measured.sort_by(f64::total_cmp);
    measured
        .get(measured.len() / 2)
        .copied()
        .unwrap_or_default()
}

/// A folder that is gone afterwards, beside the sources, for a temporary one is often in memory and flushes for nothing.
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
        let small = Row { value: 0.03, ..ROW };
        assert!(small.line().contains(" 0.0003 "), "{}", small.line());
    }

    #[test]
    fn every_group_measures_something_above_nothing() {
        for (name, group) in GROUPS {
            let least = Effort { runs: 1, rounds: 1 };
            let rows = group(least).unwrap();
            assert!(!rows.is_empty(), "{name}");
            for row in rows {
                assert!(row.value > 0.0 && row.ceiling > 0.0, "{row:?}");
            }
        }
    }

    #[test]
    fn the_middle_is_no_outlier() {
        assert!((middle(vec![9.0, 1.0, 2.0, 1000.0, 3.0]) - 3.0).abs() < f64::EPSILON);
        assert!(middle(vec![]).abs() < f64::EPSILON);
    }
}
