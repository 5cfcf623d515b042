//! The node's end: hears declarations, has them carried out, reports, and goes on by itself when nobody speaks to it.

mod doing;
mod ear;
mod outbox;
mod reporting;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mesh_model::{
    Declaration, Generation, Heartbeat, ModuleName, ModuleReport, NodeName, Report, Seq, Timestamp,
};

use crate::message::NodeSettlement;
use crate::pause::{due, passed};
use doing::Doing;
use ear::{Ear, Remedy};
use outbox::Outbox;
use reporting::outcome;

/// What an agent is told when it starts.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Its node.
    pub node: NodeName,
    /// When it started, in milliseconds: tells this run of the agent from another.
    pub session: u64,
    /// Its version, for people.
    pub version: String,
    /// Milliseconds between two heartbeats.
    pub heartbeat: u64,
    /// Milliseconds between two signs of work on a declaration; well below the consumer's ack wait.
    pub progress: u64,
    /// Milliseconds between two reports that no declaration asked for.
    pub pause: u64,
    /// Milliseconds until something that did not work is tried again.
    pub retry: u64,
    /// After how long a silence the consumer says that it is there; nothing where it does not.
    pub idle: Option<Duration>,
}

impl AgentSettings {
    /// The defaults, for this node.
    pub fn new(node: NodeName, session: u64) -> Self {
        Self {
            node,
            session,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            heartbeat: 5_000,
            progress: 30_000,
            pause: 1_000,
            retry: 2_000,
            idle: None,
        }
    }
}

/// What an agent must find again after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The newest declaration it took.
    pub declaration: Option<Declaration>,
    /// The newest sequence it used.
    pub seq: Seq,
    /// Reports the bus has not confirmed, oldest first.
    pub unsent: Vec<Report>,
}

/// Deliveries of one declaration that are settled together; one that came before so many others is no longer the one the
/// bus waits for.
const COPIES: usize = 8;

/// One declaration in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InHand(pub u64);

/// One thing for an agent's loop to carry out, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an effect that is not carried out never happened"]
pub enum AgentEffect {
    /// Put this on disk, then say so.
    Keep(Remembered),
    /// Have this run, in place of what the runtime was told before, then say what runs.
    CarryOut(Declaration),
    /// Settle a declaration in hand.
    Settle(InHand, NodeSettlement),
    /// Publish a report, wait until the bus has it, then say so.
    Report(Report),
    /// Say that the node lives.
    Heartbeat(Heartbeat),
    /// Listen anew.
    ListenAgain,
    /// Connect anew.
    Reconnect,
    /// Say this to whoever reads logs.
    Note(String),
}

/// The agent's whole state.
#[derive(Debug)]
pub struct Agent {
    settings: AgentSettings,
    /// The newest declaration, and how far it has got.
    current: Option<Current>,
    /// The messages that said so and are not settled yet, newest last: one may be delivered again while it is worked on,
    /// and to settle the first is to settle the second.
    in_hand: VecDeque<InHand>,
    states: BTreeMap<ModuleName, ModuleReport>,
    /// States differ from what was last reported.
    dirty: bool,
    last: Option<Report>,
    reported_at: Timestamp,
    outbox: Outbox,
    ear: Ear,
    /// When work on the declaration was shown last, and how far it is.
    progress_at: Timestamp,
    doing: Doing,
    heartbeat_at: Timestamp,
}

#[derive(Debug)]
struct Current {
    declaration: Declaration,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// To be put on disk, at this time.
    Unkept(Timestamp),
    /// With the runtime, since this time.
    CarryingOut(Timestamp),
    /// To be given to the runtime once more, at this time.
    Again(Timestamp),
    /// It runs, or as much of it as can.
    Applied,
}

impl Agent {
    /// Begins with what was found on disk: the last declaration is carried out at once, whoever is away.
    pub fn start(
        settings: AgentSettings,
        remembered: Remembered,
        now: Timestamp,
    ) -> (Self, Vec<AgentEffect>) {
        let current = remembered.declaration.map(|declaration| Current {
            declaration,
            stage: Stage::CarryingOut(now),
        });
        let effects = current
            .iter()
            .map(|current| AgentEffect::CarryOut(current.declaration.clone()))
            .collect();
        let retry = settings.retry;
        let ear = Ear::new(settings.idle, retry, now);
        let agent = Self {
            settings,
            current,
            in_hand: VecDeque::new(),
            states: BTreeMap::new(),
            dirty: false,
            last: None,
            reported_at: Timestamp::default(),
            outbox: Outbox::new(remembered.seq, remembered.unsent, retry),
            ear,
            progress_at: now,
            doing: Doing::default(),
            heartbeat_at: now,
        };
        (agent, effects)
    }

    /// A declaration came, signed by the controller. Newer: it is carried out. Equal: the report is sent again, which
    /// is how one that was let go is asked for. Older: it is settled and dropped.
    pub fn handle_declaration(
        &mut self,
        in_hand: InHand,
        declaration: Declaration,
        now: Timestamp,
    ) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        self.ear.heard(now);
        if declaration.node != self.settings.node {
            let whose = &declaration.node;
            effects.push(AgentEffect::Note(format!(
                "a declaration for node {whose} came here; it is not acted upon"
            )));
            // It never will be, however often it comes.
            effects.push(AgentEffect::Settle(in_hand, NodeSettlement::Done));
            return effects;
        }
        let newest = self.current.as_ref().map(|c| c.declaration.generation);
        if newest.is_some_and(|newest| declaration.generation < newest) {
            effects.push(AgentEffect::Settle(in_hand, NodeSettlement::Done));
            return effects;
        }
        self.in_hand.push_back(in_hand);
        self.progress_at = now;
        if newest == Some(declaration.generation) {
            self.settle_down_to(COPIES, &mut effects);
            self.report_again(now, &mut effects);
            return effects;
        }
        self.settle_down_to(1, &mut effects);
        self.current = Some(Current {
            declaration,
            stage: Stage::Unkept(now),
        });
        self.keep_declaration(now, &mut effects);
        effects
    }

    /// What was to be kept is on disk, or is not.
    pub fn handle_kept(&mut self, result: Result<(), String>, now: Timestamp) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        let retry = now.plus(self.settings.retry);
        let Some(current) = &mut self.current else {
            return effects;
        };
        if !matches!(current.stage, Stage::Unkept(_)) {
            if let Err(why) = result {
                effects.push(AgentEffect::Note(format!("a report is not on disk: {why}")));
            }
            return effects;
        }
        match result {
            Ok(()) => {
                current.stage = Stage::CarryingOut(now);
                let declaration = current.declaration.clone();
                effects.push(AgentEffect::CarryOut(declaration));
            }
            Err(why) => {
                current.stage = Stage::Unkept(retry);
                let reason = format!("the declaration cannot be kept on disk: {why}");
                self.report_failure(reason, now, &mut effects);
            }
        }
        effects
    }

    /// A declaration runs, as far as it can, or could not be carried out at all.
    pub fn handle_carried_out(
        &mut self,
        generation: Generation,
        result: Result<BTreeMap<ModuleName, ModuleReport>, String>,
        now: Timestamp,
    ) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        let retry = now.plus(self.settings.retry);
        let Some(current) = &mut self.current else {
            return effects;
        };
        let begun = matches!(current.stage, Stage::CarryingOut(_));
        if current.declaration.generation != generation || !begun {
            return effects;
        }
        match result {
            Ok(states) => {
                current.stage = Stage::Applied;
                self.states = states;
                self.heartbeat_at = now;
                let outcome = outcome(&self.states);
                self.report(outcome, now, &mut effects);
            }
            Err(reason) => {
                current.stage = Stage::Again(retry);
                self.report_failure(reason, now, &mut effects);
            }
        }
        effects
    }

    /// What runs has changed, be it while a declaration is carried out.
    pub fn handle_states(
        &mut self,
        states: BTreeMap<ModuleName, ModuleReport>,
        now: Timestamp,
    ) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        if self.current.is_some() && self.states != states {
            self.states = states;
            self.dirty = true;
            self.report_changes(now, &mut effects);
        }
        effects
    }

    /// How far the runtime is with what takes long, a line for each module. It is no change of state: heartbeats carry it.
    pub fn handle_doing(
        &mut self,
        doing: &BTreeMap<ModuleName, String>,
        now: Timestamp,
    ) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        if self.doing.now_is(doing) {
            // That something long begins, or has ended, is said without waiting for the next heartbeat.
            self.heartbeat_at = self.doing.soon(self.heartbeat_at, self.settings.pause);
            self.beat(now, &mut effects);
        }
        effects
    }

    /// The bus has a report, or could not take it.
    pub fn handle_reported(
        &mut self,
        seq: Seq,
        result: Result<(), String>,
        now: Timestamp,
    ) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        match result {
            Ok(()) => {
                self.outbox.sent(seq);
                self.keep_reports(&mut effects);
                self.send(now, &mut effects);
                self.settle(&mut effects);
            }
            Err(why) => {
                if self.outbox.failed(seq, now) {
                    let what = format!("report {seq} is kept until the bus takes it: {why}");
                    effects.push(AgentEffect::Note(what));
                }
            }
        }
        effects
    }

    /// The consumer says that it is there.
    pub fn handle_idle(&mut self, now: Timestamp) {
        self.ear.heard(now);
    }

    /// After how long a silence the consumer says that it is there, where the node listens now.
    pub fn handle_ear(&mut self, idle: Option<Duration>, now: Timestamp) {
        self.ear.listens_where(idle, now);
    }

    /// The bus was reached, or was lost.
    pub fn handle_link(&mut self, up: bool, now: Timestamp) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        self.ear.link(up, now);
        if up {
            self.outbox.retry_now();
            self.send(now, &mut effects);
            self.heartbeat_at = now;
            self.beat(now, &mut effects);
        }
        effects
    }

    /// The server does not let the node listen: it is tried again, since rights may come later.
    pub fn handle_denied(&mut self, why: &str, now: Timestamp) -> Vec<AgentEffect> {
        if !self.ear.denied(now) {
            return Vec::new();
        }
        vec![AgentEffect::Note(format!(
            "the bus does not let this node listen: {why}"
        ))]
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) -> Vec<AgentEffect> {
        let mut effects = Vec::new();
        self.keep_declaration(now, &mut effects);
        if let Some(current) = &mut self.current
            && let Stage::Again(at) = current.stage
            && due(at, now, self.settings.retry)
        {
            current.stage = Stage::CarryingOut(now);
            let declaration = current.declaration.clone();
            effects.push(AgentEffect::CarryOut(declaration));
        }
        self.report_changes(now, &mut effects);
        self.send(now, &mut effects);
        self.show_progress(now, &mut effects);
        self.listen(now, &mut effects);
        self.beat(now, &mut effects);
        effects
    }

    /// The newest declaration, whatever has become of it.
    pub fn declaration(&self) -> Option<&Declaration> {
        self.current.as_ref().map(|current| &current.declaration)
    }

    /// The newest declaration that runs, or as much of it as can.
    pub fn applied(&self) -> Option<Generation> {
        let current = self.current.as_ref()?;
        (current.stage == Stage::Applied).then_some(current.declaration.generation)
    }

    /// Whether the bus is reached.
    pub fn is_up(&self) -> bool {
        self.ear.is_up()
    }

    fn is_applied(&self) -> bool {
        self.applied().is_some()
    }

    fn remembered(&self) -> Remembered {
        Remembered {
            declaration: self.declaration().cloned(),
            seq: self.outbox.seq(),
            unsent: self.outbox.unsent(),
        }
    }

    fn keep_declaration(&self, now: Timestamp, effects: &mut Vec<AgentEffect>) {
        let Some(current) = &self.current else { return };
        if let Stage::Unkept(at) = current.stage
            && due(at, now, self.settings.retry)
        {
            effects.push(AgentEffect::Keep(self.remembered()));
        }
    }

    /// Settles the declaration once everything said about it is on the bus.
    fn settle(&mut self, effects: &mut Vec<AgentEffect>) {
        if self.outbox.is_empty() && self.is_applied() {
            self.settle_down_to(0, effects);
        }
    }

    /// Settles all but the newest messages in hand.
    fn settle_down_to(&mut self, rest: usize, effects: &mut Vec<AgentEffect>) {
        let surplus = self.in_hand.len().saturating_sub(rest);
        let settled = self.in_hand.drain(..surplus);
        effects.extend(settled.map(|it| AgentEffect::Settle(it, NodeSettlement::Done)));
    }

    fn show_progress(&mut self, now: Timestamp, effects: &mut Vec<AgentEffect>) {
        if let Some(in_hand) = self.in_hand.back()
            && passed(self.progress_at, now, self.settings.progress)
        {
            self.progress_at = now;
            effects.push(AgentEffect::Settle(*in_hand, NodeSettlement::Working));
        }
    }

    fn listen(&mut self, now: Timestamp, effects: &mut Vec<AgentEffect>) {
        let missed = self.ear.missed(now);
        let Some(remedy) = self.ear.remedy(now) else {
            return;
        };
        if missed >= 2 {
            let what = format!("nothing heard from the consumer for {missed} of its signs of life");
            effects.push(AgentEffect::Note(what));
        }
        effects.push(match remedy {
            Remedy::ListenAgain => AgentEffect::ListenAgain,
            Remedy::Reconnect => AgentEffect::Reconnect,
        });
    }

    fn beat(&mut self, now: Timestamp, effects: &mut Vec<AgentEffect>) {
        let due = due(self.heartbeat_at, now, self.settings.heartbeat);
        if !self.ear.is_up() || !due {
            return;
        }
        self.heartbeat_at = now.plus(self.settings.heartbeat);
        self.doing.said(now);
        effects.push(AgentEffect::Heartbeat(Heartbeat {
            node: self.settings.node.clone(),
            session: self.settings.session,
            applied: self.applied(),
            seq: self.last.as_ref().map_or(Seq(0), |last| last.id.seq),
            deaf: self.ear.missed(now) >= 2,
            version: self.settings.version.clone(),
            doing: self.doing.lines(),
        }));
    }
}
