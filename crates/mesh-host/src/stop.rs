//! When to stop, and the one TLS provider of a process.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Ready at SIGTERM or SIGINT. The signals are caught from this call on, not from the first poll.
pub fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Makes ring the provider of every TLS connection; the first thing a process does. A second call changes nothing.
pub fn install_tls() {
    // It fails only when one is installed, which is then this one: no other is built in.
    let _installed = rustls::crypto::ring::default_provider().install_default();
}
