//! What can be wrong with what the accounts share.

use crate::plan::Share;

/// A share that is not one of those by which something has to cross.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SharingFault {
    /// Whoever imports it reaches the server itself.
    #[error(
        "accounts: the {share} lets EDGE reach the server's own subjects; share only what nodes and modules use"
    )]
    Server {
        /// The share.
        share: Share,
    },
    /// A service where a stream is needed answers only whoever asks, and a stream where a service is needed takes nothing.
    #[error("accounts: the {share} is shared the wrong way; share it as the {needed}")]
    OtherKind {
        /// The share.
        share: Share,
        /// The one that is needed there.
        needed: Share,
    },
    /// More crosses than has to.
    #[error("accounts: the {share} is wider than the {needed} that is needed; share only that")]
    TooWide {
        /// The share.
        share: Share,
        /// One it goes beyond.
        needed: Share,
    },
    /// Nothing that anybody does crosses by it.
    #[error("accounts: the {share} carries what nobody needs; do not share it")]
    ForNothing {
        /// The share.
        share: Share,
    },
}
