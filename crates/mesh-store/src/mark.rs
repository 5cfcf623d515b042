//! Whether the store still holds all it promised, judged by a mark kept elsewhere.
//!
//! After each commit, never before, {store id, commit number} is published where the store cannot lose it. A commit
//! number below the mark at start means acknowledged writes are gone.

use crate::error::StoreError;
use crate::meta::StoreId;

/// What a mark says about the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum MarkVerdict {
    /// The mark is of this store, which holds everything up to it.
    Continues,
    /// No mark, or that of another store: this one is new or restored, and there is nothing to hold it against.
    Restored,
    /// The mark is of this store and above it: acknowledged writes are gone.
    Lost {
        /// The store's own commit number.
        stored: u64,
        /// The commit number it had promised.
        promised: u64,
    },
}

impl MarkVerdict {
    /// The verdict as a reason to stop: a lost promise is an error, the others pass.
    pub fn refuse_lost(self) -> Result<Self, StoreError> {
        match self {
            Self::Lost { stored, promised } => Err(StoreError::Lost { stored, promised }),
            passed @ (Self::Continues | Self::Restored) => Ok(passed),
        }
    }
}

/// Holds the store's own identity and commit number against the mark last published.
pub fn check_mark(store: (StoreId, u64), mark: Option<(StoreId, u64)>) -> MarkVerdict {
    let (id, stored) = store;
    match mark {
        Some((marked, promised)) if marked == id && promised > stored => {
            MarkVerdict::Lost { stored, promised }
        }
        Some((marked, _)) if marked == id => MarkVerdict::Continues,
        Some(_) | None => MarkVerdict::Restored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_of_the_same_store_above_its_commit_is_a_loss() {
        let (ours, theirs) = (StoreId::new([1; 16]), StoreId::new([2; 16]));
        let cases = [
            (7, None, MarkVerdict::Restored),
            (7, Some((theirs, 6)), MarkVerdict::Restored),
            (7, Some((theirs, 8)), MarkVerdict::Restored),
            (7, Some((ours, 6)), MarkVerdict::Continues),
            (7, Some((ours, 7)), MarkVerdict::Continues),
            (
                7,
                Some((ours, 8)),
                MarkVerdict::Lost {
                    stored: 7,
                    promised: 8,
                },
            ),
            (
                0,
                Some((ours, u64::MAX)),
                MarkVerdict::Lost {
                    stored: 0,
                    promised: u64::MAX,
                },
            ),
        ];
        for (stored, mark, expected) in cases {
            assert_eq!(
                check_mark((ours, stored), mark),
                expected,
                "{stored} against {mark:?}"
            );
        }
    }

    #[test]
    fn a_loss_is_a_reason_to_stop() {
        let lost = MarkVerdict::Lost {
            stored: 1,
            promised: 2,
        };
        assert_eq!(lost.refuse_lost().unwrap_err().class(), crate::Class::Stop);
        assert_eq!(
            MarkVerdict::Restored.refuse_lost().unwrap(),
            MarkVerdict::Restored
        );
    }
}
