//! Messages: heard, recorded, settled; held while the store does not take them, and let go in the end.

use std::collections::BTreeSet;

use mesh_model::{
    Generation, Heartbeat, InstanceRef, NodeName, Outcome, Report, ReportId, Seq, Timestamp,
};
use mesh_window::Verdict;

use super::{Controller, Parking, Presence, Rival, StoreState};
use crate::effect::{Effect, Note, Ticket};
use crate::fact::{Change, Fact, FactKey};
use crate::message::{Announcement, Message, MessageKey, Settlement};
use crate::placement::Mint;
use crate::status::LOST_AFTER;

impl<M: Mint> Controller<M> {
    /// A message was taken from a queue. One that is already being worked on is not begun again: it came a second time
    /// because the first takes long.
    pub fn handle_message(
        &mut self,
        key: MessageKey,
        message: Message,
        now: Timestamp,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.in_hand.insert(key) {
            return effects;
        }
        match message {
            Message::Malformed(why) => self.park(key, why, &mut effects),
            Message::Announced(
                module,
                Announcement {
                    release,
                    node,
                    key: uses,
                },
            ) => {
                self.tally.announced += 1;
                let instance = InstanceRef { module, node };
                if self.records.instances.contains_key(&instance) {
                    self.announced.insert(instance.clone(), release);
                }
                if let Some(uses) = uses {
                    self.hear_of_key(&instance, uses, now, &mut effects);
                }
                self.finish(key, now, &mut effects);
            }
            Message::Enrolment(token, request) => {
                if self.store_is_up() {
                    self.queue_enrolment(key, token, request);
                    self.advance(now, &mut effects);
                } else {
                    self.hold(key, STORE_IS_DOWN, now, &mut effects);
                }
            }
            Message::Report(node, report) => {
                if node == report.id.node {
                    self.hear_from(key, &report, now, &mut effects);
                    self.consider(key, report, now, &mut effects);
                } else {
                    let whose = &report.id.node;
                    let why = format!("node {node} published a report that says it is {whose}'s");
                    self.park(key, why, &mut effects);
                }
            }
        }
        effects
    }

    fn consider(
        &mut self,
        key: MessageKey,
        report: Report,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(declared) = self.declarations.get(&report.id.node) else {
            let what = format!("report {} of a node that is none", report.id);
            effects.push(Effect::Note(Note::Ignored(what)));
            return self.finish(key, now, effects);
        };
        if report.id.generation != declared.generation {
            self.tally.superseded += 1;
            let what = format!("report {}: declared is {}", report.id, declared.generation);
            effects.push(Effect::Note(Note::Ignored(what)));
            return self.finish(key, now, effects);
        }
        if self.is_recorded(&report) {
            self.tally.repeated += 1;
            return self.finish(key, now, effects);
        }
        if !self.store_is_up() {
            return self.hold(key, STORE_IS_DOWN, now, effects);
        }
        let changes = self.recording(&report);
        self.in_store.insert(key, report);
        effects.push(Effect::Store {
            ticket: Ticket::Message(key),
            changes,
        });
    }

    /// Whether this very report is kept, or was and had to make room. A newer one that is kept says nothing about it:
    /// one that was held comes after those that were not.
    fn is_recorded(&self, report: &Report) -> bool {
        let Some(kept) = self.reports.get(&report.id.node) else {
            return false;
        };
        let full = kept.len() >= self.settings.reports_kept;
        let passed = kept
            .front()
            .is_some_and(|oldest| full && order(report) < order(oldest));
        passed || kept.iter().rev().any(|other| other.id == report.id)
    }

    /// Keeps a report, and no more of the node's than are kept.
    fn recording(&self, report: &Report) -> Vec<Change> {
        let node = &report.id.node;
        let kept = self.reports.get(node).into_iter().flatten();
        // Those on their way to the store will be there before this one.
        let ahead = self.in_store.values().filter(|r| r.id.node == *node);
        let mut all: BTreeSet<&ReportId> = kept.chain(ahead).map(|r| &r.id).collect();
        all.insert(&report.id);
        let surplus = all.len().saturating_sub(self.settings.reports_kept.max(1));
        let oldest = all.into_iter().filter(|id| **id != report.id).take(surplus);
        let mut changes = vec![Change::Put(Fact::Report(report.clone()))];
        changes.extend(oldest.map(|old| Change::Remove(FactKey::Report(old.clone()))));
        changes
    }

    pub(super) fn report_taken(
        &mut self,
        key: MessageKey,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(report) = self.in_store.remove(&key) {
            // Two copies may have been on their way to the store at once: they are one report.
            if self.is_recorded(&report) {
                self.tally.repeated += 1;
            } else {
                self.tally.recorded += 1;
            }
            if self.records.nodes.contains_key(&report.id.node) {
                let kept = self.reports.entry(report.id.node.clone()).or_default();
                let at = kept.partition_point(|other| order(other) < order(&report));
                if kept.get(at).is_none_or(|other| other.id != report.id) {
                    kept.insert(at, report);
                }
                while kept.len() > self.settings.reports_kept.max(1) {
                    kept.pop_front();
                }
            }
        }
        self.finish(key, now, effects);
    }

    /// A message is done with, and its window closed if it was held.
    pub(super) fn finish(&mut self, key: MessageKey, now: Timestamp, effects: &mut Vec<Effect>) {
        self.note_taken(key, now, effects);
        self.settle(key, Settlement::Done, effects);
    }

    pub(super) fn note_taken(
        &mut self,
        key: MessageKey,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(opened) = self.window.taken(&key) {
            let after = now.as_millis().saturating_sub(opened);
            effects.push(Effect::Note(Note::Taken { key, after }));
        }
    }

    /// The store does not take a message: it stays with the bus, until the bound passes.
    pub(super) fn hold(
        &mut self,
        key: MessageKey,
        why: &str,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let seed = self.settings.seed ^ key.sequence.rotate_left(17);
        match self.window.refused(&key, now.as_millis(), seed) {
            Verdict::Hold { retry_in } => {
                let why = why.to_owned();
                effects.push(Effect::Note(Note::Held { key, why }));
                self.settle(key, Settlement::Hold(retry_in), effects);
            }
            Verdict::LetGo { held_for } => {
                let why = format!("held for {} s: {why}", held_for.as_secs());
                let held_for = u64::try_from(held_for.as_millis()).unwrap_or(u64::MAX);
                let opened = Some(now.as_millis().saturating_sub(held_for));
                self.begin_parking(key, Parking { why, opened }, effects);
            }
        }
    }

    /// Has a copy kept before the message is let go.
    pub(super) fn park(&mut self, key: MessageKey, why: String, effects: &mut Vec<Effect>) {
        let opened = None;
        self.begin_parking(key, Parking { why, opened }, effects);
    }

    fn begin_parking(&mut self, key: MessageKey, parking: Parking, effects: &mut Vec<Effect>) {
        let why = parking.why.clone();
        self.parking.insert(key, parking);
        effects.push(Effect::Park { key, why });
    }

    /// The copy is kept, or could not be; then the message stays and comes again.
    pub fn handle_parked(&mut self, key: MessageKey, result: Result<(), String>) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(Parking { why, opened }) = self.parking.remove(&key) else {
            return effects;
        };
        match result {
            Ok(()) => {
                self.tally.let_go += 1;
                let _closed = self.window.taken(&key);
                effects.push(Effect::Note(Note::LetGo { key, why }));
                self.settle(key, Settlement::Done, &mut effects);
            }
            Err(error) => {
                if let Some(opened) = opened {
                    // It goes on being as old as it is: the next time it is let go at once, or taken.
                    let _held = self.window.refused(&key, opened, self.settings.seed);
                    self.overdue.insert(key);
                }
                let why = format!("{why}; no copy could be kept: {error}");
                effects.push(Effect::Note(Note::Held { key, why }));
                let again = Settlement::Hold(self.settings.window.cap);
                self.settle(key, again, &mut effects);
            }
        }
        effects
    }

    /// Closes the windows of messages that will not come again: one whose settlement was still on its way when it came a
    /// second time is held here and gone from the bus. One that is to come again does so long before.
    pub(super) fn forget_gone(&mut self, now: Timestamp) {
        let bound = self.settings.window.bound.as_millis();
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        let gone = bound.saturating_mul(2).saturating_add(GONE_AFTER);
        while let Some((key, opened)) = self.window.oldest() {
            let key = *key;
            let waits = self.in_hand.contains(&key) || self.overdue.contains(&key);
            if waits || now.as_millis().saturating_sub(opened) < gone {
                return;
            }
            let _closed = self.window.taken(&key);
        }
    }

    pub(super) fn settle(&mut self, key: MessageKey, how: Settlement, effects: &mut Vec<Effect>) {
        self.in_hand.remove(&key);
        if how == Settlement::Done {
            self.overdue.remove(&key);
        }
        effects.push(Effect::Settle(key, how));
    }

    /// A node lives. Nothing durable changes, except that a joiner whose node is heard is done with.
    pub fn handle_heartbeat(&mut self, heartbeat: Heartbeat, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        let node = heartbeat.node.clone();
        if !self.records.nodes.contains_key(&node) {
            return effects;
        }
        self.tally.heartbeats += 1;
        if self.awaited(&node).is_some() && !self.bus_is_current() {
            // The bus may not know the node's key yet, but still the key of the host it replaces.
            return effects;
        }
        let before = self.presence.get(&node);
        // A later run whose clock was set back is believed once the one before has been silent for long enough.
        let speaks = |before: &Presence| now.since(before.heard) < LOST_AFTER;
        if before.is_some_and(|b| b.heartbeat.session > heartbeat.session && speaks(b)) {
            self.rival_heard(node, heartbeat.session, now, &mut effects);
            return effects;
        }
        let newly_deaf = heartbeat.deaf && before.is_none_or(|before| !before.heartbeat.deaf);
        let behind = before.and_then(|before| before.behind);
        let behind = self
            .is_behind(&heartbeat)
            .then(|| behind.unwrap_or(now).min(now));
        let presence = Presence {
            heard: now,
            heartbeat,
            behind,
        };
        self.presence.insert(node.clone(), presence);
        if newly_deaf {
            let what = "it hears nothing from its consumer".to_owned();
            effects.push(Effect::Note(Note::Node(node.clone(), what)));
            self.look_at_consumers(now, &mut effects);
        }
        if behind.is_some_and(|since| now.since(since) >= self.settings.ask_again) {
            self.tell_again(&node, now, &mut effects);
        }
        self.arrive(&node, now, &mut effects);
        effects
    }

    /// An earlier run of an agent speaks beside a later one: what it says changes nothing, and neither does its silence. It is
    /// said once, until it has been silent for long.
    fn rival_heard(
        &mut self,
        node: NodeName,
        session: u64,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if self.rival(&node, now).is_none() {
            let what = format!(
                "an earlier run of its agent still speaks; do two hosts share a credential? `meshctl node rejoin {node}` gives \
                 one of them another, and cuts the other off"
            );
            effects.push(Effect::Note(Note::Node(node.clone(), what)));
        }
        let heard = now;
        self.rivals.insert(node, Rival { session, heard });
    }

    /// The session of an earlier run of a node's agent that was heard lately beside a later one.
    pub(crate) fn rival(&self, node: &NodeName, now: Timestamp) -> Option<u64> {
        let rival = self.rivals.get(node)?;
        (now.since(rival.heard) < LOST_AFTER).then_some(rival.session)
    }

    /// Whether a node's own account differs from what it was told or from what is recorded of it: its declaration or
    /// its report may have been lost.
    fn is_behind(&self, heartbeat: &Heartbeat) -> bool {
        if self.store != StoreState::Up {
            return false;
        }
        let Some(declared) = self.declarations.get(&heartbeat.node) else {
            return false;
        };
        // Asked for again, what the store never takes would be let go again.
        let last = (declared.generation, heartbeat.seq);
        if self.unstorable.get(&heartbeat.node) == Some(&last) {
            return false;
        }
        let applied = heartbeat.applied == Some(declared.generation);
        let newest = self.newest_report(&heartbeat.node);
        newest.is_none_or(|newest| {
            // A node that stands by what it says of the declaration has it, and works on it, or tries again by itself.
            let unfinished = match newest.outcome {
                Outcome::Failed { .. } | Outcome::Converging => true,
                Outcome::Converged => false,
            };
            let stands = unfinished && newest.id.seq == heartbeat.seq;
            newest.id.generation != declared.generation
                || newest.id.seq < heartbeat.seq
                || !(applied || stands)
        })
    }
}

/// Oldest first.
fn order(report: &Report) -> (Generation, Seq) {
    (report.id.generation, report.id.seq)
}

/// Milliseconds past twice the bound until a message that was held and did not come again is gone.
const GONE_AFTER: u64 = 60_000;

/// Why a message is held that was not even tried.
const STORE_IS_DOWN: &str = "the store is down";
