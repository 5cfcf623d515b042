//! Where this program prints.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one place of this program that prints"
)]

use std::process::ExitCode;

use crate::exit::Failure;

/// Data, for whoever reads standard output.
pub(crate) fn data(text: &str) {
    print!("{text}");
}

/// A step that was taken.
pub(crate) fn step(text: &str) {
    eprintln!("{text}");
}

/// What went wrong, with its causes, once.
pub(crate) fn failed(failure: &Failure) -> ExitCode {
    eprintln!("enrol: {:#}", failure.error);
    ExitCode::from(failure.exit as u8)
}
