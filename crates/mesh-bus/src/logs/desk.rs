//! Where the controller keeps who reads which log: what nodes say is taken for readings there are, and for nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_derive::subject::{Heard, heard};
use mesh_model::{ModuleName, NodeName, Subject, Timestamp};
use mesh_wire::{Ask, Asked, LogPart, SignedKind, decode_log_part, encode_ask};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::PART_BYTES;
use super::reading::{Job, Reading};
use crate::ended::came_to_its_end;
use crate::seam::{BusError, ControllerBus};
use crate::signing::Signer;

/// As many logs are read as may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{READINGS} logs are read at once already; end one of them first")]
pub struct TooManyReadings;

/// The readings of a controller.
pub struct LogDesk<B> {
    inner: Arc<Inner<B>>,
    stopping: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

pub(super) struct Inner<B> {
    bus: Arc<B>,
    signer: Signer,
    clock: fn() -> Timestamp,
    seed: u64,
    readings: AtomicU64,
    open: Mutex<Open>,
}

/// Where what is said to each reading goes.
type Open = BTreeMap<u64, (NodeName, mpsc::Sender<LogPart>, Arc<AtomicBool>)>;

/// Where one reading hears what its node says. It is open until this is dropped.
pub(super) struct Place {
    pub(super) reading: u64,
    pub(super) parts: mpsc::Receiver<LogPart>,
    missed: Arc<AtomicBool>,
    close: Box<dyn Fn() + Send + Sync>,
}

impl Place {
    /// Whether something came that there was no place for, since it was asked last.
    pub(super) fn missed(&self) -> bool {
        self.missed.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.close)();
    }
}

impl<B: ControllerBus> LogDesk<B> {
    /// Over a bus. The numbers of its readings are drawn from the seed.
    pub fn new(bus: Arc<B>, signer: Signer, clock: fn() -> Timestamp, seed: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                bus,
                signer,
                clock,
                seed,
                readings: AtomicU64::new(0),
                open: Mutex::default(),
            }),
            stopping: watch::Sender::new(false),
            tasks: Mutex::default(),
        }
    }

    /// Hears what nodes say, until `stop` is ready; then all readings end.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        let hear = async {
            loop {
                let (subject, body) = self.inner.bus.log().await;
                self.inner.hear(&subject, &body);
            }
        };
        tokio::select! {
            () = stop => {}
            () = hear => {}
        }
        self.stopping.send_replace(true);
    }

    /// Reads a module's log on a node: so many of its last lines, and what is written from now on if it is followed.
    pub fn read(
        &self,
        node: NodeName,
        module: ModuleName,
        tail: u32,
        follow: bool,
    ) -> Result<Reading, TooManyReadings> {
        let mut tasks = locked(&self.tasks);
        while let Some(ended) = tasks.try_join_next() {
            came_to_its_end(ended);
        }
        if tasks.len() >= READINGS {
            return Err(TooManyReadings);
        }
        let (out, reading) = mpsc::channel(READ_AHEAD);
        let job = Job {
            place: self.inner.place(&node),
            desk: Arc::clone(&self.inner),
            node,
            module,
            tail,
            follow,
            out,
            stopping: self.stopping.subscribe(),
            asked: Timestamp::default(),
        };
        tasks.spawn(job.run());
        Ok(Reading(reading))
    }
}

impl<B: ControllerBus> Inner<B> {
    /// A new reading of what this node says.
    pub(super) fn place(self: &Arc<Self>, node: &NodeName) -> Place {
        let count = self.readings.fetch_add(1, Ordering::Relaxed);
        let reading = number(self.seed, count);
        let (says, parts) = mpsc::channel(PARTS_AHEAD);
        let missed = Arc::new(AtomicBool::new(false));
        let entry = (node.clone(), says, Arc::clone(&missed));
        locked(&self.open).insert(reading, entry);
        let inner = Arc::clone(self);
        Place {
            reading,
            parts,
            missed,
            close: Box::new(move || drop(locked(&inner.open).remove(&reading))),
        }
    }

    /// Whatever is not for an open reading of the very node that says it is dropped, and mostly unread.
    fn hear(&self, subject: &Subject, body: &[u8]) {
        let Some(Heard::Log(node)) = heard(subject) else {
            return;
        };
        let open = locked(&self.open);
        if body.len() > PART_BYTES || !open.values().any(|(of, ..)| *of == node) {
            return;
        }
        let part = match decode_log_part(body) {
            Ok(part) => part,
            Err(error) => {
                tracing::debug!(%node, %error, "some of a log is not understood");
                return;
            }
        };
        let Some((of, says, missed)) = open.get(&part.reading) else {
            return;
        };
        if *of == node && says.try_send(part).is_err() {
            missed.store(true, Ordering::Relaxed);
        }
    }

    /// What time it is, and later than this.
    pub(super) fn now_after(&self, last: Timestamp) -> Timestamp {
        (self.clock)().max(last.plus(1))
    }

    pub(super) async fn ask(
        &self,
        node: &NodeName,
        at: Timestamp,
        reading: u64,
        what: Asked,
    ) -> Result<(), BusError> {
        let ask = Ask {
            node: node.clone(),
            at,
            reading,
            what,
        };
        let body = self.signer.seal(SignedKind::Ask, &encode_ask(&ask));
        self.bus.ask(node, body).await
    }
}

/// A number no other reading has, also of another controller: what `splitmix64` makes of a seed and a count.
fn number(seed: u64, count: u64) -> u64 {
    let mixed = seed.wrapping_add(count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B> fmt::Debug for LogDesk<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogDesk").finish_non_exhaustive()
    }
}

/// Logs read at once.
const READINGS: usize = 64;
/// Parts that came and were not looked at, before some are missed: what a node may say is limited by its room.
const PARTS_AHEAD: usize = 64;
/// Lines that wait for a reader who reads.
const READ_AHEAD: usize = 16;
