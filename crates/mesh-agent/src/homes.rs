//! The buses a node is on: the one at home, and at most one it was offered. To the agent they are one bus.
//!
//! What is heard comes from either. Reports and signs of life go over both, and one that takes them is enough; but a
//! bus that was offered is shown the node's reports until it has taken one, since that is what proves that the node is
//! heard there. That one of the two is cut off while the other works is no fault: so ends a move.

mod decide;
mod disk;
mod side;

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_auth::keys::BoxKey;
use mesh_bus::{BusError, Link, NodeBus, NodeEvent, NodeSettlement};
use mesh_model::{Declaration, Generation, Home, NodeName, Offer};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub(crate) use disk::read as read_place;
pub use disk::{Kept, PlaceError, PlaceFiles, forget_moves};

use crate::dial::with;
use crate::memory::with_causes;
use crate::{Dial, DialError, Place, Surroundings};
use decide::{Standing, Step, decide};
use side::Side;

/// What the buses of a node are made of.
#[derive(Debug)]
pub struct HomesParts<D> {
    /// Connects to them.
    pub dial: D,
    /// The node.
    pub node: NodeName,
    /// What opens the secrets it is offered.
    pub box_key: BoxKey,
    /// Where it keeps where they are.
    pub files: PlaceFiles,
    /// Its bus.
    pub home: Place,
    /// The one it was offered, as it is on disk.
    pub offered: Option<Place>,
    /// What modules are told; it follows the node.
    pub surroundings: watch::Sender<Surroundings>,
}

/// The buses of a node, as one.
pub struct Homes<D: Dial> {
    dial: Arc<D>,
    node: NodeName,
    box_key: BoxKey,
    files: PlaceFiles,
    sides: Mutex<Sides<D::Node>>,
    /// Turns over when there are other sides than before.
    changed: watch::Sender<u64>,
    surroundings: watch::Sender<Surroundings>,
    /// The newest declaration that was followed; held while it is.
    newest: tokio::sync::Mutex<Option<Generation>>,
}

struct Sides<N: NodeBus> {
    home: Arc<Side<N>>,
    offered: Option<Arc<Side<N>>>,
    /// What the agent was last told of the link, and over which side it held.
    said: Option<(Link, u64)>,
    ids: u64,
}

/// The bus at home, and the one that is offered.
type Both<N> = (Arc<Side<N>>, Option<Arc<Side<N>>>);

/// What settling a declaration takes: the side it came over, and that side's own.
#[derive(Debug, Clone)]
pub struct HomesReceipt<R> {
    side: u64,
    receipt: R,
}

impl<D: Dial> Homes<D> {
    /// Connects. A home that cannot be connected to is an error only where there is no other.
    pub async fn open(parts: HomesParts<D>) -> Result<Self, DialError> {
        let dial = Arc::new(parts.dial);
        let home = match dial.dial(&parts.home).await {
            Ok(node) => Side::on(HOME, parts.home, node),
            Err(error) if parts.offered.is_none() => return Err(error),
            Err(_) => Side::towards(HOME, parts.home, Arc::clone(&dial), None),
        };
        home.is_home_now();
        let towards = |place| Side::towards(HOME + 1, place, Arc::clone(&dial), None);
        let sides = Sides {
            home: Arc::new(home),
            offered: parts.offered.map(towards).map(Arc::new),
            said: None,
            ids: HOME + 1,
        };
        Ok(Self {
            dial,
            node: parts.node,
            box_key: parts.box_key,
            files: parts.files,
            sides: Mutex::new(sides),
            changed: watch::Sender::new(0),
            surroundings: parts.surroundings,
            newest: tokio::sync::Mutex::default(),
        })
    }

    fn sides(&self) -> MutexGuard<'_, Sides<D::Node>> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn both(&self) -> Both<D::Node> {
        let sides = self.sides();
        (Arc::clone(&sides.home), sides.offered.clone())
    }

    fn hear(
        &self,
        side: &Side<D::Node>,
        event: NodeEvent<<D::Node as NodeBus>::Receipt>,
    ) -> Option<NodeEvent<<Self as NodeBus>::Receipt>> {
        let mut sides = self.sides();
        match event {
            NodeEvent::Link(link) => {
                side.linked(link);
                // It was lost and reached again in one, which is news of its own.
                let again = link == Link::Up && side.id == sides.ear().id;
                let said = sides.link_said();
                said.or_else(|| again.then_some(NodeEvent::Link(Link::Up)))
            }
            NodeEvent::Idle if side.id != sides.ear().id => None,
            NodeEvent::Denied(why) if side.id != sides.ear().id => {
                // Left behind, or not reached yet: at home it hears as before.
                tracing::debug!(
                    why,
                    "a bus that is not its home does not let this node listen"
                );
                None
            }
            event => Some(with(event, |receipt| HomesReceipt {
                side: side.id,
                receipt,
            })),
        }
    }

    fn take_offer(&self, offer: &Offer) {
        match Place::of_offer(offer, &self.box_key) {
            Ok(place) => self.take(place),
            Err(error) => {
                let error = with_causes(&error);
                tracing::error!(bus = %offer.bus, error, "an offer of another bus cannot be taken; nothing changes");
            }
        }
    }

    /// Is on an offered bus as well, in place of one that was offered before.
    fn take(&self, place: Place) {
        let mut sides = self.sides();
        let standing = sides.offered.as_ref();
        if standing.is_some_and(|side| side.place == place) {
            return;
        }
        tracing::info!(bus = %place.bus, urls = ?place.at.urls, "another bus is offered; this node stays and goes there as well");
        sides.ids += 1;
        let (dial, keep) = (Arc::clone(&self.dial), self.files.clone());
        let turn = keep.next_turn();
        let side = Side::towards(sides.ids, place, dial, Some((keep, turn)));
        sides.offered = Some(Arc::new(side));
        drop(sides);
        self.changed.send_modify(|turn| *turn += 1);
    }

    async fn decline(&self) {
        let Some(offered) = self.sides().offered.take() else {
            return;
        };
        self.changed.send_modify(|turn| *turn += 1);
        let bus = offered.place.bus;
        self.files.next_turn();
        drop(offered);
        tracing::info!(%bus, "the offer of another bus is withdrawn; this node stays");
        let files = self.files.clone();
        let withdrawn = spawn_blocking(move || files.withdraw(bus)).await;
        if let Ok(Err(error)) = withdrawn {
            tracing::warn!(%bus, %error, "an offer that does not stand is left on disk");
        }
    }

    /// What was offered is home: on disk first, then for modules, and then the bus before is left.
    async fn go(&self) -> Result<(), String> {
        let Some(offered) = self.both().1 else {
            return Ok(());
        };
        let (files, place) = (self.files.clone(), offered.place.clone());
        let bus = place.bus;
        let kept = spawn_blocking(move || files.make_home(&place)).await;
        let kept = kept.map_err(|ended| ended.to_string());
        kept.and_then(|kept| kept.map_err(|error| with_causes(&error)))
            .map_err(|why| {
                format!(
                    "this node is at home on {bus}, which cannot be put on disk; it stays on both: {why}"
                )
            })?;
        self.surroundings.send_modify(|told| {
            told.urls.clone_from(&offered.place.at.urls);
            told.ca = self.files.authority(&offered.place);
            told.bus.clone_from(&offered.place.at.facts);
        });
        offered.is_home_now();
        let left = {
            let mut sides = self.sides();
            sides.offered = None;
            std::mem::replace(&mut sides.home, offered)
        };
        self.changed.send_modify(|turn| *turn += 1);
        tracing::info!(%bus, left = %left.place.bus, "this node has moved");
        Ok(())
    }
}

impl<D: Dial> NodeBus for Homes<D> {
    type Receipt = HomesReceipt<<D::Node as NodeBus>::Receipt>;

    fn idle_heartbeat(&self) -> Option<Duration> {
        let ear = Arc::clone(self.sides().ear());
        ear.node()?.idle_heartbeat()
    }

    fn believed(&self, receipt: &Self::Receipt, declaration: &Declaration) {
        if declaration.node == self.node
            && let Some(side) = self.sides().of(receipt)
        {
            side.heard(declaration.generation);
        }
    }

    async fn settle_in(&self, declaration: &Declaration) -> Result<(), String> {
        let generation = declaration.generation;
        let mut newest = self.newest.lock().await;
        // Calls are tasks, and tasks begin in any order.
        if *newest > Some(generation) {
            return Ok(());
        }
        *newest = Some(generation);
        let (home, offered) = self.both();
        let heard = |side: &Side<_>| side.newest_heard() == Some(generation);
        let standing = Standing {
            home: home.place.bus,
            offered: offered.as_ref().map(|side| side.place.bus),
            heard_at_home: heard(&home),
            heard_over_offer: offered.as_deref().is_some_and(heard),
        };
        // Whoever is left goes when this ends.
        drop((home, offered));
        match (decide(standing, &declaration.home), &declaration.home) {
            (Step::Take, Home::Offered(offer)) => self.take_offer(offer),
            (Step::MoveAndTake, Home::Offered(offer)) => {
                self.go().await?;
                self.take_offer(offer);
            }
            (Step::Nonsense, _) => {
                tracing::error!(bus = %standing.home, "this node is offered the bus it is on; nothing changes");
            }
            (Step::Decline, _) => self.decline().await,
            (Step::Move, _) => return self.go().await,
            (Step::Astray, _) => {
                let home = standing.home;
                return Err(format!(
                    "this node is declared at home on {}, and knows no way there; it stays on {home}: replace it with \
                     `meshctl node rejoin`",
                    home.other()
                ));
            }
            (Step::Stay | Step::Take | Step::MoveAndTake, _) => {}
        }
        Ok(())
    }

    async fn next(&self) -> NodeEvent<Self::Receipt> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(event) = self.sides().link_said() {
                return event;
            }
            let (home, offered) = self.both();
            let over_offer = async {
                match &offered {
                    Some(side) => (Arc::clone(side), side.next().await),
                    None => pending().await,
                }
            };
            let (side, event) = tokio::select! {
                Ok(()) = changed.changed() => continue,
                event = home.next() => (Arc::clone(&home), event),
                heard = over_offer => heard,
            };
            if let Some(event) = self.hear(&side, event) {
                return event;
            }
        }
    }

    async fn settle(&self, receipt: &Self::Receipt, how: NodeSettlement) -> Result<(), BusError> {
        let side = self.sides().of(receipt);
        match side {
            Some(side) => side.settle(&receipt.receipt, how).await,
            None => Err(BusError::Away(
                "it came over a bus that was left".to_owned(),
            )),
        }
    }

    async fn report(&self, body: Vec<u8>) -> Result<(), BusError> {
        let (home, offered) = self.both();
        let over_home = async |body| home.dialled()?.report(body).await;
        let offered = offered.filter(|side| side.newest_heard().is_some());
        let Some(offered) = offered else {
            return over_home(body).await;
        };
        let number = offered.owe(body.clone());
        let failed = tokio::select! {
            () = offered.took(number) => return Ok(()),
            result = over_home(body) => match result {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
        };
        // The other has a while yet; then it is for the agent to try again, which the home may be there for.
        let taken = timeout(WITHIN, offered.took(number)).await;
        taken.map_err(|_late| failed)
    }

    async fn heartbeat(&self, body: Vec<u8>) -> Result<(), BusError> {
        let (home, offered) = self.both();
        let beat = async |side: &Side<D::Node>| side.dialled()?.heartbeat(body.clone()).await;
        let over_offer = async {
            match &offered {
                Some(side) => Some(beat(side).await),
                None => None,
            }
        };
        match tokio::join!(beat(&home), over_offer) {
            (_, Some(Ok(()))) => Ok(()),
            (over_home, _) => over_home,
        }
    }

    async fn asked(&self) -> Vec<u8> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (home, offered) = self.both();
            let over_offer = async {
                match &offered {
                    Some(side) => side.asked().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                Ok(()) = changed.changed() => {}
                asked = home.asked() => return asked,
                asked = over_offer => return asked,
            }
        }
    }

    /// Over the bus in use: the controller hears both.
    async fn say_log(&self, body: Vec<u8>) -> Result<(), BusError> {
        let ear = Arc::clone(self.sides().ear());
        ear.dialled()?.say_log(body).await
    }

    async fn listen_again(&self) -> Result<(), BusError> {
        let (home, offered) = self.both();
        let again = async |node: Option<Arc<D::Node>>| match node {
            Some(node) => node.listen_again().await,
            None => Ok(()),
        };
        let there = offered.and_then(|side| side.node());
        let (at_home, there) = tokio::join!(again(home.node()), again(there));
        at_home.and(there)
    }

    async fn reconnect(&self) -> Result<(), BusError> {
        let ear = Arc::clone(self.sides().ear());
        ear.dialled()?.reconnect().await
    }
}

impl<N: NodeBus> Sides<N> {
    /// Whose silence is measured: home's while it is there.
    fn ear(&self) -> &Arc<Side<N>> {
        let up = |side: &Arc<Side<N>>| side.link() == Some(Link::Up);
        match &self.offered {
            Some(offered) if up(offered) && !up(&self.home) => offered,
            _ => &self.home,
        }
    }

    fn of<R>(&self, receipt: &HomesReceipt<R>) -> Option<Arc<Side<N>>> {
        let mut sides = std::iter::once(&self.home).chain(&self.offered);
        sides.find(|side| side.id == receipt.side).cloned()
    }

    /// What there is to say of the link, if that is not what was said. Up over another side than before is news: what is
    /// on its way is tried again, and what is heard is measured anew.
    fn link_said<R>(&mut self) -> Option<NodeEvent<R>> {
        let ear = self.ear();
        let now = match ear.link()? {
            Link::Up | Link::Without(_) => (Link::Up, ear.id),
            Link::Down => (Link::Down, 0),
        };
        (self.said.replace(now) != Some(now)).then_some(NodeEvent::Link(now.0))
    }
}

impl<D: Dial> fmt::Debug for Homes<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Homes")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// The number of the first side.
const HOME: u64 = 1;
/// How long a report that home did not take waits for the offered bus.
const WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
