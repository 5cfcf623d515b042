//! What an operator writes: TOML read strictly, with line, column and the nearest key.
//!
//! [`read`] turns the text of one file into a form, for manifests and for a binary's own configuration alike.
//! [`assemble`] turns a directory of files into what they declare, or into everything that is wrong with them;
//! [`load`] does so from a disk.

mod directory;
mod error;
mod form;
mod later;
mod locate;
mod manifest;
mod mesh;
mod names;
mod read;
mod skeleton;
mod source;

pub use directory::{SourceFile, assemble, load};
pub use error::{ErrorCode, FileError, Position};
pub use read::read;
pub use skeleton::skeleton;
