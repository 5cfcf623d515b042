//! What the three programs share and is no part of the mesh: a log, a signal to stop, and a notebook.

mod notebook;

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use notebook::Notebook;

/// Begins to log, to standard error: the node's agent keeps it.
pub fn log() {
    // What the client of the bus would say, the mesh says once.
    let targets = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("async_nats", LevelFilter::OFF);
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
    tracing_subscriber::registry()
        .with(lines.with_filter(targets))
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
