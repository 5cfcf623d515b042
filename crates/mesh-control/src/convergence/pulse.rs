//! The health of a module that was good once.

use std::time::Duration;

use mesh_model::Health;

/// Whether a module that was good is so still. One answer that fails is no reason to end what works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulse {
    failed: u32,
}

/// How the end of a module is told that was ended since it was not healthy, before the reason.
pub const UNHEALTHY: &str = "unhealthy: ";
/// Failed answers in a row after which a module is started anew.
const FAILURES: u32 = 3;

impl Pulse {
    /// Of a module that was just found good.
    pub const fn new() -> Self {
        Self { failed: 0 }
    }

    /// Takes an answer. Something is returned when the module is to be started anew: how it ended then.
    #[must_use]
    pub fn probed(&mut self, answer: Result<(), String>) -> Option<String> {
        let Err(why) = answer else {
            self.failed = 0;
            return None;
        };
        self.failed = self.failed.saturating_add(1);
        (self.failed >= FAILURES).then(|| {
            self.failed = 0;
            format!("{UNHEALTHY}{why}")
        })
    }
}

/// How long lies between two askings: what was declared, and never so little that asking is all a host does.
pub fn every(health: &Health) -> Duration {
    Duration::from_millis(health.every).max(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_third_failure_in_a_row_ends_it() {
        let bad = || Err("refused".to_owned());
        let mut pulse = Pulse::new();
        for (answer, ends) in [
            (bad(), false),
            (bad(), false),
            (Ok(()), false),
            (bad(), false),
            (bad(), false),
            (bad(), true),
            (bad(), false),
        ] {
            assert_eq!(pulse.probed(answer).is_some(), ends, "{pulse:?}");
        }
    }
}
