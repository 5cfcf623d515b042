//! What went wrong in other people's production with what is written in files, and cannot here.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

#[cfg(test)]
#[path = "hand/env.rs"]
mod env;
#[cfg(test)]
#[path = "hand/names.rs"]
mod names;
