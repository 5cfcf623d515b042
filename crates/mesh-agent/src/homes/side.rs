//! One bus a node is on: dialled until it is there, and shown the node's reports until it has one.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_bus::{BusError, Link, NodeBus, NodeEvent, NodeSettlement};
use mesh_model::Generation;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::disk::PlaceFiles;
use crate::memory::with_causes;
use crate::{Dial, Place};

/// A bus the node is on, or is getting onto. Dropped, it is left.
pub(super) struct Side<N: NodeBus> {
    /// Tells it from every other there was.
    pub(super) id: u64,
    pub(super) place: Place,
    state: Arc<State<N>>,
    /// They end with it.
    tasks: JoinSet<()>,
}

struct State<N: NodeBus> {
    node: watch::Sender<Option<Arc<N>>>,
    link: Mutex<Option<Link>>,
    heard: Mutex<Option<Generation>>,
    proof: Mutex<Proof<N::Receipt>>,
    owes: Notify,
    /// The last report this bus took of those it was owed.
    taken: watch::Sender<u64>,
    /// It is home: it has nothing to prove.
    home: AtomicBool,
}

/// What shows that the node is heard on a bus it was offered.
struct Proof<R> {
    given: bool,
    /// The newest report this bus is to take, and its number.
    owed: Option<(u64, Vec<u8>)>,
    numbers: u64,
    /// Declarations that came over it, settled once the proof is given: a bus that forgot them could not have the node
    /// try again after a restart.
    held: Vec<R>,
}

impl<N: NodeBus> Side<N> {
    /// A bus the node is on.
    pub(super) fn on(id: u64, place: Place, node: N) -> Self {
        Self::begin(id, place, Some(Arc::new(node)))
    }

    /// A bus the node is to get onto; where it is is put on disk first, if it is not there.
    pub(super) fn towards<D: Dial<Node = N>>(
        id: u64,
        place: Place,
        dial: Arc<D>,
        keep: Option<(PlaceFiles, u64)>,
    ) -> Self {
        let mut side = Self::begin(id, place, None);
        let (place, state) = (side.place.clone(), Arc::clone(&side.state));
        side.tasks.spawn(async move {
            if let Some((files, turn)) = keep {
                persist(&files, &place, turn).await;
            }
            let node = connected(dial.as_ref(), &place).await;
            state.node.send_replace(Some(Arc::new(node)));
        });
        side
    }

    fn begin(id: u64, place: Place, node: Option<Arc<N>>) -> Self {
        let state = Arc::new(State {
            node: watch::Sender::new(node),
            link: Mutex::default(),
            heard: Mutex::default(),
            proof: Mutex::new(Proof {
                given: false,
                owed: None,
                numbers: 0,
                held: Vec::new(),
            }),
            owes: Notify::new(),
            taken: watch::Sender::new(0),
            home: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(prove(Arc::clone(&state)));
        Self {
            id,
            place,
            state,
            tasks,
        }
    }

    /// Whatever the node hears here. May be dropped.
    pub(super) async fn next(&self) -> NodeEvent<N::Receipt> {
        self.state.node().await.next().await
    }

    /// What the node is asked here. May be dropped.
    pub(super) async fn asked(&self) -> Vec<u8> {
        self.state.node().await.asked().await
    }

    /// What it is connected by, if it is dialled.
    pub(super) fn node(&self) -> Option<Arc<N>> {
        self.state.node.borrow().clone()
    }

    /// The same, or that there is nothing yet.
    pub(super) fn dialled(&self) -> Result<Arc<N>, BusError> {
        let bus = self.place.bus;
        self.node()
            .ok_or_else(|| BusError::Away(format!("the bus {bus} is not reached yet")))
    }

    /// It is home from now on.
    pub(super) fn is_home_now(&self) {
        self.state.home.store(true, Ordering::Release);
    }

    pub(super) fn link(&self) -> Option<Link> {
        *locked(&self.state.link)
    }

    pub(super) fn linked(&self, link: Link) {
        *locked(&self.state.link) = Some(link);
    }

    /// A declaration the controller signed came over it.
    pub(super) fn heard(&self, generation: Generation) {
        let mut heard = locked(&self.state.heard);
        *heard = (*heard).max(Some(generation));
    }

    /// The newest declaration that came over it.
    pub(super) fn newest_heard(&self) -> Option<Generation> {
        *locked(&self.state.heard)
    }

    /// Settles a declaration that came over it.
    pub(super) async fn settle(
        &self,
        receipt: &N::Receipt,
        how: NodeSettlement,
    ) -> Result<(), BusError> {
        if how == NodeSettlement::Done && !self.state.home.load(Ordering::Acquire) {
            let mut proof = locked(&self.state.proof);
            if !proof.given {
                proof.held.push(receipt.clone());
                return Ok(());
            }
        }
        self.dialled()?.settle(receipt, how).await
    }

    /// Has this bus take a report, in place of one it has not taken, and however long that takes. Answers its number.
    pub(super) fn owe(&self, body: Vec<u8>) -> u64 {
        let mut proof = locked(&self.state.proof);
        proof.numbers += 1;
        let number = proof.numbers;
        proof.owed = Some((number, body));
        self.state.owes.notify_one();
        number
    }

    /// Returns when it has taken the report of this number. May be dropped.
    pub(super) async fn took(&self, number: u64) {
        let mut taken = self.state.taken.subscribe();
        if taken.wait_for(|taken| *taken == number).await.is_err() {
            pending::<()>().await;
        }
    }
}

impl<N: NodeBus> State<N> {
    async fn node(&self) -> Arc<N> {
        let mut dialled = self.node.subscribe();
        let node = dialled.wait_for(Option::is_some).await;
        match node.ok().and_then(|node| node.clone()) {
            Some(node) => node,
            None => pending().await,
        }
    }
}

/// Has where a bus is on disk, before anybody can be heard there.
async fn persist(files: &PlaceFiles, place: &Place, turn: u64) {
    loop {
        let (files, kept) = (files.clone(), place.clone());
        let why = match spawn_blocking(move || files.offer(&kept, turn)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => with_causes(&error),
            Err(ended) => ended.to_string(),
        };
        tracing::error!(bus = %place.bus, why, "where an offered bus is cannot be put on disk, so this node does not go there; it is tried again");
        sleep(AGAIN).await;
    }
}

/// Connects, however long that takes.
async fn connected<D: Dial>(dial: &D, place: &Place) -> D::Node {
    let mut said = false;
    loop {
        match dial.dial(place).await {
            Ok(node) => return node,
            Err(error) if said => {
                tracing::debug!(bus = %place.bus, error = with_causes(&error), "still no connection");
            }
            Err(error) => {
                said = true;
                tracing::error!(bus = %place.bus, error = with_causes(&error), "this bus cannot be connected to; it is tried again and again");
            }
        }
        sleep(AGAIN).await;
    }
}

/// Has the bus take what it is owed, and then settles what waited for that.
async fn prove<N: NodeBus>(state: Arc<State<N>>) {
    loop {
        let owed = locked(&state.proof).owed.clone();
        let Some((number, body)) = owed else {
            state.owes.notified().await;
            continue;
        };
        let node = state.node().await;
        if let Err(error) = node.report(body).await {
            tracing::debug!(%error, "an offered bus does not take a report yet");
            sleep(AGAIN).await;
            continue;
        }
        let held = {
            let mut proof = locked(&state.proof);
            if proof.owed.as_ref().is_some_and(|(owed, _)| *owed == number) {
                proof.owed = None;
            }
            proof.given = true;
            std::mem::take(&mut proof.held)
        };
        state.taken.send_replace(number);
        for receipt in held {
            if let Err(error) = node.settle(&receipt, NodeSettlement::Done).await {
                tracing::debug!(%error, "a declaration comes once more");
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until something that did not work is tried again.
const AGAIN: Duration = Duration::from_secs(2);
