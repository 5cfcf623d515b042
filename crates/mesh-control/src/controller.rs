//! The controller: the one that decides.
//!
//! Three things go on side by side and share this state. Messages come in, are recorded and settled (`inbox`). The
//! records change, one change at a time (`lane`). The bus is brought to what follows from the records, and nodes are
//! told (`outward`).

mod failover;
mod inbox;
mod joining;
mod lane;
mod moving;
mod outward;
mod rotating;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mesh_derive::Bounds;
use mesh_derive::topology::BrokerFacts;
use mesh_model::{
    BusFacts, BusKind, Declaration, Generation, Heartbeat, InstanceRef, MeshName, NodeName,
    PublicKey, Records, Report, Seq, Timestamp,
};
use mesh_window::{Limits, Window};
use serde::{Deserialize, Serialize};

use crate::effect::{Effect, Note, StoreRefusal, Ticket};
use crate::fact::Kept;
use crate::message::MessageKey;
use crate::pause::due;
use crate::placement::{Mint, Places};
use crate::rotation::Rotation;
use lane::Lane;
use outward::{Assertion, Undeclared};

/// What a controller is told when it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What a new mesh is called.
    pub mesh: MeshName,
    /// What of the bus stands in subjects.
    pub bus: BusFacts,
    /// How hosts reach each bus there is. With one, nobody can go anywhere.
    pub places: Places,
    /// Milliseconds a node has to prove that it works on the bus it is offered, before it stays where it is.
    pub move_patience: u64,
    /// The controller's own user keys: who has one is the controller to the bus, so no host may bring one.
    pub own_keys: BTreeSet<PublicKey>,
    /// How long a message may be held, and how often it is tried.
    pub window: Limits,
    /// The bounds of what is derived.
    pub bounds: Bounds,
    /// What the bus is if it is a RabbitMQ: what is declared has to fit into one then.
    pub broker: Option<BrokerFacts>,
    /// When modules' credentials are replaced.
    pub rotation: Rotation,
    /// Milliseconds between two attempts at the bus, and at the store.
    pub retry: u64,
    /// Milliseconds a node may differ from what it was told before it is told again.
    pub ask_again: u64,
    /// Reports kept for each node.
    pub reports_kept: usize,
    /// Spreads retries; any number.
    pub seed: u64,
}

impl Settings {
    /// The defaults, for this mesh on this bus.
    pub fn new(mesh: MeshName, bus: BusFacts) -> Self {
        Self {
            mesh,
            bus,
            places: Places::new(),
            move_patience: 90_000,
            own_keys: BTreeSet::new(),
            window: Limits::default(),
            bounds: Bounds::default(),
            broker: None,
            rotation: Rotation::default(),
            retry: 500,
            ask_again: 20_000,
            reports_kept: 64,
            seed: 0,
        }
    }
}

/// Under what circumstances a controller starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The store goes on where it ended.
    Continued,
    /// The store is new, or a copy of an earlier one: what nodes were told since may be newer than what it holds.
    Restored,
}

/// The controller's whole state.
#[derive(Debug)]
pub struct Controller<M> {
    settings: Settings,
    mint: M,
    records: Records,
    declarations: BTreeMap<NodeName, Declaration>,
    reports: BTreeMap<NodeName, VecDeque<Report>>,
    presence: BTreeMap<NodeName, Presence>,
    /// Nodes of which an earlier run was heard beside a later one.
    rivals: BTreeMap<NodeName, Rival>,
    announced: BTreeMap<InstanceRef, String>,
    /// Modules that are known to use their newest key while the one before is still good.
    keyed: BTreeMap<InstanceRef, PublicKey>,
    /// When credentials were looked at last.
    looked_at_credentials: Option<Timestamp>,
    window: Window<MessageKey>,
    in_hand: BTreeSet<MessageKey>,
    in_store: BTreeMap<MessageKey, Report>,
    parking: BTreeMap<MessageKey, Parking>,
    /// The newest report of a node that the store never will take.
    unstorable: BTreeMap<NodeName, (Generation, Seq)>,
    /// Let go, but no copy could be kept yet: they come again until one is.
    overdue: BTreeSet<MessageKey>,
    lane: Lane,
    /// Nodes that were heard on the bus they are offered, and which that is.
    proven: BTreeMap<NodeName, BusKind>,
    /// Which holders of seats are lost.
    watch: failover::Watch,
    /// The bus is reached.
    link: bool,
    assertion: Assertion,
    undeclared: BTreeMap<NodeName, Undeclared>,
    store: StoreState,
    /// A new incarnation is to be begun, and is not known to be on disk: nothing else is changed before it is.
    beginning: bool,
    tally: Tally,
}

/// A message whose copy is being kept.
#[derive(Debug)]
struct Parking {
    why: String,
    /// When its window had opened, in milliseconds, if the bound is why it is let go.
    opened: Option<u64>,
}

/// What a node's heartbeats tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Presence {
    pub(crate) heard: Timestamp,
    pub(crate) heartbeat: Heartbeat,
    /// Since when it differs from what it was told, or misses in what it has reported.
    pub(crate) behind: Option<Timestamp>,
}

/// An earlier run of a node's agent that speaks although a later one does.
#[derive(Debug, Clone, Copy)]
struct Rival {
    session: u64,
    heard: Timestamp,
}

/// Whether the store takes commits.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StoreState {
    Up,
    /// It does not; it is opened anew at this time, or is being opened.
    Down {
        again: Option<Timestamp>,
    },
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Reports recorded.
    pub recorded: u64,
    /// Reports that were there already.
    pub repeated: u64,
    /// Reports about a superseded declaration.
    pub superseded: u64,
    /// Messages let go after the bound, or never storable.
    pub let_go: u64,
    /// Announcements heard.
    pub announced: u64,
    /// Heartbeats heard.
    pub heartbeats: u64,
    /// Hosts that became nodes.
    pub enrolled: u64,
    /// Hosts that were refused.
    pub refused: u64,
}

impl<M: Mint> Controller<M> {
    /// Begins with what the store held; nothing for a new mesh.
    pub fn start(
        kept: Option<Kept>,
        start: Start,
        settings: Settings,
        mint: M,
        now: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let fresh = kept.is_none();
        let kept = kept.unwrap_or_else(|| Kept {
            records: Records::new(settings.mesh.clone(), settings.bus.clone()),
            declarations: BTreeMap::new(),
            reports: BTreeMap::new(),
        });
        let mut controller = Self {
            window: Window::new(settings.window),
            settings,
            mint,
            records: kept.records,
            declarations: kept.declarations,
            reports: BTreeMap::new(),
            presence: BTreeMap::new(),
            rivals: BTreeMap::new(),
            announced: BTreeMap::new(),
            keyed: BTreeMap::new(),
            looked_at_credentials: None,
            in_hand: BTreeSet::new(),
            in_store: BTreeMap::new(),
            parking: BTreeMap::new(),
            unstorable: BTreeMap::new(),
            overdue: BTreeSet::new(),
            lane: Lane::default(),
            proven: BTreeMap::new(),
            watch: failover::Watch::begin(now),
            link: true,
            assertion: Assertion::default(),
            undeclared: BTreeMap::new(),
            store: StoreState::Up,
            beginning: fresh || start == Start::Restored,
            tally: Tally::default(),
        };
        controller.take_reports(kept.reports);
        controller.doubt_what_is_unanswered();
        let mut effects = Vec::new();
        if controller.beginning {
            controller.begin_incarnation(now, &mut effects);
        } else {
            effects = controller.want_assertion(now);
        }
        (controller, effects)
    }

    /// A commit was taken, or was not.
    pub fn handle_stored(
        &mut self,
        ticket: Ticket,
        result: Result<(), StoreRefusal>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        match (ticket, result) {
            (_, Err(StoreRefusal::Stop(why))) => effects.push(Effect::Stop(why)),
            (Ticket::Message(key), Ok(())) => self.report_taken(key, now, &mut effects),
            (Ticket::Message(key), Err(StoreRefusal::Never(why))) => {
                if let Some(report) = self.in_store.remove(&key) {
                    let newest = self.unstorable.entry(report.id.node).or_default();
                    *newest = (report.id.generation, report.id.seq).max(*newest);
                }
                self.park(key, why, &mut effects);
            }
            (Ticket::Message(key), Err(StoreRefusal::Later(why))) => {
                self.in_store.remove(&key);
                self.store_fails(&why, now, &mut effects);
                self.hold(key, &why, now, &mut effects);
            }
            (Ticket::Records, Ok(())) => self.change_taken(now, &mut effects),
            (Ticket::Records, Err(StoreRefusal::Never(why))) => {
                self.change_impossible(why, now, &mut effects);
            }
            (Ticket::Records, Err(StoreRefusal::Later(why))) => {
                self.store_fails(&why, now, &mut effects);
                self.change_in_doubt(&why, now, &mut effects);
            }
        }
        effects
    }

    /// The store was opened anew, or could not be. What it holds takes the place of what is in memory: a commit that
    /// failed may be there all the same.
    pub fn handle_reopened(
        &mut self,
        result: Result<Option<Kept>, StoreRefusal>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        match result {
            Err(StoreRefusal::Stop(why)) => effects.push(Effect::Stop(why)),
            Err(StoreRefusal::Later(_) | StoreRefusal::Never(_)) => {
                self.store = StoreState::Down {
                    again: Some(now.plus(self.settings.retry)),
                };
            }
            Ok(kept) => {
                let taken = self.records.revision;
                let found = kept.as_ref().map(|kept| kept.records.revision);
                if taken > found.unwrap_or_default() {
                    let found = found.map_or_else(|| "nothing".to_owned(), |it| it.to_string());
                    effects.push(Effect::Stop(format!(
                        "the store had taken revision {taken} and, opened anew, holds {found}; restore a backup"
                    )));
                    return effects;
                }
                self.store = StoreState::Up;
                effects.push(Effect::Note(Note::StoreUp));
                if let Some(kept) = kept {
                    self.adopt(kept);
                }
                if self.beginning {
                    self.begin_incarnation(now, &mut effects);
                    return effects;
                }
                effects.extend(self.want_assertion(now));
                self.advance(now, &mut effects);
            }
        }
        effects
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let StoreState::Down { again: Some(again) } = self.store
            && due(again, now, self.settings.retry)
        {
            self.store = StoreState::Down { again: None };
            effects.push(Effect::Reopen);
        }
        self.forget_gone(now);
        self.retry_outward(now, &mut effects);
        self.expire_tokens(now);
        self.go_on_moving(now);
        self.look_at_seats(now);
        self.look_at_credentials(now);
        self.advance(now, &mut effects);
        effects
    }

    fn store_fails(&mut self, why: &str, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.store == StoreState::Up {
            effects.push(Effect::Note(Note::StoreDown(why.to_owned())));
            self.store = StoreState::Down {
                again: Some(now.plus(self.settings.retry)),
            };
        }
    }

    fn adopt(&mut self, kept: Kept) {
        let bus = self.records.bus.clone();
        self.records = kept.records;
        self.records.bus = bus;
        self.declarations = kept.declarations;
        self.reports.clear();
        self.take_reports(kept.reports);
        self.records_changed();
        self.doubt_what_is_unanswered();
    }

    fn take_reports(&mut self, reports: BTreeMap<NodeName, Vec<Report>>) {
        for (node, reports) in reports {
            if self.records.nodes.contains_key(&node) {
                self.reports.insert(node, reports.into());
            }
        }
    }

    /// What there is, to look at.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// What each node was last told.
    pub fn declarations(&self) -> &BTreeMap<NodeName, Declaration> {
        &self.declarations
    }

    /// A node's newest recorded report.
    pub fn newest_report(&self, node: &NodeName) -> Option<&Report> {
        self.reports.get(node).and_then(VecDeque::back)
    }

    /// Messages held now.
    pub fn held(&self) -> usize {
        self.window.held()
    }

    /// Counts since the start.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether the bus is what follows from the records and every node was told.
    pub fn is_settled(&self) -> bool {
        self.bus_is_current() && self.undeclared.is_empty() && self.lane.is_empty()
    }

    pub(crate) fn places(&self) -> &Places {
        &self.settings.places
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.settings.bounds
    }

    pub(crate) fn presence(&self) -> &BTreeMap<NodeName, Presence> {
        &self.presence
    }

    pub(crate) fn window(&self) -> &Window<MessageKey> {
        &self.window
    }

    pub(crate) fn store_is_up(&self) -> bool {
        self.store == StoreState::Up
    }

    pub(crate) fn bus_is_current(&self) -> bool {
        !self.beginning && self.assertion.is_current()
    }

    /// The releases modules announced since the controller started.
    pub fn announced(&self) -> &BTreeMap<InstanceRef, String> {
        &self.announced
    }
}
