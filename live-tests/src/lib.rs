//! What the tests against servers that are really there begin with.
//!
//! `MESH_TEST_NATS` says where the program `nats-server` is. Every server has a port, a directory and keys of its own,
//! is heard on loopback only, and ends with the value that holds it. `MESH_TEST_DOCKER` says whether a test may start a
//! container engine.

pub mod binaries;
pub mod containers;
mod disk;
mod keys;
mod lent;
mod mesh;
mod patience;
mod rogue;
mod server;
mod tool;
mod world;
mod world_amqp;

pub use disk::Disk;
pub use keys::KeyRing;
pub use mesh::{Agent, Founding, Mesh, consumer, manifest, placed_on};
pub use patience::{eventually, quiet, soon, within};
pub use rogue::Rogue;
pub use server::{Server, Shape, named, programs};
pub use tool::{Snapshot, Tool};
pub use world::NatsWorld;
pub use world_amqp::{AmqpKeys, AmqpWorld};
