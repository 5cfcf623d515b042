//! The definitions that are derived, imported into a RabbitMQ that is really there: what it made of them, and what each
//! user may then do.
//!
//! `MESH_TEST_AMQP` and `MESH_TEST_AMQP_HTTP` name a broker for tests alone: its virtual hosts `mesh-live-tests` and `mesh-live-tests-…`
//! are removed, and users called as the mesh calls them are overwritten.

#[cfg(test)]
mod authority;
#[cfg(test)]
mod imported;
#[cfg(test)]
mod login;
#[cfg(test)]
mod site;
#[cfg(test)]
mod versions;
