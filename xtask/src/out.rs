//! The one place where a task prints: data to stdout, everything else to stderr.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing enters here"
)]

use std::fmt::Display;

/// A line of what was asked for.
pub(crate) fn data(line: impl Display) {
    println!("{line}");
}

/// A line about what is being done.
pub(crate) fn step(task: &str, line: impl Display) {
    eprintln!("{task}: {line}");
}
