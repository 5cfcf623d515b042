//! For how long a message is its reader's to settle: until the seat is taken away, or the connection it came over ends.

use mesh_bus::BusError;
use tokio::sync::watch;

/// The term a message came in.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    terms: watch::Receiver<u64>,
    own: u64,
}

impl Term {
    /// The one that runs now.
    pub(crate) fn now(terms: &watch::Receiver<u64>) -> Self {
        let own = *terms.borrow();
        let terms = terms.clone();
        Self { terms, own }
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.terms.borrow() != self.own
    }

    /// Waits until it is over. May be dropped.
    pub(crate) async fn over(&self) {
        let (mut terms, own) = (self.terms.clone(), self.own);
        if terms.wait_for(|term| *term != own).await.is_err() {
            // Whoever listened is gone, and nobody says what became of it.
            std::future::pending::<()>().await;
        }
    }

    /// An error once it is over.
    pub(crate) fn require(&self) -> Result<(), BusError> {
        if !self.is_over() {
            return Ok(());
        }
        Err(BusError::Refused {
            what: "to settle it".to_owned(),
            why: "the module may no longer read what it came from, or the connection it came over ended; it goes to whoever may now"
                .to_owned(),
        })
    }
}
