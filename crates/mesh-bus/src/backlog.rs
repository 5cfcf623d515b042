//! What waits for whoever works a seat.

/// What is in a seat's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Messages that are not settled: they wait, or are out with whoever holds the seat.
    pub messages: u64,
    /// Milliseconds since the oldest of them was stored; nothing where there is none, or the bus does not tell.
    pub oldest: Option<u64>,
}

impl Backlog {
    /// What waits in two queues of one seat. Of what age the oldest is, is known where it is of each that holds something.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let is_known = |of: &Self| of.messages == 0 || of.oldest.is_some();
        let oldest = self.oldest.max(other.oldest);
        Self {
            messages: self.messages.saturating_add(other.messages),
            oldest: oldest.filter(|_| is_known(&self) && is_known(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_on_two_buses_is_as_old_as_the_older_if_that_is_known() {
        let of = |messages, oldest| Backlog { messages, oldest };
        for (one, other, both) in [
            (of(2, Some(7)), of(3, Some(9)), of(5, Some(9))),
            (of(2, Some(7)), of(0, None), of(2, Some(7))),
            (of(0, None), of(0, None), of(0, None)),
            // A broker that does not tell may hold an older one.
            (of(2, Some(7)), of(1, None), of(3, None)),
        ] {
            assert_eq!(one.and(other), both);
            assert_eq!(other.and(one), both);
        }
    }
}
