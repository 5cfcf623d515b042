//! Where this program prints: data to standard output, everything else to standard error.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one place of this program that prints"
)]

use mesh_api::Envelope;
use serde::Serialize;

/// Data.
pub(crate) fn data(text: &str) {
    print!("{text}");
}

/// Anything a person is told beside the data.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// Data, as one JSON document.
pub(crate) fn json<T: Serialize>(kind: &str, body: T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&Envelope::new(kind, body))?;
    println!("{text}");
    Ok(())
}
