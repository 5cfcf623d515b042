//! The bus over a server that is really there: `MESH_TEST_NATS` says where its program is.

#[cfg(test)]
mod support;

#[cfg(test)]
mod bus;
#[cfg(test)]
mod carrying;
#[cfg(test)]
mod managed;
#[cfg(test)]
mod module;
#[cfg(test)]
mod principals;
