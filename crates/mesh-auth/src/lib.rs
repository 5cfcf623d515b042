//! Keys, signed credentials, sealed secrets, tokens, and the mesh's TLS trust.
//!
//! This is the one crate that knows nkeys, certificates and the operating system's randomness. Nothing here
//! reads a clock: what depends on the time takes `now`, in unix seconds. A secret is printed by nobody: types
//! that hold one redact their `Debug`, have no `Display`, and no error carries any of a secret's text.

pub mod secret;

pub mod keys;

pub mod keyfile;

pub mod sign;

pub mod seal;

pub mod token;

pub mod jwt;

pub mod creds;

pub mod tls;

mod entropy;

pub use entropy::{EntropyError, unique};
