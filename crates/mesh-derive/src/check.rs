//! Holds what was derived against itself, before any of it reaches a bus: the mistakes a server takes without a word.

mod authority;
mod consumer;
mod definitions;
mod limits;
mod mismatch;
mod overlap;
mod plan;
mod private;
mod sharing;
mod streams;
mod writes;

pub use consumer::check;
pub use limits::{Counted, JWT_LIMIT, in_operator_mode};
pub use mismatch::{DefinitionFault, GrantFault, LimitFault, Mismatch, SharingFault};
