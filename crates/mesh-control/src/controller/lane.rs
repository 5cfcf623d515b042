//! Changes of the records: one at a time, each decided on what the one before it left, none visible before it is stored.

use std::collections::{BTreeMap, VecDeque};

use mesh_model::{
    Declaration, Enrolment, EnrolmentAnswer, EnrolmentRefusal, InstanceRef, NodeName, Records,
    Revision, SeatName, Subject, Timestamp, TokenId,
};

use super::moving::Step;
use super::{Controller, StoreState};
use crate::amend::{Command, CommandError, amend};
use crate::effect::{CommandId, Effect, Note, Ticket};
use crate::fact::{AuditFact, Change, Fact, FactKey, changes};
use crate::message::MessageKey;
use crate::placement::{Mint, declarations};
use crate::rotation::Turn;

/// What waits to change the records, and what is changing them.
#[derive(Debug, Default)]
pub(super) struct Lane {
    waiting: VecDeque<Request>,
    storing: Option<Pending>,
}

impl Lane {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.storing.is_none()
    }

    pub(super) fn push(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// Whether such a request waits.
    pub(super) fn waits(&self, is: impl Fn(&Request) -> bool) -> bool {
        self.waiting.iter().any(is)
    }
}

#[derive(Debug)]
pub(super) enum Request {
    Command(CommandId, Command, String),
    Enrolment(MessageKey, TokenId, Enrolment),
    /// The node of this token was heard.
    Arrival(TokenId),
    /// Tokens past their time.
    Expiry(Vec<TokenId>),
    /// A step of a node's way to another bus.
    Step(NodeName, Step),
    /// The holder of this seat is lost.
    Failover(SeatName),
    /// What is due of modules' credentials.
    Credentials(Vec<(InstanceRef, Turn)>),
}

/// A change being stored.
#[derive(Debug)]
struct Pending {
    origin: Origin,
    records: Records,
    declarations: Vec<Declaration>,
    /// In one sentence, for the log and the audit; nothing for housekeeping, which nobody decides: it follows from what
    /// was decided before and from time, so it is no new revision and a plan somebody looked at stays good.
    what: Option<String>,
}

/// Who waits for a change.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// Nobody.
    Nobody,
    /// An operator, for the revision the command makes.
    Command(CommandId, Revision),
    /// A host.
    Enrolment {
        key: MessageKey,
        to: Subject,
        token: TokenId,
        node: NodeName,
    },
}

impl<M: Mint> Controller<M> {
    /// An operator asks for a change. `who` is kept with it.
    pub fn handle_command(
        &mut self,
        id: CommandId,
        command: Command,
        who: String,
        now: Timestamp,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.store_is_up() {
            let request = Request::Command(id, command, who);
            self.lane.waiting.push_back(request);
            self.advance(now, &mut effects);
        } else {
            refuse(id, "it is down", &mut effects);
        }
        effects
    }

    /// Queues a step of a node's way to another bus, unless it waits already.
    pub(super) fn queue_step(&mut self, node: &NodeName, step: Step) {
        let waits = |request: &Request| matches!(request, Request::Step(it, at) if it == node && *at == step);
        if self.store_is_up() && !self.lane.waiting.iter().any(waits) {
            self.lane
                .waiting
                .push_back(Request::Step(node.clone(), step));
        }
    }

    pub(super) fn expire_tokens(&mut self, now: Timestamp) {
        if !self.store_is_up() || !self.lane.is_empty() {
            return;
        }
        let expired: Vec<TokenId> = self
            .records
            .tokens
            .iter()
            .filter(|(_, token)| now >= token.expires)
            .map(|(id, _)| id.clone())
            .collect();
        if !expired.is_empty() {
            self.lane.waiting.push_back(Request::Expiry(expired));
        }
    }

    /// A new life of the records: every node is told anew, newer than anything it can have heard.
    pub(super) fn begin_incarnation(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.lane.storing.is_some() {
            // It is begun already, and how that ends is not heard yet.
            return;
        }
        let mut next = self.records.clone();
        next.incarnation = next.incarnation.saturating_add(1).max(now.as_secs());
        next.revision = next.revision.next();
        let what = format!("begin incarnation {}", next.incarnation);
        let audit = audit(&next, now, "controller", &what);
        self.store_change(Origin::Nobody, next, Some(audit), effects);
    }

    /// Begins waiting changes while none is being stored.
    pub(super) fn advance(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        while self.store == StoreState::Up && self.lane.storing.is_none() {
            let Some(request) = self.lane.waiting.pop_front() else {
                return;
            };
            match request {
                Request::Command(id, command, who) => {
                    self.begin_command(id, &command, &who, now, effects);
                }
                Request::Enrolment(key, token, request) => {
                    self.begin_enrolment(key, &token, &request, now, effects);
                }
                Request::Arrival(token) => {
                    let mut next = self.records.clone();
                    let record = next.tokens.get_mut(&token);
                    let spent = record.and_then(|record| record.spent.as_mut());
                    if let Some(spent) = spent.filter(|spent| !spent.arrived) {
                        spent.arrived = true;
                        self.store_change(Origin::Nobody, next, None, effects);
                    }
                }
                Request::Step(node, step) => self.begin_step(&node, step, now, effects),
                Request::Failover(seat) => self.begin_failover(&seat, now, effects),
                Request::Credentials(turns) => self.begin_turns(&turns, now, effects),
                Request::Expiry(tokens) => {
                    let mut next = self.records.clone();
                    next.tokens.retain(|id, _| !tokens.contains(id));
                    self.store_change(Origin::Nobody, next, None, effects);
                }
            }
        }
    }

    fn begin_command(
        &mut self,
        id: CommandId,
        command: &Command,
        who: &str,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let result = amend(
            &self.records,
            command,
            &self.settings.places,
            now,
            &mut self.mint,
        )
        .and_then(|(next, what)| self.sound(&next).map(|()| (next, what)));
        match result {
            Ok((next, what)) => {
                let audit = audit(&next, now, who, &what);
                let origin = Origin::Command(id, next.revision);
                self.store_change(origin, next, Some(audit), effects);
            }
            Err(error) => effects.push(Effect::Reply {
                id,
                result: Err(error),
            }),
        }
    }

    /// Commits new records, with every declaration that follows from them.
    pub(super) fn store_change(
        &mut self,
        origin: Origin,
        records: Records,
        audit: Option<AuditFact>,
        effects: &mut Vec<Effect>,
    ) {
        let joined = match &origin {
            Origin::Enrolment { node, .. } => Some(node),
            Origin::Nobody | Origin::Command(..) => None,
        };
        let declarations =
            declarations(&records, &self.settings.places, &self.declarations, joined);
        let mut changes = changes(&self.records, &records);
        let here = &self.records.nodes;
        for node in here
            .keys()
            .filter(|node| !records.nodes.contains_key(*node))
        {
            changes.push(Change::Remove(FactKey::Declaration(node.clone())));
            let kept = self.reports.get(node).into_iter().flatten();
            let storing = self.in_store.values().filter(|r| r.id.node == *node);
            let reports: BTreeMap<_, _> = kept.chain(storing).map(|r| (&r.id, r)).collect();
            let reports = reports.into_values();
            changes.extend(reports.map(|r| Change::Remove(FactKey::Report(r.id.clone()))));
        }
        let told = declarations.iter().cloned().map(Fact::Declaration);
        changes.extend(told.map(Change::Put));
        let what = audit.as_ref().map(|audit| audit.what.clone());
        changes.extend(audit.map(|audit| Change::Put(Fact::Audit(audit))));
        self.lane.storing = Some(Pending {
            origin,
            records,
            declarations,
            what,
        });
        effects.push(Effect::Store {
            ticket: Ticket::Records,
            changes,
        });
    }

    /// The change is on disk: it is what there is, and goes outward.
    pub(super) fn change_taken(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(pending) = self.lane.storing.take() else {
            return;
        };
        if let Some(what) = pending.what {
            effects.push(Effect::Note(Note::Changed(pending.records.revision, what)));
        }
        self.records = pending.records;
        self.beginning = false;
        self.records_changed();
        for declaration in pending.declarations {
            self.tell(declaration);
        }
        if let Origin::Enrolment { key, node, .. } = &pending.origin {
            // What was heard under this name was the host before.
            self.presence.remove(node);
            self.rivals.remove(node);
            self.unstorable.remove(node);
            self.tally.enrolled += 1;
            self.note_taken(*key, now, effects);
            effects.push(Effect::Note(Note::Enrolled(node.clone())));
        }
        self.await_bus(pending.origin, now, effects);
        self.advance(now, effects);
    }

    /// The store never will take the change: whoever asked for it hears so, and others go on.
    pub(super) fn change_impossible(
        &mut self,
        why: String,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.lane.storing.take() else {
            return;
        };
        match pending.origin {
            Origin::Nobody if self.beginning => {
                let what = format!("the store does not take a new incarnation: {why}");
                effects.push(Effect::Stop(what));
                return;
            }
            Origin::Enrolment { key, .. } => self.park(key, why, effects),
            origin => self.give_up(origin, &why, now, effects),
        }
        self.advance(now, effects);
    }

    /// The change is not known to be on disk: nobody is told that it is.
    pub(super) fn change_in_doubt(&mut self, why: &str, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(pending) = self.lane.storing.take() else {
            return;
        };
        self.give_up(pending.origin, why, now, effects);
        for request in std::mem::take(&mut self.lane.waiting) {
            match request {
                Request::Command(id, ..) => refuse(id, why, effects),
                Request::Enrolment(key, ..) => self.hold(key, why, now, effects),
                Request::Arrival(_)
                | Request::Expiry(_)
                | Request::Step(..)
                | Request::Failover(_)
                | Request::Credentials(_) => {}
            }
        }
    }

    fn give_up(&mut self, origin: Origin, why: &str, now: Timestamp, effects: &mut Vec<Effect>) {
        match origin {
            Origin::Nobody => {}
            Origin::Command(id, _) => refuse(id, why, effects),
            Origin::Enrolment { key, .. } => self.hold(key, why, now, effects),
        }
    }

    /// What was waited for is true on the bus.
    pub(super) fn complete(&mut self, origin: Origin, now: Timestamp, effects: &mut Vec<Effect>) {
        match origin {
            Origin::Nobody => {}
            Origin::Command(id, revision) => effects.push(Effect::Reply {
                id,
                result: Ok(revision),
            }),
            Origin::Enrolment {
                key,
                to,
                token,
                node,
            } => {
                // While the bus was awaited, the node may have been removed, or replaced by another host.
                let record = self.records.nodes.get(&node);
                let answer = if record.is_some_and(|record| record.token == token) {
                    EnrolmentAnswer::Accepted {
                        mesh: self.records.declared.mesh.clone(),
                        node,
                        bus: self.records.bus.clone(),
                        jwt: None,
                    }
                } else {
                    EnrolmentAnswer::Refused(EnrolmentRefusal::Spent { token, node })
                };
                effects.push(Effect::Answer { to, answer });
                self.finish(key, now, effects);
            }
        }
    }
}

fn refuse(id: CommandId, why: &str, effects: &mut Vec<Effect>) {
    let result = Err(CommandError::Store(why.to_owned()));
    effects.push(Effect::Reply { id, result });
}

pub(super) fn audit(records: &Records, at: Timestamp, who: &str, what: &str) -> AuditFact {
    AuditFact {
        revision: records.revision,
        at,
        who: who.to_owned(),
        what: what.to_owned(),
    }
}
