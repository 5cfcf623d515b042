//! The loopback, held to everything a bus promises, and the loops over it, at their edges.

#[cfg(test)]
mod both;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod hand;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod long;
#[cfg(test)]
mod loops;
#[cfg(test)]
mod world;
