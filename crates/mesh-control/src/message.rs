//! Which message is meant, and what messages say once they are understood.

/// Which message: the same each time it is delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    /// Where it waits.
    pub queue: Queue,
    /// Which one there.
    pub sequence: u64,
}

/// The two queues a controller takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// What it must not miss.
    Control,
    /// What modules say that it follows.
    Events,
}
