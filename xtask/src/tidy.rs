//! Checks what the documents claim of the code, and what the compiler cannot.

mod cases;
mod commands;
mod embedded;
mod golden;
mod layers;
mod links;
mod manifests;
mod modules;
mod rules;
mod sources;
mod thresholds;
mod tree;
mod words;

use std::fmt;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::out;
use tree::Tree;

/// Something that is not as it should be, and where.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1; 1 also when the finding is about the whole file.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

/// Every check, under the name by which a document may speak of it.
const CHECKS: &[(&str, Check)] = &[
    ("layers", layers::arrows),
    ("pure-layers", layers::pure),
    ("embedded", embedded::small),
    ("inheritance", manifests::inheritance),
    ("thresholds", thresholds::agree),
    ("first-line", sources::first_line),
    ("file-length", sources::length),
    ("reachable", modules::reachable),
    ("links", links::resolve),
    ("commands", commands::exist),
    ("rule-ids", rules::agree),
    ("golden-files", golden::paired),
    ("cases", cases::agree),
    ("words", words::forbidden),
];

/// Runs every check; findings go to stdout, one a line.
pub(crate) fn run() -> Result<ExitCode> {
    check().map(|()| ExitCode::SUCCESS)
}

/// Runs every check. A finding is an error.
pub(crate) fn check() -> Result<()> {
    let tree = Tree::read()?;
    let mut count = 0_usize;
    for (name, check) in CHECKS {
        let mut findings = check(&tree);
        findings.sort();
        count += findings.len();
        for finding in findings {
            out::data(format_args!("{finding} [{name}]"));
        }
    }
    if count > 0 {
        bail!("tidy found {count} things to put right; they are listed above");
    }
    out::step("tidy", format_args!("{} checks ok", CHECKS.len()));
    Ok(())
}
