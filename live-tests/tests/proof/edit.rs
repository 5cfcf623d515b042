//! Grants that are not quite those of a plan.

use mesh_model::{Grant, QueueSubscription};

use Edit::{Less, More};
use Entry::{Publish, Queue, Subscribe};

/// What a grant has more than the plan, or less.
pub(crate) enum Edit {
    /// These besides.
    More(&'static [Entry]),
    /// These not.
    Less(&'static [Entry]),
}

/// One entry of a grant.
pub(crate) enum Entry {
    /// On what it may publish.
    Publish(&'static str),
    /// To what it may subscribe.
    Subscribe(&'static str),
    /// To what it may subscribe, and in which group.
    Queue(&'static str, &'static str),
}

impl Edit {
    /// Changes a grant, and fails where that is no change.
    pub(crate) fn make(&self, grant: &mut Grant) -> anyhow::Result<()> {
        let (entries, more) = match self {
            More(entries) => (entries, true),
            Less(entries) => (entries, false),
        };
        for entry in *entries {
            let done = match entry {
                Publish(on) if more => grant.publish.insert(on.parse()?),
                Publish(on) => grant.publish.remove(*on),
                Subscribe(to) if more => grant.subscribe.insert(to.parse()?),
                Subscribe(to) => grant.subscribe.remove(*to),
                Queue(to, group) => {
                    let entry = QueueSubscription {
                        filter: to.parse()?,
                        queue: group.parse()?,
                    };
                    if more {
                        grant.queues.insert(entry)
                    } else {
                        grant.queues.remove(&entry)
                    }
                }
            };
            anyhow::ensure!(done, "nothing is changed");
        }
        Ok(())
    }
}
