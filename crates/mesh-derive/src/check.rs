//! Holds what was derived against itself, before any of it reaches a bus: the mistakes a server takes without a word.

mod authority;
mod consumer;
mod mismatch;
mod overlap;
mod plan;

pub use consumer::check;
pub use mismatch::Mismatch;
