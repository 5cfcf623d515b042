//! The derivation from outside: its laws, the mistakes its check finds, what its renderers write, and a real server.

mod algebra;
mod common;
mod golden;
mod laws;
mod mistakes;
mod operations;
mod server;
mod widening;
