//! The mesh's own programs, started as an operator starts them: each mesh in a folder of its own, and nothing of it left
//! when its value is dropped, also when that is a panic's doing.

mod broker;
mod programs;
mod remains;
mod service;
mod site;
mod wire;

pub use remains::Process;
pub use service::Said;
pub use site::Site;
pub use wire::{Publisher, created_at, declared_at};
