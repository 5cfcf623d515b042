//! Takes what a listener hears in hand as soon as it arrives.
//!
//! A bus sends ahead of what is worked on, and its ack wait runs from when it sent: without this, the tenth message
//! behind a slow one would be sent again before anybody looked at it.

use std::fmt;
use std::sync::Arc;

use mesh_bus::{Incoming, Listener, ModuleBus};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::term::Term;

pub(crate) struct Ear<T> {
    /// Not bounded here: the bus has no more than the consumer's max ack pending out.
    heard: mpsc::UnboundedReceiver<(Term, T)>,
    /// One task, which ends with this value.
    _listening: JoinSet<()>,
}

impl<T: Send + 'static> Ear<T> {
    pub(crate) fn new<B: ModuleBus>(bus: Arc<B>, listener: B::Listener, read: Read<B, T>) -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        let mut listening = JoinSet::new();
        listening.spawn(listen(bus, listener, read, sender));
        Self {
            heard,
            _listening: listening,
        }
    }

    pub(crate) async fn next(&mut self) -> T {
        loop {
            match self.heard.recv().await {
                // What came before it was taken away is another's.
                Some((term, _)) if term.is_over() => {}
                Some((_, heard)) => return heard,
                // The task ends only with the runtime, or with this value.
                None => std::future::pending().await,
            }
        }
    }
}

impl<T> fmt::Debug for Ear<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear")
            .field("waiting", &self.heard.len())
            .finish_non_exhaustive()
    }
}

/// Makes of a message what its source promises; nothing of one that is not of it.
pub(crate) type Read<B, T> = fn(Incoming<<B as ModuleBus>::Receipt>, Arc<B>, Term) -> Option<T>;

async fn listen<B: ModuleBus, T>(
    bus: Arc<B>,
    mut listener: B::Listener,
    read: Read<B, T>,
    sender: mpsc::UnboundedSender<(Term, T)>,
) {
    let terms = listener.terms();
    loop {
        let incoming = listener.next().await;
        let subject = incoming.subject.clone();
        let term = Term::now(&terms);
        let Some(heard) = read(incoming, Arc::clone(&bus), term.clone()) else {
            tracing::debug!(%subject, "dropped a message this module did not ask for");
            continue;
        };
        if sender.send((term, heard)).is_err() {
            return;
        }
    }
}
