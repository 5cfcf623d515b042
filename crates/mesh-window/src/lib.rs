//! The store window: how long a refused message is held.
//!
//! While the store cannot take a message, the message is held: not lost, not acknowledged. Its window opens at the
//! first refusal of *that* message and closes when it is taken, or when the bound passes and it is let go. Nothing here
//! reads a clock: `now` is an argument, in milliseconds since whatever the caller counts from.

mod window;

pub use window::{Limits, Verdict, Window};
