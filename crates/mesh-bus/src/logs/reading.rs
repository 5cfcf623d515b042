//! One reading of a node's log, at the controller: asked for, given room as it is read, renewed, and ended with its reader.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mesh_model::{ModuleName, NodeName, Timestamp};
use mesh_wire::{Asked, LogEnd, LogPart, LogSaid};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::desk::{Inner, Place};
use super::{RENEWED_EACH, ROOM};
use crate::seam::{BusError, ControllerBus};

/// What is read of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// What the node said.
    Said(LogSaid),
    /// Some of it was lost on its way, nobody knows how much.
    Lost,
    /// There is no more.
    End(ReadEnd),
}

/// Why nothing more is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadEnd {
    /// The node says so.
    Said(LogEnd),
    /// The node does not answer.
    NoAnswer,
    /// The node answered, and does not any more.
    Silent,
    /// It could not be asked.
    Bus(BusError),
    /// This controller stops.
    Stopping,
}

/// A log that is being read. Dropped, the node is told that nobody reads it any more.
#[derive(Debug)]
pub struct Reading(pub(super) mpsc::Receiver<Read>);

impl Reading {
    /// Waits for what is read next; nothing after the end. May be dropped.
    pub async fn next(&mut self) -> Option<Read> {
        self.0.recv().await
    }
}

/// What came and is not read yet.
#[derive(Debug)]
struct Incoming {
    number: u64,
    /// What the node has said.
    cost: u64,
    /// What it may have said.
    given: u64,
    waiting: VecDeque<Read>,
    waiting_cost: u64,
    /// The node knows nothing of it any more.
    over: bool,
}

impl Incoming {
    fn new() -> Self {
        Self {
            number: 0,
            cost: 0,
            given: ROOM,
            waiting: VecDeque::new(),
            waiting_cost: 0,
            over: false,
        }
    }

    /// Takes a part. One that came before is nothing new, and one for which there was no room is not looked at.
    fn take(&mut self, part: LogPart) {
        if part.number <= self.number {
            return;
        }
        let costs = part.said.iter().map(LogSaid::cost);
        let costs = costs.fold(0, u64::saturating_add);
        let least = self.cost.saturating_add(costs);
        if part.cost < least || part.cost > self.given {
            self.lose();
            return;
        }
        if part.number > self.number.saturating_add(1) {
            self.lose();
        }
        (self.number, self.cost) = (part.number, part.cost);
        self.waiting_cost = self.waiting_cost.saturating_add(costs);
        self.waiting.extend(part.said.into_iter().map(Read::Said));
        if let Some(end) = part.end {
            self.waiting.push_back(Read::End(ReadEnd::Said(end)));
        }
    }

    fn lose(&mut self) {
        if self.waiting.back() != Some(&Read::Lost) {
            self.waiting.push_back(Read::Lost);
        }
    }

    fn pop(&mut self) -> Option<Read> {
        let read = self.waiting.pop_front()?;
        if let Read::Said(said) = &read {
            self.waiting_cost = self.waiting_cost.saturating_sub(said.cost());
        }
        Some(read)
    }

    /// What may have been said in all, now that so much is read.
    fn room(&self) -> u64 {
        let read = self.cost.saturating_sub(self.waiting_cost);
        read.saturating_add(ROOM)
    }

    /// Whether it is worth telling.
    fn has_more_room(&self) -> bool {
        !self.over && self.room() >= self.given.saturating_add(ROOM / 2)
    }
}

/// What is read, and for whom.
pub(super) struct Job<B> {
    pub(super) desk: Arc<Inner<B>>,
    pub(super) place: Place,
    pub(super) node: NodeName,
    pub(super) module: ModuleName,
    pub(super) tail: u32,
    pub(super) follow: bool,
    pub(super) out: mpsc::Sender<Read>,
    pub(super) stopping: watch::Receiver<bool>,
    /// When it was asked last.
    pub(super) asked: Timestamp,
}

impl<B: ControllerBus> Job<B> {
    pub(super) async fn run(mut self) {
        let mut incoming = Incoming::new();
        if let Err(error) = self.begin(self.tail).await {
            incoming.waiting.push_back(Read::End(ReadEnd::Bus(error)));
        }
        let (out, mut stopping) = (self.out.clone(), self.stopping.clone());
        let mut heard = None;
        let mut silent = Instant::now() + ANSWERED_WITHIN;
        let mut begun = Instant::now();
        let mut renewed = interval_at(Instant::now() + RENEWED_EACH, RENEWED_EACH);
        renewed.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let ended = matches!(incoming.waiting.back(), Some(Read::End(_)));
            tokio::select! {
                biased;
                () = out.closed() => return self.ask(Asked::Enough).await,
                permit = out.reserve(), if !incoming.waiting.is_empty() => {
                    let (Ok(permit), Some(read)) = (permit, incoming.pop()) else { continue };
                    let is_last = matches!(read, Read::End(_));
                    permit.send(read);
                    if is_last {
                        return;
                    }
                    if !ended && incoming.has_more_room() {
                        self.give(&mut incoming).await;
                    }
                }
                // Begun anew it is given room anew, so not before what waits is read, nor time and again.
                () = sleep_until(begun + RENEWED_EACH), if incoming.over && incoming.waiting.is_empty() => {
                    self.again(&mut incoming).await;
                    begun = Instant::now();
                    (heard, silent) = (None, begun + ANSWERED_WITHIN);
                    renewed.reset();
                }
                Some(part) = self.place.parts.recv(), if !ended => {
                    if !incoming.over {
                        let now = Instant::now();
                        (heard, silent) = (Some(now), now + SILENT_AFTER);
                        self.hear(&mut incoming, part);
                    }
                }
                _ = renewed.tick(), if !ended && !incoming.over => self.give(&mut incoming).await,
                () = sleep_until(silent), if !ended && !incoming.over => {
                    let end = heard.map_or(ReadEnd::NoAnswer, |_| ReadEnd::Silent);
                    incoming.waiting.push_back(Read::End(end));
                    self.ask(Asked::Enough).await;
                }
                () = stops(&mut stopping), if !ended => {
                    incoming.waiting.push_back(Read::End(ReadEnd::Stopping));
                    self.ask(Asked::Enough).await;
                }
            }
        }
    }

    async fn begin(&mut self, tail: u32) -> Result<(), BusError> {
        let what = Asked::Log {
            module: self.module.clone(),
            tail,
            follow: self.follow,
            room: ROOM,
        };
        self.asked_for(what).await
    }

    fn hear(&self, incoming: &mut Incoming, part: LogPart) {
        if part.end == Some(LogEnd::Unknown) && self.follow {
            // What is written until it is begun anew is not read.
            incoming.lose();
            incoming.over = true;
            return;
        }
        if self.place.missed() {
            incoming.lose();
        }
        incoming.take(part);
    }

    /// The node knows nothing of it any more, so it is begun anew with what is written from now on.
    async fn again(&mut self, incoming: &mut Incoming) {
        self.place = self.desk.place(&self.node);
        *incoming = Incoming::new();
        if let Err(error) = self.begin(0).await {
            incoming.waiting.push_back(Read::End(ReadEnd::Bus(error)));
        }
    }

    /// Says that it is read, and what room there is for more.
    async fn give(&mut self, incoming: &mut Incoming) {
        incoming.given = incoming.given.max(incoming.room());
        let room = incoming.given;
        self.ask(Asked::More { room }).await;
    }

    /// An ask that is lost is made up for by the next.
    async fn ask(&mut self, what: Asked) {
        if let Err(error) = self.asked_for(what).await {
            tracing::debug!(node = %self.node, %error, "a node could not be told how its log is read");
        }
    }

    async fn asked_for(&mut self, what: Asked) -> Result<(), BusError> {
        let (desk, last) = (Arc::clone(&self.desk), self.asked);
        self.asked = desk.now_after(last);
        let (at, reading) = (self.asked, self.place.reading);
        desk.ask(&self.node, at, reading, what).await
    }
}

async fn stops(stopping: &mut watch::Receiver<bool>) {
    // With nobody left to say so it is the end, too.
    let _end = stopping.wait_for(|stopping| *stopping).await;
}

/// How long a node may take to say that it is there.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// After how long it is given up: it answers each time it is told that it is still read.
const SILENT_AFTER: Duration = Duration::from_secs(25);

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: usize) -> LogSaid {
        LogSaid::Line {
            bytes: vec![b'x'; bytes],
            cut: false,
        }
    }

    fn part(number: u64, cost: u64, said: Vec<LogSaid>) -> LogPart {
        LogPart {
            reading: 1,
            number,
            cost,
            said,
            end: None,
        }
    }

    #[test]
    fn what_came_before_is_nothing_new_and_what_is_missing_is_said_once() {
        let mut incoming = Incoming::new();
        for (number, cost) in [(1, 17), (1, 17), (4, 68), (5, 85)] {
            incoming.take(part(number, cost, vec![line(1)]));
        }
        let said = || Read::Said(line(1));
        let read: Vec<Read> = std::iter::from_fn(|| incoming.pop()).collect();
        assert_eq!(read, [said(), Read::Lost, said(), said()]);
        assert_eq!(incoming.room(), 85 + ROOM);
    }

    #[test]
    fn a_node_that_says_more_than_it_may_is_not_listened_to() {
        let mut incoming = Incoming::new();
        for hostile in [
            part(1, ROOM + 1, vec![line(1)]),
            part(1, 0, vec![line(1)]),
            part(1, u64::MAX, vec![]),
        ] {
            incoming.take(hostile);
        }
        assert_eq!(incoming.waiting, [Read::Lost]);
        let mut number = 0;
        for _ in 0..10_000 {
            number += 1;
            let cost = line(1000).cost() * number;
            incoming.take(part(number, cost, vec![line(1000)]));
        }
        assert!(incoming.waiting_cost <= ROOM, "{}", incoming.waiting_cost);
    }

    #[test]
    fn room_is_given_as_it_is_read() {
        let mut incoming = Incoming::new();
        let cost = line(10_000).cost();
        for number in 1..=20 {
            incoming.take(part(number, cost * number, vec![line(10_000)]));
        }
        assert!(!incoming.has_more_room());
        let mut read = 0;
        while !incoming.has_more_room() {
            assert!(incoming.pop().is_some());
            read += 1;
        }
        assert_eq!(read, (ROOM / 2).div_ceil(cost));
        assert_eq!(incoming.room(), ROOM + read * cost);
    }
}
