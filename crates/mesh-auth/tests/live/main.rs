//! Credentials and certificates before a real NATS server, which has the last word on both.
//!
//! `MESH_TEST_NATS` is the path of a `nats-server` binary; without it these tests say that they did not run, and in CI fail.

#[cfg(test)]
mod managed;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod server;
