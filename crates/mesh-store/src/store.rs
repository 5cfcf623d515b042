//! The async handle on the store. Everything that touches the disk happens on one thread behind it.

use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

use crate::dump::ExportSummary;
use crate::engine::{Engine, EngineError, EngineKind, IfAbsent};
use crate::error::StoreError;
use crate::meta::StoreId;
use crate::record::{self, Entry, Op};

mod worker;

/// How many requests wait for the disk before the next asker waits for them.
const QUEUE: usize = 1024;

/// A handle on the store. Clones share one thread and one queue.
///
/// After a commit fails the store is dead: that commit, those queued behind it and any later ones get the same error
/// until [`Store::reopen`] succeeds, because what is on disk is unknown and the caller's memory has run ahead of it.
/// Only a refusal ([`StoreError::Refused`]) leaves it as it was.
#[derive(Clone, Debug)]
pub struct Store {
    requests: mpsc::Sender<Request>,
}

/// What the store holds when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Every record, in key order.
    pub entries: Vec<Entry>,
    /// Which store this is.
    pub identity: StoreId,
    /// The number of its last commit; a new store is at 0.
    pub commit: u64,
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

#[derive(Debug)]
enum Request {
    Commit(worker::Commit),
    Scan(Answer<Vec<Entry>>),
    Reopen(Answer<Opened>),
    Export(PathBuf, Answer<ExportSummary>),
    Close(Answer<()>),
}

impl Store {
    /// Opens the store in `dir`, or creates it there as `new_id`.
    ///
    /// The directory is made if it is missing and held by a lock until the store is closed.
    pub async fn open(
        dir: &Path,
        kind: EngineKind,
        new_id: StoreId,
    ) -> Result<(Self, Opened), StoreError> {
        Self::open_with(dir, new_id, move |dir, absent| kind.open(dir, absent)).await
    }

    /// Opens the store with an engine made by `open_engine`, which is called again for each [`Store::reopen`].
    ///
    /// This is how an engine is put behind a [`FaultGate`](crate::FaultGate):
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use mesh_store::{EngineKind, Fault, FaultGate, Faulty, Store, StoreId};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let gate = Arc::new(FaultGate::default());
    /// let behind = Arc::clone(&gate);
    /// let (store, _) = Store::open_with(dir.path(), StoreId::new([7; 16]), move |dir, absent| {
    ///     Ok(Box::new(Faulty::new(EngineKind::Redb.open(dir, absent)?, Arc::clone(&behind))))
    /// })
    /// .await?;
    ///
    /// gate.refuse(Fault::Full);
    /// assert!(store.commit(vec![]).await.is_err());
    /// gate.allow();
    /// store.reopen().await?;
    /// store.commit(vec![]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_with(
        dir: &Path,
        new_id: StoreId,
        open_engine: impl Fn(&Path, IfAbsent<'_>) -> Result<Box<dyn Engine>, EngineError>
        + Send
        + 'static,
    ) -> Result<(Self, Opened), StoreError> {
        let (requests, queue) = mpsc::channel(QUEUE);
        let (answer, answered) = oneshot::channel();
        worker::start(dir, new_id, Box::new(open_engine), queue, answer)?;
        let opened = answered.await.unwrap_or(Err(StoreError::Closed))?;
        Ok((Self { requests }, opened))
    }

    /// Carries out `ops` in order and all together, and answers the commit's number once they are on disk.
    ///
    /// Commits that waited while the disk was busy become one commit and share its number. No ops are a commit too:
    /// a probe of whether the store takes anything. Dropping the future does not take the ops back.
    pub async fn commit(&self, ops: Vec<Op>) -> Result<u64, StoreError> {
        let ops = ops
            .into_iter()
            .map(record::raw)
            .collect::<Result<Vec<_>, _>>()?;
        self.ask(|answer| Request::Commit(worker::Commit { ops, answer }))
            .await
    }

    /// Every record, in key order.
    pub async fn scan(&self) -> Result<Vec<Entry>, StoreError> {
        self.ask(Request::Scan).await
    }

    /// Drops what is open, opens it again and reads what is really there: the way back from a [`Class::Retry`] error.
    ///
    /// Never creates a store. One that comes back below what it acknowledged is [`StoreError::Lost`].
    ///
    /// [`Class::Retry`]: crate::Class::Retry
    pub async fn reopen(&self) -> Result<Opened, StoreError> {
        self.ask(Request::Reopen).await
    }

    /// Writes every record to the backup file `to`, which appears whole or not at all. Commits wait meanwhile.
    ///
    /// A file that cannot be written leaves the store as it was.
    pub async fn export(&self, to: &Path) -> Result<ExportSummary, StoreError> {
        self.ask(|answer| Request::Export(to.to_owned(), answer))
            .await
    }

    /// Finishes what is queued and closes. The directory is free when this returns; other clones are told
    /// [`StoreError::Closed`]. Dropping the last clone closes too, some time later.
    pub async fn close(self) {
        // One that is closed already is closed.
        self.ask(Request::Close).await.unwrap_or_default();
    }

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.requests
            .send(request(answer))
            .await
            .map_err(|_| StoreError::Closed)?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }
}
