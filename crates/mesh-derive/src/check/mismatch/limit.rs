//! What is more than a server takes.

use mesh_model::{ConsumerRef, Principal};

use crate::check::limits::Counted;

/// A limit of a server that a plan exceeds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum LimitFault {
    /// A user JWT that a client's CONNECT cannot carry.
    #[error(
        "{principal}: its user JWT would have {bytes} bytes, and the server's max_control_line (4096 bytes unless it is told \
         otherwise) leaves {limit}; declare less for one module, or raise max_control_line"
    )]
    GrantTooLarge {
        /// Whose.
        principal: Principal,
        /// Bytes of the JWT.
        bytes: usize,
        /// The most that fit.
        limit: usize,
    },
    /// More filters than a server compares in time, or than one request holds.
    #[error(
        "consumer {consumer}: has {found} {what}, and a server takes {limit} in one consumer; let one module follow less"
    )]
    TooManyFilters {
        /// The consumer.
        consumer: ConsumerRef,
        /// What is counted.
        what: Counted,
        /// How many.
        found: usize,
        /// The most.
        limit: usize,
    },
}
