//! What the three programs share and is no part of the mesh: a log, a signal to stop, and a notebook.

mod notebook;

use std::io;

use tokio::signal::unix::{SignalKind, signal};

pub use notebook::Notebook;

/// Begins to log, to standard error: the node's agent keeps it.
pub fn log() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
}

/// Ready at SIGTERM or SIGINT. The signals are caught from this call on.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
