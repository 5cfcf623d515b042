//! The simulator, real servers on their own ports, folders and cases.

pub mod engine;
pub mod http;
mod keeper;
pub mod program;
pub mod rabbitmq;
pub mod registry;
pub mod sim;

/// Whether this runs in continuous integration, where nothing may be left out: `CI` is set, to whatever.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some()
}
