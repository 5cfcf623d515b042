//! A node's side: it says of its modules' logs what the controller asks for, beside the agent's loop and never in its way.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use mesh_model::{ModuleName, NodeName, Timestamp};
use mesh_wire::{Ask, Asked, LogEnd, LogPart, LogSaid, SignedKind, decode_ask, encode_log_part};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::outgoing::Outgoing;
use super::{FRESH, LEASE, LOG_LINE};
use crate::ended::came_to_its_end;
use crate::seam::NodeBus;
use crate::signing::Verifier;

/// Lines of a log, the oldest first: bytes without what ended the line, of which [`LOG_LINE`] are passed on. An error is
/// the last.
pub type LogLines = BoxStream<'static, Result<Vec<u8>, String>>;

/// Why a log is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoLog {
    /// There is none of this module here.
    #[error("the module has no log on this node")]
    NotHere,
    /// It cannot be read.
    #[error("{0}")]
    Failed(String),
}

/// The logs of a host's modules.
pub trait LogSource: Send + Sync + 'static {
    /// Reads one: so many of its last lines, and what is written from now on if it is followed.
    fn read(
        &self,
        module: &ModuleName,
        tail: u32,
        follow: bool,
    ) -> impl Future<Output = Result<LogLines, NoLog>> + Send;
}

/// Answers what this node is asked until it is dropped; then nothing of it goes on.
pub async fn answer_asks<B: NodeBus, S: LogSource>(
    bus: Arc<B>,
    source: S,
    node: NodeName,
    verifier: Verifier,
    clock: fn() -> Timestamp,
) {
    let mut answering = Answering {
        bus,
        source: Arc::new(source),
        node,
        verifier,
        clock,
        readings: BTreeMap::new(),
        over: VecDeque::new(),
        tasks: JoinSet::new(),
    };
    let bus = Arc::clone(&answering.bus);
    loop {
        tokio::select! {
            body = bus.asked() => answering.asked(&body),
            Some(ended) = answering.tasks.join_next() => {
                if let Some(reading) = came_to_its_end(ended) {
                    answering.readings.remove(&reading);
                }
            }
        }
    }
}

/// What the controller last said of a reading.
#[derive(Debug, Clone, Copy)]
struct Standing {
    at: Timestamp,
    room: u64,
    until: Instant,
    enough: bool,
}

struct Answering<B, S> {
    bus: Arc<B>,
    source: Arc<S>,
    node: NodeName,
    verifier: Verifier,
    clock: fn() -> Timestamp,
    readings: BTreeMap<u64, watch::Sender<Standing>>,
    /// Readings that were begun: one that is asked for again begins nothing.
    over: VecDeque<u64>,
    /// Each answers which reading it was.
    tasks: JoinSet<u64>,
}

impl<B: NodeBus, S: LogSource> Answering<B, S> {
    /// Only what the controller signed, asks this node, and is not of long ago is acted upon.
    fn asked(&mut self, body: &[u8]) {
        let ask = match self.verifier.open(SignedKind::Ask, body) {
            Ok(body) => decode_ask(&body).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let ask = ask.and_then(|ask| match self.refusal(&ask) {
            Some(why) => Err(why.to_owned()),
            None => Ok(ask),
        });
        match ask {
            Ok(ask) => self.carry_out(ask),
            Err(why) => tracing::warn!(why, "what this node was asked is not answered"),
        }
    }

    fn refusal(&self, ask: &Ask) -> Option<&'static str> {
        let (now, at) = ((self.clock)(), ask.at);
        let fresh = u64::try_from(FRESH.as_millis()).unwrap_or(u64::MAX);
        if ask.node != self.node {
            return Some("another node is asked");
        }
        let differs = now.since(at).max(at.since(now));
        (differs > fresh).then_some("it was asked long ago, or the clocks differ")
    }

    fn carry_out(&mut self, ask: Ask) {
        let reading = ask.reading;
        if let Some(standing) = self.readings.get(&reading) {
            standing.send_if_modified(|standing| standing.hear(&ask));
            return;
        }
        match ask.what {
            Asked::Log {
                module,
                tail,
                follow,
                room,
            } if !self.over.contains(&reading) => {
                self.over.push_back(reading);
                if self.over.len() > REMEMBERED {
                    self.over.pop_front();
                }
                if self.readings.len() >= READINGS {
                    return self.end(reading, LogEnd::TooMany);
                }
                let standing = Standing {
                    at: ask.at,
                    room,
                    until: Instant::now() + LEASE,
                    enough: false,
                };
                let (says, hears) = watch::channel(standing);
                self.readings.insert(reading, says);
                let (bus, source) = (Arc::clone(&self.bus), Arc::clone(&self.source));
                self.tasks.spawn(async move {
                    let read = source.read(&module, tail, follow);
                    answer(&*bus, read, reading, follow, hears).await;
                    reading
                });
            }
            Asked::More { .. } => self.end(reading, LogEnd::Unknown),
            Asked::Log { .. } | Asked::Enough => {}
        }
    }

    /// Says no more than that a reading is over.
    fn end(&mut self, reading: u64, end: LogEnd) {
        // As many as are read at once, and as many again that are not to be.
        if self.tasks.len() >= 2 * READINGS {
            return;
        }
        let bus = Arc::clone(&self.bus);
        self.tasks.spawn(async move {
            say(&*bus, &Outgoing::new(reading, 0).end(end)).await;
            // No reading has this number.
            u64::MAX
        });
    }
}

impl Standing {
    /// Whether an ask says anything new. One that was said before, or is older, does not.
    fn hear(&mut self, ask: &Ask) -> bool {
        if ask.at <= self.at {
            return false;
        }
        self.at = ask.at;
        match ask.what {
            Asked::More { room } => {
                self.room = self.room.max(room);
                self.until = Instant::now() + LEASE;
            }
            Asked::Enough => self.enough = true,
            Asked::Log { .. } => return false,
        }
        true
    }
}

/// Says a log until it ends, nobody reads it any more, or nobody says that he does.
async fn answer<B: NodeBus>(
    bus: &B,
    read: impl Future<Output = Result<LogLines, NoLog>>,
    reading: u64,
    follow: bool,
    mut hears: watch::Receiver<Standing>,
) {
    let room = hears.borrow().room;
    let mut outgoing = Outgoing::new(reading, room);
    let lines = match timeout(OPENED_WITHIN, read).await {
        Ok(Ok(lines)) => lines,
        Ok(Err(NoLog::NotHere)) => return say(bus, &outgoing.end(LogEnd::NotHere)).await,
        Ok(Err(NoLog::Failed(why))) => return say(bus, &outgoing.end(LogEnd::Failed(why))).await,
        Err(_late) => {
            let why = "it was not opened in time".to_owned();
            return say(bus, &outgoing.end(LogEnd::Failed(why))).await;
        }
    };
    // The first says that the node is there, however long it takes until there is a line.
    say(bus, &outgoing.sign_of_life()).await;
    let mut saying = Saying {
        outgoing,
        lines: lines.fuse(),
        follow,
        full_since: None,
        ended: None,
    };
    loop {
        if let Some(part) = saying.next_part() {
            say(bus, &part).await;
            continue;
        }
        if let Some(end) = saying.over() {
            return say(bus, &saying.outgoing.end(end)).await;
        }
        let until = hears.borrow().until;
        tokio::select! {
            biased;
            heard = hears.changed() => {
                let standing = *hears.borrow_and_update();
                if heard.is_err() || standing.enough {
                    return;
                }
                saying.outgoing.give(standing.room);
                say(bus, &saying.outgoing.sign_of_life()).await;
            }
            () = sleep_until(until) => return,
            () = saying.take() => {}
        }
    }
}

/// A log that is being said.
struct Saying {
    outgoing: Outgoing,
    lines: futures_util::stream::Fuse<LogLines>,
    follow: bool,
    /// Since when as much waits as may.
    full_since: Option<Instant>,
    ended: Option<LogEnd>,
}

impl Saying {
    /// The next part, once it is as large as it gets or no line is ready.
    fn next_part(&mut self) -> Option<LogPart> {
        while !self.outgoing.fills_a_part() && self.ended.is_none() {
            match self.lines.next().now_or_never() {
                Some(line) => self.line(line),
                None => break,
            }
        }
        self.outgoing.part()
    }

    /// Why there is nothing more, once all is said.
    fn over(&self) -> Option<LogEnd> {
        self.ended.clone().filter(|_| self.outgoing.is_empty())
    }

    /// Takes a line, when there is one and it may wait. May be dropped.
    async fn take(&mut self) {
        if self.ended.is_some() {
            return std::future::pending().await;
        }
        if !self.outgoing.is_full() {
            self.full_since = None;
        } else if !self.outgoing.drops() {
            // What is read to its end waits for its reader. What is written on and on does so for a while, and then is
            // left out: it would be all the staler.
            if !self.follow {
                return std::future::pending().await;
            }
            let since = *self.full_since.get_or_insert_with(Instant::now);
            sleep_until(since + STALLED).await;
            self.full_since = None;
            self.outgoing.drop_lines();
        }
        let line = self.lines.next().await;
        self.line(line);
    }

    fn line(&mut self, line: Option<Result<Vec<u8>, String>>) {
        match line {
            Some(Ok(mut bytes)) => {
                let cut = bytes.len() > LOG_LINE;
                bytes.truncate(LOG_LINE);
                self.outgoing.push(LogSaid::Line { bytes, cut });
            }
            Some(Err(why)) => self.ended = Some(LogEnd::Failed(why)),
            None => self.ended = Some(LogEnd::Whole),
        }
    }
}

/// Whatever the bus does not take is lost: who reads sees by its number that it is missing.
async fn say<B: NodeBus>(bus: &B, part: &LogPart) {
    let said = timeout(SAID_WITHIN, bus.say_log(encode_log_part(part))).await;
    if let Ok(Err(error)) = said {
        tracing::debug!(%error, "some of a log was not said");
    }
}

/// Readings at once.
const READINGS: usize = 8;
/// Readings that were begun and are remembered, so that none is begun twice.
const REMEMBERED: usize = 1024;
const OPENED_WITHIN: Duration = Duration::from_secs(5);
const SAID_WITHIN: Duration = Duration::from_secs(5);
/// How long lines that are followed wait for their reader before some are left out.
const STALLED: Duration = Duration::from_millis(500);
