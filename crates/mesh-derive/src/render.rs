//! One plan, written for whoever is to carry it out or read it.

pub mod jwt;
pub mod nats_conf;
pub mod rabbitmq;

mod json;
mod table;

pub use json::{Json, json};
pub(crate) use jwt::jwt_bytes;
pub use table::table;

use std::fmt::{Arguments, Write};

fn put(text: &mut String, part: Arguments<'_>) {
    // A String takes everything.
    let _ = text.write_fmt(part);
}
