//! Where this program prints.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one place of this program that prints"
)]

use std::process::ExitCode;

/// Data, for whoever reads standard output.
pub(crate) fn data(text: &str) {
    print!("{text}");
}

/// What a person is told beside the data.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// What went wrong, with its causes, once.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("controller: {error:#}");
    ExitCode::FAILURE
}
