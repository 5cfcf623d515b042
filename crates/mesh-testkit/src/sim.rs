//! The simulator: one controller and several agents through loss, delay, restarts and store outages.
//!
//! Both ends are the cores the product runs (`mesh-control`); the bus, the store, the hosts and the operator are models
//! that misbehave as the real ones can. A seed is a whole world: the same seed gives the same steps. The laws are held
//! to after every step, and once the faults end, everything has to come right.

mod bus;
mod chance;
mod controller;
mod host;
mod law;
mod make;
mod operator;
mod store;
mod world;

use std::fmt;

/// What a world that held to its laws went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ran {
    /// Things that happened.
    pub steps: u64,
    /// Reports that came to be in the store.
    pub recorded: u64,
    /// Messages that were parked.
    pub parked: u64,
    /// Times the controller was killed.
    pub kills: u64,
    /// Times an older copy of the store took its place.
    pub restores: u64,
    /// Hosts that were accepted as nodes.
    pub enrolled: u64,
}

/// A world in which a law was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed that makes it again.
    pub seed: u64,
    /// The law, and what broke it.
    pub law: String,
    /// What happened last.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.law)
    }
}

/// Runs the world of a seed to its end.
pub fn run(seed: u64) -> Result<Ran, Failure> {
    world::World::new(seed).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs worlds, and sees to it that they went through something.
    fn hold_to_their_laws(seeds: std::ops::RangeInclusive<u64>) {
        let mut all = Ran::default();
        for seed in seeds {
            let ran = run(seed).unwrap_or_else(|failure| panic!("{failure}"));
            all.recorded += ran.recorded;
            all.parked += ran.parked;
            all.kills += ran.kills;
            all.restores += ran.restores;
            all.enrolled += ran.enrolled;
        }
        let seen = [
            all.recorded,
            all.parked,
            all.kills,
            all.restores,
            all.enrolled,
        ];
        assert!(seen.iter().all(|times| *times >= 5), "{all:?}");
    }

    #[test]
    fn twenty_worlds_hold_to_their_laws() {
        hold_to_their_laws(1..=20);
    }

    #[test]
    fn twenty_other_worlds_hold_to_their_laws() {
        hold_to_their_laws(21..=40);
    }

    #[test]
    fn the_same_seed_is_the_same_world() {
        assert_eq!(run(7), run(7));
    }
}
