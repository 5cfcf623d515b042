//! What orders things: generations, sequences, revisions, and time as a number.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch; time always comes as an argument.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// Milliseconds since `earlier`; nothing when `earlier` is later (a clock was set back).
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `millis` later.
    #[must_use]
    pub const fn plus(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// Which declaration of a node is newer: ordered first by incarnation, then by counter.
///
/// The incarnation grows when records are restored from a backup, so that what a restored controller says is newer than
/// anything the lost one said.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Generation {
    /// Which life of the records.
    pub incarnation: u64,
    /// Which declaration in that life.
    pub counter: u64,
}

impl Generation {
    /// The declaration after this one, in `incarnation` if that is newer.
    #[must_use]
    pub const fn next(self, incarnation: u64) -> Self {
        if incarnation > self.incarnation {
            Self {
                incarnation,
                counter: 1,
            }
        } else {
            Self {
                incarnation: self.incarnation,
                counter: self.counter.saturating_add(1),
            }
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.incarnation, self.counter)
    }
}

/// A node's count of its reports; only grows on that node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a report is, everywhere: two with the same identity are one report said twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReportId {
    /// The node that reports.
    pub node: crate::NodeName,
    /// The declaration it answers.
    pub generation: Generation,
    /// Which report of that node.
    pub seq: Seq,
}

impl fmt::Display for ReportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.node, self.generation, self.seq)
    }
}

/// The version of the whole mesh's records: every change somebody decides is a new one. That a joiner's credential ends
/// once its node is heard, or its token's time is over, was decided with the token.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_controller_speaks_later_than_the_one_that_was_lost() {
        let lost = Generation {
            incarnation: 7,
            counter: 900,
        };
        let old = Generation {
            incarnation: 7,
            counter: 3,
        };
        assert!(old.next(8) > lost);
        assert!(old.next(7) < lost);
        assert_eq!(
            old.next(6),
            Generation {
                incarnation: 7,
                counter: 4
            }
        );
    }

    #[test]
    fn a_clock_set_back_makes_no_negative_age() {
        assert_eq!(
            Timestamp::from_millis(5).since(Timestamp::from_millis(9)),
            0
        );
    }
}
