//! Containers over an engine that plays along: it answers as Docker's does, and loses answers, hangs and refuses when told.

mod engine;
mod hand;
mod host;
mod http;
mod pulling;
mod replacing;
mod running;
mod starting;
mod world;
