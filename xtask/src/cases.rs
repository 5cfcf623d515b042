//! Runs files of cases, one row a question to a server, against `mesh_servers`.
//!
//! A row has an id, an operation, what it is asked of (`a`, `b`), what is right (`expect`), and perhaps a note and the
//! subjects a subscription is given (`delivered_of_probe`). Every answer is computed by the library; no row is known here.

mod fixture;
mod nats;
mod rabbitmq;
mod requirements;
mod row;
#[cfg(test)]
mod tests;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::out;
use row::Row;

/// Which files.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Files of cases, each a JSON array of rows
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Runs the files. The last line is the summary; a file that cannot be read, or has no rows, fails the run.
pub(crate) fn run(options: &Options) -> ExitCode {
    let mut report = Report::default();
    let mut unreadable = false;
    for file in &options.files {
        match rows(file) {
            Ok(rows) => report.run(&rows),
            Err(error) => {
                out::step("cases", format_args!("{error:#}"));
                unreadable = true;
            }
        }
    }
    for failure in &report.failures {
        out::data(failure);
    }
    for (op, rows) in &report.skipped {
        out::data(format_args!("skipped: operation {op}, {rows} rows"));
    }
    out::data(report.summary());
    if unreadable || !report.failures.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn rows(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let rows: Vec<Value> = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no JSON array of rows", file.display()))?;
    ensure!(!rows.is_empty(), "{} has no rows", file.display());
    Ok(rows)
}

/// What came of the rows.
#[derive(Debug, Default)]
struct Report {
    passed: usize,
    failures: Vec<String>,
    /// Operations nothing is known of, and how many rows ask for each.
    skipped: BTreeMap<String, usize>,
}

/// What earlier rows of a file leave for later ones.
#[derive(Debug, Default)]
struct State {
    /// Every subject that a row of the file says was delivered: what was published to probe each subscription.
    probes: BTreeSet<String>,
    /// What was added in each group of rows that build on one another.
    added: BTreeMap<String, Vec<String>>,
}

/// What the library says to a row.
enum Answer {
    /// A value to hold against what is expected.
    Value(Value),
    /// A comparison of its own kind, and what was got.
    Verdict(bool, String),
}

impl Report {
    fn run(&mut self, rows: &[Value]) {
        let mut state = State {
            probes: rows.iter().flat_map(row::delivered).collect(),
            added: BTreeMap::new(),
        };
        for (index, value) in rows.iter().enumerate() {
            match Row::new(value) {
                Ok(row) => self.judge(&row, &mut state),
                Err(error) => {
                    let name = value.get("id").and_then(Value::as_str);
                    let name = name.map_or_else(|| format!("row {index}"), ToOwned::to_owned);
                    self.failures
                        .push(format!("failed: {name}: malformed row: {error:#}"));
                }
            }
        }
    }

    fn judge(&mut self, row: &Row<'_>, state: &mut State) {
        let Some(answer) = nats::answer(row, state)
            .or_else(|| fixture::answer(row, state))
            .or_else(|| rabbitmq::answer(row))
        else {
            *self.skipped.entry(row.op.to_owned()).or_default() += 1;
            return;
        };
        let (right, got) = match answer {
            Ok(Answer::Value(got)) => (agrees(row.expect, &got), got.to_string()),
            Ok(Answer::Verdict(right, got)) => (right, got),
            Err(error) => (false, format!("no answer: {error:#}")),
        };
        if right {
            self.passed += 1;
        } else {
            self.failures.push(format!(
                "failed: {} {}: a {}, b {}: expected {}, got {got}",
                row.id,
                row.op,
                row.a,
                row.b,
                row.expectation()
            ));
        }
    }

    fn summary(&self) -> String {
        let skipped: usize = self.skipped.values().sum();
        format!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed,
            self.failures.len()
        )
    }
}

/// Whether an answer is what is expected: of an object, everything that is expected of it.
fn agrees(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => expected
            .iter()
            .all(|(key, value)| got.get(key).unwrap_or(&Value::Null) == value),
        (expected, got) => expected == got,
    }
}
