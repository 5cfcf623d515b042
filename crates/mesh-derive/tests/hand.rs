//! What went wrong in other people's production with subjects, grants, names and consumers, and cannot here.
//!
//! `cases/hand.json` has the cases; a test is named after the one it holds, and says what is right. Those that are held
//! elsewhere or not at all are in `cases/not_applicable.toml` or in other packages; `cargo xtask tidy` compares.

#[cfg(test)]
#[path = "hand/bytes.rs"]
mod bytes;
#[cfg(test)]
#[path = "hand/consumers.rs"]
mod consumers;
#[cfg(test)]
#[path = "hand/names.rs"]
mod names;
#[cfg(test)]
#[path = "hand/permissions.rs"]
mod permissions;
#[cfg(test)]
#[path = "derive/short.rs"]
mod short;
#[cfg(test)]
#[path = "hand/stage.rs"]
mod stage;
#[cfg(test)]
#[path = "hand/streams.rs"]
mod streams;
#[cfg(test)]
#[path = "hand/topology.rs"]
mod topology;
