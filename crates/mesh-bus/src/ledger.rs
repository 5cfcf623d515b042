//! The store as the controller's loop needs it.

use std::future::Future;

use mesh_control::{Change, Fact, StoreRefusal};
use mesh_wire::Mark;

/// Where facts are kept.
pub trait Ledger: Send + Sync + 'static {
    /// Commits changes, whole or not at all. The order in which the futures are first polled is the order of the
    /// commits; those that wait together may share one. Ready only once they are on disk, with the mark they make.
    fn commit(
        &self,
        changes: Vec<Change>,
    ) -> impl Future<Output = Result<Mark, StoreRefusal>> + Send;

    /// Opens the store anew after a commit failed, and reads what it really holds.
    fn reopen(&self) -> impl Future<Output = Result<Vec<Fact>, StoreRefusal>> + Send;
}
