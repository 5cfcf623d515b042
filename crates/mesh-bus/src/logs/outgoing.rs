//! What a node still has to say of one log: so much and no more, and what is left out is counted.

use std::collections::VecDeque;

use mesh_wire::{LogEnd, LogPart, LogSaid};

use super::{PART, ROOM};

/// Lines that wait, and the room there is for them.
#[derive(Debug)]
pub(super) struct Outgoing {
    reading: u64,
    number: u64,
    /// What may be said in all.
    room: u64,
    /// What was said.
    cost: u64,
    waiting: VecDeque<LogSaid>,
    waiting_cost: u64,
    /// Lines are left out until half of what waits is said.
    drops: bool,
}

impl Outgoing {
    /// Of a reading with this much room to begin with.
    pub(super) fn new(reading: u64, room: u64) -> Self {
        Self {
            reading,
            number: 0,
            room,
            cost: 0,
            waiting: VecDeque::new(),
            waiting_cost: 0,
            drops: false,
        }
    }

    /// There is so much room in all. Never less than before: what was said was said.
    pub(super) fn give(&mut self, room: u64) {
        self.room = self.room.max(room);
    }

    /// Whether as much waits as may.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_cost >= ROOM
    }

    /// From now on lines are left out, until half of what waits is said.
    pub(super) fn drop_lines(&mut self) {
        self.drops = true;
    }

    /// Whether lines are left out.
    pub(super) fn drops(&self) -> bool {
        self.drops
    }

    /// A line more, or one that is left out.
    pub(super) fn push(&mut self, line: LogSaid) {
        if !self.drops {
            self.wait(line);
        } else if let Some(LogSaid::Dropped(lines)) = self.waiting.back_mut() {
            *lines = lines.saturating_add(1);
        } else {
            self.wait(LogSaid::Dropped(1));
        }
    }

    fn wait(&mut self, said: LogSaid) {
        self.waiting_cost = self.waiting_cost.saturating_add(said.cost());
        self.waiting.push_back(said);
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a part is as large as it gets.
    pub(super) fn fills_a_part(&self) -> bool {
        self.waiting_cost >= PART
    }

    /// The next part, if anything waits that there is room for.
    pub(super) fn part(&mut self) -> Option<LogPart> {
        let (mut said, mut cost) = (Vec::new(), 0_u64);
        while let Some(next) = self.waiting.front() {
            let more = cost.saturating_add(next.cost());
            if more > PART || self.cost.saturating_add(more) > self.room {
                break;
            }
            cost = more;
            said.extend(self.waiting.pop_front());
        }
        if said.is_empty() {
            return None;
        }
        self.waiting_cost = self.waiting_cost.saturating_sub(cost);
        self.cost = self.cost.saturating_add(cost);
        if self.waiting_cost < ROOM / 2 {
            self.drops = false;
        }
        Some(self.next(said, None))
    }

    /// A part that says only that it is still read.
    pub(super) fn sign_of_life(&mut self) -> LogPart {
        self.next(Vec::new(), None)
    }

    /// The last part.
    pub(super) fn end(&mut self, end: LogEnd) -> LogPart {
        self.next(Vec::new(), Some(end))
    }

    fn next(&mut self, said: Vec<LogSaid>, end: Option<LogEnd>) -> LogPart {
        self.number = self.number.saturating_add(1);
        LogPart {
            reading: self.reading,
            number: self.number,
            cost: self.cost,
            said,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(bytes: usize) -> LogSaid {
        LogSaid::Line {
            bytes: vec![b'x'; bytes],
            cut: false,
        }
    }

    fn lines(parts: &[LogPart]) -> u64 {
        let said = parts.iter().flat_map(|part| &part.said);
        said.map(|said| match said {
            LogSaid::Line { .. } => 1,
            LogSaid::Dropped(lines) => *lines,
        })
        .sum()
    }

    proptest! {
        /// Whatever is written and however it is read: nothing is said that there is no room for, little waits, and each
        /// line is said or counted.
        #[test]
        fn every_line_is_said_or_counted_and_never_more_waits_than_may(
            steps in prop::collection::vec((0_usize..20_000, 0_u64..3, any::<bool>()), 1..200),
        ) {
            let (mut room, mut pushed, mut parts) = (ROOM, 0, Vec::new());
            let mut outgoing = Outgoing::new(1, room);
            for (bytes, reads, drops) in steps {
                if drops {
                    outgoing.drop_lines();
                }
                if !outgoing.is_full() || outgoing.drops() {
                    outgoing.push(line(bytes));
                    pushed += 1;
                }
                for _ in 0..reads {
                    room += 10_000;
                    outgoing.give(room);
                    parts.extend(outgoing.part());
                }
                prop_assert!(outgoing.waiting_cost <= ROOM + 20_016 + 16, "{}", outgoing.waiting_cost);
                prop_assert!(outgoing.cost <= room);
            }
            outgoing.give(u64::MAX);
            while let Some(part) = outgoing.part() {
                parts.push(part);
            }
            prop_assert_eq!(lines(&parts), pushed);
            for (part, number) in parts.iter().zip(1..) {
                prop_assert_eq!(part.number, number);
                let cost: u64 = part.said.iter().map(LogSaid::cost).sum();
                prop_assert!(cost <= PART);
            }
        }
    }

    #[test]
    fn what_is_left_out_is_counted_where_it_was_and_ends_when_there_is_room_again() {
        let mut outgoing = Outgoing::new(1, 0);
        while !outgoing.is_full() {
            outgoing.push(line(16_000));
        }
        outgoing.drop_lines();
        outgoing.push(line(1));
        outgoing.push(line(1));
        assert_eq!(outgoing.part(), None, "there is no room");
        outgoing.give(ROOM);
        while outgoing.part().is_some() {}
        assert!(!outgoing.drops());
        outgoing.push(line(2));
        outgoing.give(2 * ROOM);
        let last = outgoing.part().unwrap().said;
        let last: Vec<LogSaid> = last.into_iter().rev().take(2).collect();
        assert_eq!(last, [line(2), LogSaid::Dropped(2)]);
    }

    #[test]
    fn room_that_was_given_is_not_taken_back() {
        let mut outgoing = Outgoing::new(1, 100);
        outgoing.give(10);
        outgoing.push(line(50));
        assert!(outgoing.part().is_some());
    }
}
