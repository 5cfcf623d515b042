//! Where this program prints.

use std::io::Write;
use std::process::ExitCode;

/// Data, for whoever reads standard output.
pub(crate) fn data(text: &str) {
    let mut stdout = std::io::stdout();
    // Whoever read has read enough.
    let _unread = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// What a person is told beside the data.
pub(crate) fn note(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "{text}");
}

/// What went wrong, with its causes, once.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    let _unheard = writeln!(std::io::stderr(), "controller: {error:#}");
    ExitCode::FAILURE
}
