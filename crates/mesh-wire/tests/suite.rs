//! What is said and what is kept, seen from outside: laws for every value, and the bytes of every version.

#[cfg(test)]
#[path = "suite/any.rs"]
mod any;
#[cfg(test)]
#[path = "suite/golden.rs"]
mod golden;
#[cfg(test)]
#[path = "suite/hand.rs"]
mod hand;
#[cfg(test)]
#[path = "suite/kept.rs"]
mod kept;
#[cfg(test)]
#[path = "suite/keys.rs"]
mod keys;
#[cfg(test)]
#[path = "suite/later.rs"]
mod later;
#[cfg(test)]
#[path = "suite/laws.rs"]
mod laws;
#[cfg(test)]
#[path = "suite/refusals.rs"]
mod refusals;
#[cfg(test)]
#[path = "suite/samples.rs"]
mod samples;
