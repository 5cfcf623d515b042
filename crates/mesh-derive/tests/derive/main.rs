//! The derivation from outside: its laws, the mistakes its check finds, what its renderers write, and a real server.

#[cfg(test)]
mod changes;
#[cfg(test)]
mod common;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod server;
#[cfg(test)]
mod short;
#[cfg(test)]
mod topology;
#[cfg(test)]
mod widening;
