//! The world: what happens next, and to whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mesh_control::{Controller, MessageKey, Settlement, StoreRefusal, Ticket};
use mesh_derive::Plan;
use mesh_model::{
    Declaration, EnrolmentAnswer, Generation, Heartbeat, NodeName, PublicKey, Report, ReportId,
    TokenId, Workload,
};

use super::bus::Bus;
use super::chance::Chance;
use super::host::Host;
use super::make::Stamp;
use super::store::{Facts, Store};
use super::{Failure, Ran};

/// Something that happens at a time.
#[derive(Debug)]
pub(super) enum Event {
    Start,
    Tick(u64),
    Commit(u64),
    Stored(u64, Ticket, Result<(), StoreRefusal>),
    Reopened(u64),
    Deliver(MessageKey),
    AckWait(MessageKey, u64),
    Settle(MessageKey, Settlement),
    Park(u64, MessageKey),
    Assert(u64, u64, Arc<Plan>),
    Declare(u64, Declaration, bool),
    Answered(usize, EnrolmentAnswer),
    Ask(usize),
    AgentStart(usize),
    AgentTick(usize, u64),
    CarriedOut(usize, u64, Declaration),
    Stumble(usize),
    Arrive(usize, Report),
    Reported(usize, u64, ReportId, Result<(), String>),
    Beat(Heartbeat),
    NodeDeliver(NodeName, u64),
    Operate,
    Misfortune,
}

/// When the faults end, and when all has to be right again; milliseconds after the beginning.
const FAULTS: u64 = 360_000;
const REST: u64 = 300_000;
/// When it begins: milliseconds since the epoch.
const BEGINNING: u64 = 1_764_460_800_000;
/// Lines of a trace.
const TAIL: usize = 60;

pub(super) struct World {
    seed: u64,
    pub(super) chance: Chance,
    pub(super) now: u64,
    faults_end: u64,
    /// Milliseconds the controller's clock is ahead.
    pub(super) ahead: u64,
    happens: BTreeMap<(u64, u64), Event>,
    ordinal: u64,
    pub(super) controller: Option<Controller<Stamp>>,
    /// Which run of the controller.
    pub(super) life: u64,
    pub(super) store: Store,
    pub(super) last_commit: u64,
    pub(super) last_answer: u64,
    pub(super) reports_kept: usize,
    pub(super) bus: Bus,
    pub(super) hosts: Vec<Host>,
    pub(super) made: u64,
    pub(super) commands: u64,
    /// Copies of the store, oldest first.
    pub(super) copies: Vec<Facts>,
    /// No commit was confirmed since an older copy took the store's place: the mark on the bus tells of another store.
    pub(super) unmarked: bool,
    /// The newest time a controller can have drawn an incarnation from.
    pub(super) newest_clock: u64,
    /// Since when messages are held, by the controller's clock.
    pub(super) held: BTreeMap<MessageKey, u64>,
    /// Messages a copy was to be kept of, and that are not settled.
    pub(super) tried: BTreeSet<MessageKey>,
    /// Every report that was ever in the store.
    pub(super) recorded: BTreeSet<ReportId>,
    pub(super) contents: BTreeMap<(NodeName, Generation), Vec<Workload>>,
    pub(super) newest: BTreeMap<NodeName, Generation>,
    pub(super) spent: BTreeMap<TokenId, PublicKey>,
    pub(super) ran: Ran,
    broken: Option<String>,
    tail: VecDeque<String>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let reports_kept = if chance.percent(30) { 3 } else { 64 };
        Self {
            seed,
            chance,
            now: BEGINNING,
            faults_end: BEGINNING + FAULTS,
            ahead: 0,
            happens: BTreeMap::new(),
            ordinal: 0,
            controller: None,
            life: 0,
            store: Store::default(),
            last_commit: 0,
            last_answer: 0,
            reports_kept,
            bus: Bus::default(),
            hosts: Vec::new(),
            made: 0,
            commands: 0,
            copies: Vec::new(),
            unmarked: false,
            newest_clock: BEGINNING,
            held: BTreeMap::new(),
            tried: BTreeSet::new(),
            recorded: BTreeSet::new(),
            contents: BTreeMap::new(),
            newest: BTreeMap::new(),
            spent: BTreeMap::new(),
            ran: Ran::default(),
            broken: None,
            tail: VecDeque::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Ran, Failure> {
        self.after(0, 0, Event::Start);
        self.after(100, 100, Event::Operate);
        self.after(5_000, 20_000, Event::Misfortune);
        let end = self.faults_end + REST;
        let mut resting = false;
        while let Some(((at, _), event)) = self.happens.pop_first() {
            if at > end {
                break;
            }
            self.now = at;
            if at >= self.faults_end && !resting {
                resting = true;
                self.rest();
            }
            self.ran.steps += 1;
            self.step(event);
            if self.broken.is_some() {
                break;
            }
        }
        if self.broken.is_none() {
            self.look_at_the_end();
        }
        match self.broken {
            None => Ok(self.ran),
            Some(law) => Err(Failure {
                seed: self.seed,
                law,
                trace: self.tail.into(),
            }),
        }
    }

    /// The faults end: what is down comes up.
    fn rest(&mut self) {
        self.trace("the faults end".to_owned());
        self.store.refuses_until = 0;
        self.after(0, 0, Event::Start);
        for at in 0..self.hosts.len() {
            if let Some(host) = self.hosts.get_mut(at) {
                host.disk_full_until = 0;
                host.runtime_fails_until = 0;
                host.deaf_until = 0;
            }
            self.after(0, 1_000, Event::AgentStart(at));
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Start => self.start_controller(),
            Event::Tick(life) => {
                if life == self.life && self.controller.is_some() {
                    self.with(Controller::tick);
                    self.after(500, 500, Event::Tick(life));
                }
            }
            Event::Commit(life) => self.commit(life),
            Event::Stored(life, ticket, result) => self.stored(life, ticket, result),
            Event::Reopened(life) => self.reopened(life),
            Event::Deliver(key) => self.deliver(key),
            Event::AckWait(key, deliveries) => self.ack_wait_over(key, deliveries),
            Event::Settle(key, how) => self.settled(key, how),
            Event::Park(life, key) => self.parked(life, key),
            Event::Assert(life, version, plan) => self.asserted(life, version, plan),
            Event::Declare(life, declaration, there) => self.published(life, declaration, there),
            Event::Answered(at, answer) => self.answered(at, &answer),
            Event::Ask(at) => self.ask(at),
            Event::AgentStart(at) => self.start_agent(at),
            Event::AgentTick(at, life) => self.agent_tick(at, life),
            Event::CarriedOut(at, life, declaration) => self.carried_out(at, life, declaration),
            Event::Stumble(at) => self.stumble(at),
            Event::Arrive(at, report) => self.arrive(at, report),
            Event::Reported(at, life, id, result) => self.reported(at, life, id, result),
            Event::Beat(heartbeat) => self.beat(heartbeat),
            Event::NodeDeliver(node, sequence) => self.deliver_to_node(&node, sequence),
            Event::Operate => self.operate(),
            Event::Misfortune => self.misfortune(),
        }
        self.newest_clock = self.newest_clock.max(self.now + self.ahead);
    }

    pub(super) fn is_resting(&self) -> bool {
        self.now >= self.faults_end
    }

    /// Whether this goes wrong now.
    pub(super) fn fault(&mut self, percent: u64) -> bool {
        self.chance.percent(percent) && !self.is_resting()
    }

    pub(super) fn at(&mut self, time: u64, event: Event) {
        self.ordinal += 1;
        self.happens
            .insert((time.max(self.now), self.ordinal), event);
    }

    pub(super) fn after(&mut self, least: u64, most: u64, event: Event) {
        let pause = self.chance.between(least, most.max(least));
        self.at(self.now + pause, event);
    }

    /// A law, and what to say when it is broken.
    pub(super) fn law(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    pub(super) fn trace(&mut self, what: String) {
        if self.tail.len() >= TAIL {
            self.tail.pop_front();
        }
        let at = self.now - BEGINNING;
        self.tail
            .push_back(format!("{:>7}.{:03} {what}", at / 1000, at % 1000));
    }
}
