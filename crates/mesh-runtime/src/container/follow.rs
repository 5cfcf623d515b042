//! A module's log from one of its starts to the next, and from one of its containers to the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mesh_model::ModuleName;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::engine::{Seen, State};
use super::fault::Fault;
use super::mark::Mark;
use crate::logs::Lines;

/// Reads what a module says, for as long as it is known.
#[derive(Debug)]
pub(super) struct Follow {
    shared: Arc<Shared>,
    module: ModuleName,
    /// When it began.
    opened: Duration,
    /// How far the containers were read; of one that is not among them nothing was.
    read: BTreeMap<String, Place>,
}

#[derive(Debug, Default)]
struct Place {
    mark: Mark,
    /// The end up to which everything was read.
    end: Option<String>,
}

impl Place {
    /// Whether a container may have said more than was read. One whose log came to its end is read once more when it is
    /// seen to have ended, since it may have been started and have ended meanwhile.
    fn may_have_more(&self, state: &State) -> bool {
        match state {
            State::Running | State::Paused => true,
            State::Ended(exit) => self.end.as_ref() != Some(&exit.at),
            State::Created | State::Leaving => false,
        }
    }
}

impl Follow {
    /// What `seen` said before this is not said; what is made later is read from its beginning.
    pub(super) fn new(shared: Arc<Shared>, module: ModuleName, seen: &[Seen]) -> Self {
        let opened = Duration::from_millis((shared.now)().as_millis());
        let place = || Place {
            mark: Mark::before(opened),
            end: None,
        };
        let read = seen.iter().map(|it| (it.id.clone(), place())).collect();
        Self {
            shared,
            module,
            opened,
            read,
        }
    }

    /// Says the last lines of one container, and from there on whatever the module says.
    pub(super) async fn run(mut self, first: Seen, last: usize, mut lines: Lines) {
        self.read.remove(&first.id);
        let followed = async {
            if first.state != State::Created {
                self.say(&first, Some(last), &mut lines).await?;
            }
            self.go_on(&mut lines).await
        };
        if let Err(fault) = followed.await {
            lines.broken(fault.to_string()).await;
        }
    }

    async fn go_on(&mut self, lines: &mut Lines) -> Result<(), Fault> {
        let mut changes = self.shared.board.subscribe();
        loop {
            let known = changes.borrow_and_update().contains_key(&self.module);
            let Shared { engine, owner, .. } = &*self.shared;
            let seen = engine.list(owner, Some(self.module.as_str())).await?;
            // The oldest first: what replaces it waits, and loses nothing.
            let next = seen.iter().find(|it| match self.read.get(&it.id) {
                Some(place) => place.may_have_more(&it.state),
                None => it.state != State::Created,
            });
            if let Some(next) = next {
                self.say(next, None, lines).await?;
                sleep(BETWEEN).await;
            } else if seen.is_empty() && !known {
                return Ok(());
            } else {
                // That it changes, or that it is looked at again without: either is a reason to look.
                drop(timeout(LOOK, changes.changed()).await);
            }
        }
    }

    /// Says what a container said since it was read last, until it ends.
    async fn say(
        &mut self,
        one: &Seen,
        last: Option<usize>,
        lines: &mut Lines,
    ) -> Result<(), Fault> {
        let place = self.read.entry(one.id.clone()).or_default();
        let end = match &one.state {
            State::Ended(exit) => Some(exit.at.clone()),
            _ => None,
        };
        let engine = &self.shared.engine;
        let said = engine
            .log_after(&one.id, &mut place.mark, last, end.is_none(), lines)
            .await;
        if last.is_some() && place.mark.is_none() {
            place.mark = Mark::before(self.opened);
        }
        place.end = end;
        match said {
            // It went meanwhile, or is about to.
            Err(Fault::Missing | Fault::Conflict { .. }) => Ok(()),
            said => said,
        }
    }
}

/// How often it is looked for more to read, of which nothing is heard.
const LOOK: Duration = Duration::from_millis(500);
/// How long it is until the next log is read: one may come to its end before its container is seen to have ended.
const BETWEEN: Duration = Duration::from_millis(50);
