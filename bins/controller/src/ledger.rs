//! The store behind the controller's loop: facts become sealed records, and a store's errors become the loop's.

use std::sync::Arc;
use std::time::Duration;

use mesh_bus::Ledger;
use mesh_control::{Change, Fact, StoreRefusal};
use mesh_store::{
    Class, Entry, ExportSummary, Fault, FaultGate, Form, Op, Opened, Store, StoreError, StoreId,
};
use mesh_wire::{Mark, fact_entry, fact_key, read_fact};

/// The store, and which one it is.
#[derive(Debug, Clone)]
pub(crate) struct StoreLedger {
    store: Store,
    identity: StoreId,
    gate: Arc<FaultGate>,
}

impl StoreLedger {
    /// Around an open store.
    pub(crate) fn new(store: Store, identity: StoreId, gate: Arc<FaultGate>) -> Self {
        Self {
            store,
            identity,
            gate,
        }
    }

    /// Everything that is kept, as it stands on the disk.
    pub(crate) async fn facts(&self) -> Result<Vec<Fact>, StoreError> {
        let entries = self.store.scan().await?;
        facts(&entries).map_err(|why| StoreError::Corrupt {
            path: std::path::PathBuf::new(),
            detail: why,
        })
    }

    /// Makes every commit fail for a while.
    pub(crate) async fn refuse_for(&self, time: Duration) {
        self.gate.refuse(Fault::Full);
        tokio::time::sleep(time).await;
        self.gate.allow();
    }

    /// Writes everything that is kept into a file.
    pub(crate) async fn export(&self, to: &std::path::Path) -> Result<ExportSummary, StoreError> {
        self.store.export(to).await
    }

    /// Finishes what is queued and closes.
    pub(crate) async fn close(&self) {
        self.store.clone().close().await;
    }
}

/// The facts in what a store held.
pub(crate) fn facts(entries: &[Entry]) -> Result<Vec<Fact>, String> {
    entries
        .iter()
        .map(|entry| {
            let Form { kind, version } = entry.form;
            read_fact(&entry.key, kind, version, &entry.body).map_err(|error| error.to_string())
        })
        .collect()
}

impl Ledger for StoreLedger {
    async fn commit(&self, changes: Vec<Change>) -> Result<Mark, StoreRefusal> {
        let ops = changes.iter().map(op).collect();
        let commit = self
            .store
            .commit(ops)
            .await
            .map_err(|error| refusal(&error))?;
        Ok(Mark {
            store: self.identity.to_bytes(),
            commit,
        })
    }

    async fn reopen(&self) -> Result<Vec<Fact>, StoreRefusal> {
        let Opened { entries, .. } = self.store.reopen().await.map_err(|error| refusal(&error))?;
        facts(&entries).map_err(StoreRefusal::Stop)
    }
}

fn op(change: &Change) -> Op {
    match change {
        Change::Put(fact) => {
            let entry = fact_entry(fact);
            Op::Put {
                key: entry.key,
                form: Form {
                    kind: entry.kind,
                    version: entry.version,
                },
                body: entry.body,
            }
        }
        Change::Remove(key) => Op::Remove { key: fact_key(key) },
    }
}

fn refusal(error: &StoreError) -> StoreRefusal {
    let why = error.to_string();
    match error.class() {
        Class::Retry => StoreRefusal::Later(why),
        Class::RefuseThis => StoreRefusal::Never(why),
        Class::Stop => StoreRefusal::Stop(why),
    }
}
