//! The model store: takes commits in order, refuses for a while, and may have taken what it says it has not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mesh_control::{Change, Fact, FactKey, StoreRefusal, Ticket};
use mesh_model::ReportId;

pub(super) type Facts = BTreeMap<FactKey, Fact>;

#[derive(Debug, Default)]
pub(super) struct Store {
    /// What is on disk.
    pub(super) facts: Facts,
    /// Commits on their way, in order.
    pub(super) queue: VecDeque<(Ticket, Vec<Change>)>,
    /// Commits that were tried, and of which the controller has not heard yet.
    pub(super) unheard: usize,
    /// A commit failed: nothing more is taken before the store is opened anew.
    pub(super) dead: bool,
    /// It refuses until then.
    pub(super) refuses_until: u64,
    /// Reports it never will take.
    pub(super) never: BTreeSet<ReportId>,
}

impl Store {
    /// Tries the next commit. `unknown`: should it fail now, whether it is on disk all the same. `never`: it is refused
    /// for ever.
    pub(super) fn attempt(
        &mut self,
        now: u64,
        unknown: bool,
        never: bool,
    ) -> Option<(Ticket, Vec<Change>, Result<(), StoreRefusal>)> {
        let (ticket, changes) = self.queue.pop_front()?;
        let result = if self.dead {
            Err(StoreRefusal::Later("the handle is dead".to_owned()))
        } else if now < self.refuses_until {
            self.dead = true;
            if unknown {
                self.take(&changes);
            }
            Err(StoreRefusal::Later("no space left".to_owned()))
        } else if never || reports(&changes).any(|id| self.never.contains(id)) {
            self.never.extend(reports(&changes).cloned());
            Err(StoreRefusal::Never("too large".to_owned()))
        } else {
            self.take(&changes);
            Ok(())
        };
        Some((ticket, changes, result))
    }

    fn take(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(fact) => {
                    self.facts.insert(fact.key(), fact.clone());
                }
                Change::Remove(key) => {
                    self.facts.remove(key);
                }
            }
        }
    }
}

/// The reports a commit keeps.
fn reports(changes: &[Change]) -> impl Iterator<Item = &ReportId> {
    changes.iter().filter_map(|change| match change {
        Change::Put(Fact::Report(report)) => Some(&report.id),
        _ => None,
    })
}
