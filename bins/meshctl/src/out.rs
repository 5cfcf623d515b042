//! Where this program prints: data to standard output, everything else to standard error.

use std::io::Write;

use mesh_api::Envelope;
use serde::Serialize;

/// Data.
pub(crate) fn data(text: &str) {
    let mut stdout = std::io::stdout();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => {}
        // Whoever read has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => note(&format!("standard output: {error}")),
    }
}

/// Anything a person is told beside the data.
pub(crate) fn note(text: &str) {
    // With nobody to hear it there is nothing to say.
    let _unheard = writeln!(std::io::stderr(), "{text}");
}

/// Data, as one JSON document.
pub(crate) fn json<T: Serialize>(kind: &str, body: T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&Envelope::new(kind, body))?;
    data(&format!("{text}\n"));
    Ok(())
}
