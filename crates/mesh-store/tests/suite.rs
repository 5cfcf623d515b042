//! The store, seen from outside, the same over each engine.

#[cfg(test)]
#[path = "suite/backup.rs"]
mod backup;
#[cfg(test)]
#[path = "suite/behaviour.rs"]
mod behaviour;
#[cfg(test)]
#[path = "suite/damage.rs"]
mod damage;
#[cfg(test)]
#[path = "suite/hand.rs"]
mod hand;
#[cfg(test)]
#[path = "suite/kit.rs"]
mod kit;
#[cfg(test)]
#[path = "suite/model.rs"]
mod model;
#[cfg(test)]
#[path = "suite/process.rs"]
mod process;
