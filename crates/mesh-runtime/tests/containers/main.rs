//! Containers over an engine that plays along: it answers as Docker's does, and loses answers, hangs and refuses when told.

#[cfg(test)]
mod engine;
#[cfg(test)]
mod hand;
#[cfg(test)]
mod host;
#[cfg(test)]
mod http;
#[cfg(test)]
mod insisting;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod pulling;
#[cfg(test)]
mod replacing;
#[cfg(test)]
mod running;
#[cfg(test)]
mod starting;
#[cfg(test)]
mod world;
