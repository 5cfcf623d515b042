//! How the two servers judge raw text: subjects, names, permissions and definitions, exactly as they do, oddities included.
//!
//! The mesh's own types (`mesh_model::Filter`, `mesh_model::Grant`) cannot hold what a server would misread; they are what
//! the mesh derives and checks with. This crate is for the other direction: text that a server has, or was asked to take,
//! and what the server would say of it. Each rule names the source it was read in; none of them is our opinion. Nothing
//! that ships depends on it: `cargo xtask cases` asks it, and its tests hold the mesh's own types to it.

pub mod nats;
pub mod rabbitmq;
