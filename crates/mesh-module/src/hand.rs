//! A message in hand: the bus is told that it is worked on until it is settled or let drop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::{ModuleBus, ModuleSettlement};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::error::SettleError;
use crate::term::Term;

pub(crate) struct InHand<B: ModuleBus> {
    bus: Arc<B>,
    receipt: B::Receipt,
    term: Term,
    /// One task, which ends with this value.
    working: JoinSet<()>,
}

impl<B: ModuleBus> InHand<B> {
    pub(crate) fn new(bus: Arc<B>, receipt: B::Receipt, term: Term) -> Self {
        let mut working = JoinSet::new();
        working.spawn(say_working(Arc::clone(&bus), receipt.clone(), term.clone()));
        Self {
            bus,
            receipt,
            term,
            working,
        }
    }

    pub(crate) fn term(&self) -> &Term {
        &self.term
    }

    pub(crate) async fn settle(
        mut self,
        id: String,
        how: ModuleSettlement,
    ) -> Result<(), SettleError> {
        // To its end: "still working" said after "again" would call the delay off.
        self.working.shutdown().await;
        let settled = match self.term.require() {
            Ok(()) => self.bus.settle(&self.receipt, how).await,
            over => over,
        };
        settled.map_err(|source| SettleError { id, source })
    }
}

impl<B: ModuleBus> fmt::Debug for InHand<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InHand").finish_non_exhaustive()
    }
}

async fn say_working<B: ModuleBus>(bus: Arc<B>, receipt: B::Receipt, term: Term) {
    loop {
        tokio::select! {
            () = term.over() => return,
            () = sleep(WORKING_EACH) => {}
        }
        if let Err(error) = bus.settle(&receipt, ModuleSettlement::Working).await {
            tracing::debug!(%error, "could not say that a message is still worked on");
        }
    }
}

/// A third of the shorter ack wait, which is that of events.
const WORKING_EACH: Duration = Duration::from_secs(10);
