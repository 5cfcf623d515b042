//! What an operator writes: TOML, YAML and JSON read strictly, with line, column and the nearest key.
//!
//! [`read`] turns the text of one file into a form, for manifests and for a binary's own configuration alike.
//! [`assemble`] turns a directory of files into what they declare, or into everything that is wrong with them;
//! [`load`] does so from a disk. [`manifest_schema`] and [`mesh_schema`] say for editors what a file may hold.

mod directory;
mod error;
mod explain;
mod form;
mod json;
mod keyed;
mod locate;
mod manifest;
mod mesh;
mod names;
mod notation;
mod read;
mod run;
mod schema;
mod skeleton;
mod source;
mod standin;
mod tree;
mod values;
mod yaml;

pub use directory::{SourceFile, assemble, load};
pub use error::{ErrorCode, FileError, Position};
pub use read::read;
pub use schema::{manifest_schema, mesh_schema};
pub use skeleton::skeleton;
