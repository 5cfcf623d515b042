//! The controller's side: its effects are carried out late, in part, or not before it is killed.

use mesh_control::{
    CommandId, Controller, Effect, Fact, Kept, Message, MessageKey, Note, Settings, Settlement,
    Start, StoreRefusal, Ticket,
};
use mesh_derive::subject::enrolment_answer;
use mesh_model::{BusFacts, Declaration, Timestamp};

use super::host::Host;
use super::make::{Stamp, named};
use super::world::{Event, World};

/// How long the bus waits until it delivers a message to the controller again.
const ACK_WAIT: u64 = 30_000;

pub(super) fn bus_facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

impl World {
    pub(super) fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now + self.ahead)
    }

    pub(super) fn start_controller(&mut self) {
        if self.controller.is_some() {
            return;
        }
        let start = if self.unmarked {
            Start::Restored
        } else {
            Start::Continued
        };
        self.life += 1;
        self.store.dead = false;
        self.store.unheard = 0;
        self.store.queue.clear();
        self.held.clear();
        self.tried.clear();
        let facts: Vec<Fact> = self.store.facts.values().cloned().collect();
        let kept = Kept::assemble(facts, bus_facts());
        let mut settings = Settings::new(named("simulated"), bus_facts());
        settings.window.bound = std::time::Duration::from_millis(super::law::BOUND);
        settings.reports_kept = self.reports_kept;
        settings.seed = self.chance.next();
        let stamp = Stamp(self.life << 32);
        let (controller, effects) = Controller::start(kept, start, settings, stamp, self.time());
        self.trace(format!("controller starts ({start:?})"));
        self.controller = Some(controller);
        self.does(effects);
        self.after(100, 100, Event::Tick(self.life));
        let waiting: Vec<MessageKey> = self.bus.control.keys().copied().collect();
        for key in waiting {
            self.after(10, 2_000, Event::Deliver(key));
        }
    }

    pub(super) fn kill_controller(&mut self) {
        if self.controller.take().is_some() {
            self.trace("controller is killed".to_owned());
            self.ran.kills += 1;
            self.store.queue.clear();
            self.held.clear();
            self.tried.clear();
        }
    }

    /// Lets the controller handle something, and carries out what it says, if it runs.
    pub(super) fn with(
        &mut self,
        handle: impl FnOnce(&mut Controller<Stamp>, Timestamp) -> Vec<Effect>,
    ) {
        let now = self.time();
        if let Some(controller) = &mut self.controller {
            let effects = handle(controller, now);
            self.does(effects);
        }
    }

    pub(super) fn publish(&mut self, message: Message) {
        let key = self.bus.publish(message);
        self.after(1, 100, Event::Deliver(key));
    }

    pub(super) fn deliver(&mut self, key: MessageKey) {
        if self.controller.is_none() {
            return;
        }
        let Some(waiting) = self.bus.control.get_mut(&key) else {
            return;
        };
        waiting.deliveries += 1;
        let (message, deliveries) = (waiting.message.clone(), waiting.deliveries);
        self.after(ACK_WAIT, ACK_WAIT, Event::AckWait(key, deliveries));
        self.with(|controller, now| controller.handle_message(key, message, now));
    }

    /// A delivery nobody settled: it is delivered again.
    pub(super) fn ack_wait_over(&mut self, key: MessageKey, deliveries: u64) {
        let waiting = self.bus.control.get(&key);
        if waiting.is_some_and(|waiting| waiting.deliveries == deliveries) {
            self.deliver(key);
        }
    }

    pub(super) fn settled(&mut self, key: MessageKey, how: Settlement) {
        match how {
            Settlement::Done => {
                self.bus.control.remove(&key);
            }
            Settlement::Hold(pause) => {
                let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                self.after(pause, pause + 50, Event::Deliver(key));
            }
        }
    }

    pub(super) fn commit(&mut self, life: u64) {
        if life != self.life || self.controller.is_none() {
            return;
        }
        let (unknown, never) = (self.chance.percent(50), self.fault(1));
        let begins = self.store.queue.front().is_some_and(|(_, changes)| {
            changes.iter().any(|change| {
                matches!(change, mesh_control::Change::Put(Fact::Audit(audit)) if audit.who == "controller")
            })
        });
        let before = self.store.facts.clone();
        if let Some((ticket, changes, result)) =
            self.store.attempt(self.now, unknown, never && !begins)
        {
            self.unmarked &= result.is_err();
            self.store.unheard += 1;
            self.trace(format!("commit {ticket:?}: {result:?}"));
            self.look_at_commit(&before, &changes);
            self.answer_in_order(Event::Stored(life, ticket, result));
        }
    }

    fn answer_in_order(&mut self, event: Event) {
        let at = self.last_answer.max(self.now) + self.chance.between(1, 20);
        self.last_answer = at;
        self.at(at, event);
    }

    pub(super) fn stored(&mut self, life: u64, ticket: Ticket, result: Result<(), StoreRefusal>) {
        if life == self.life {
            self.store.unheard = self.store.unheard.saturating_sub(1);
            self.with(|controller, now| controller.handle_stored(ticket, result, now));
        }
    }

    pub(super) fn reopened(&mut self, life: u64) {
        if life != self.life {
            return;
        }
        if !self.store.queue.is_empty() {
            return self.after(50, 50, Event::Reopened(life));
        }
        let result = if self.now < self.store.refuses_until {
            Err(StoreRefusal::Later("still no space".to_owned()))
        } else {
            self.store.dead = false;
            Ok(Kept::assemble(
                self.store.facts.values().cloned(),
                bus_facts(),
            ))
        };
        self.with(|controller, now| controller.handle_reopened(result, now));
    }

    pub(super) fn published(&mut self, life: u64, declaration: Declaration, unless_there: bool) {
        let (node, generation) = (declaration.node.clone(), declaration.generation);
        let there = self.bus.told.get(&node);
        let same = there.is_some_and(|told| told.declaration == declaration);
        let (lost, unconfirmed) = (self.fault(10), self.fault(5));
        let result = if unless_there && same {
            Ok(())
        } else if lost {
            Err("no answer".to_owned())
        } else {
            let sequence = self.bus.declare(declaration);
            self.after(5, 200, Event::NodeDeliver(node.clone(), sequence));
            if unconfirmed {
                Err("no answer".to_owned())
            } else {
                Ok(())
            }
        };
        if life == self.life {
            self.with(|controller, now| controller.handle_declared(&node, generation, result, now));
        }
    }

    /// Carries out effects, after the laws have seen them.
    fn does(&mut self, effects: Vec<Effect>) {
        let life = self.life;
        for effect in effects {
            self.look_at_effect(&effect);
            match effect {
                Effect::Store { ticket, changes } => {
                    self.store.queue.push_back((ticket, changes));
                    let at = self.last_commit.max(self.now) + self.chance.between(1, 30);
                    self.last_commit = at;
                    self.at(at, Event::Commit(life));
                }
                Effect::Reopen => self.after(20, 300, Event::Reopened(life)),
                Effect::Settle(key, how) => {
                    // Lost: it is delivered again after the ack wait.
                    if !self.fault(5) {
                        self.after(1, 30, Event::Settle(key, how));
                    }
                }
                Effect::Park { key, .. } => self.after(5, 300, Event::Park(life, key)),
                Effect::Assert { version, plan } => {
                    self.after(20, 800, Event::Assert(life, version, plan));
                }
                Effect::Declare {
                    declaration,
                    unless_there,
                } => self.after(5, 200, Event::Declare(life, declaration, unless_there)),
                Effect::Answer { to, answer } => {
                    let asks = |host: &Host| enrolment_answer(&host.token) == to;
                    let host = self.hosts.iter().position(asks);
                    if let (Some(at), false) = (host, self.fault(20)) {
                        self.after(5, 200, Event::Answered(at, answer));
                    }
                }
                Effect::Reply { id, result } => self.replied(id, &result),
                Effect::Note(Note::Held { why, .. }) if why == "the store is down" => {}
                Effect::Note(note) => self.trace(format!("note {note:?}")),
                Effect::Stop(_) => {}
            }
        }
    }

    pub(super) fn asserted(
        &mut self,
        life: u64,
        version: u64,
        plan: std::sync::Arc<mesh_derive::Plan>,
    ) {
        if life != self.life {
            return;
        }
        let (fails, in_part) = (self.fault(15), self.fault(50));
        if !fails || in_part {
            self.bus.plan = Some(plan);
        }
        let result = if fails {
            Err("no answer".to_owned())
        } else {
            Ok(())
        };
        self.with(|controller, now| controller.handle_asserted(version, result, now));
    }

    pub(super) fn parked(&mut self, life: u64, key: MessageKey) {
        if life != self.life {
            return;
        }
        let result = if self.fault(30) {
            Err("no answer".to_owned())
        } else {
            self.bus.parked.push(key);
            self.ran.parked += 1;
            Ok(())
        };
        self.with(|controller, _| controller.handle_parked(key, result));
    }

    fn replied(
        &mut self,
        id: CommandId,
        result: &Result<mesh_model::Revision, mesh_control::CommandError>,
    ) {
        self.trace(format!("command {} answered {result:?}", id.0));
    }
}
