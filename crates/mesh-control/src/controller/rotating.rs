//! Credentials of modules, replaced in time: what is due is looked for now and then, and done as a change of the records.

use mesh_model::{InstanceRef, Principal, PublicKey, Timestamp};

use super::Controller;
use super::lane::{Origin, Request, audit};
use crate::effect::{Effect, Note};
use crate::pause::passed;
use crate::placement::Mint;
use crate::rotation::{Turn, due, take};

impl<M: Mint> Controller<M> {
    /// A module says which key it uses. Nobody knows a key before its node was told it, so who names it has it.
    pub(super) fn hear_of_key(
        &mut self,
        instance: &InstanceRef,
        key: PublicKey,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let record = self.records.instances.get(instance);
        let record = record.filter(|record| record.key == key);
        if record.is_some_and(|record| record.life.retiring.is_some()) {
            self.keyed.insert(instance.clone(), key);
            self.looked_at_credentials = None;
            self.look_at_credentials(now);
            self.advance(now, effects);
        }
    }

    /// Queues what is due.
    pub(super) fn look_at_credentials(&mut self, now: Timestamp) {
        let recently = |looked| !passed(looked, now, LOOK_AGAIN);
        if self.looked_at_credentials.is_some_and(recently) {
            return;
        }
        if !self.store_is_up() || self.beginning || !self.lane.is_empty() {
            return;
        }
        self.looked_at_credentials = Some(now);
        let keyed = &self.keyed;
        let takes = |instance: &InstanceRef, key: &PublicKey| keyed.get(instance) == Some(key);
        let turns = due(&self.records, &self.settings.rotation, takes, now);
        if !turns.is_empty() {
            self.lane.push(Request::Credentials(turns));
        }
    }

    pub(super) fn begin_turns(
        &mut self,
        turns: &[(InstanceRef, Turn)],
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let mut next = self.records.clone();
        let (mut taken, mut told) = (false, Vec::new());
        for (instance, turn) in turns {
            let Some(record) = next.instances.get_mut(instance) else {
                continue;
            };
            let rotation = &self.settings.rotation;
            match take(instance, record, *turn, rotation, now, &mut self.mint) {
                Ok(true) => {
                    taken = true;
                    if turn.tells() {
                        told.push(Principal::Instance(instance.clone()).to_string());
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    let node = instance.node.clone();
                    effects.push(Effect::Note(Note::Node(node, error.to_string())));
                }
            }
        }
        if !taken {
            return;
        }
        // What nobody is told is no new revision: a plan somebody looked at stays good.
        let what = (!told.is_empty()).then(|| {
            next.revision = next.revision.next();
            let what = format!("replace credentials, or insist on it: {}", told.join(", "));
            audit(&next, now, "controller", &what)
        });
        self.store_change(Origin::Nobody, next, what, effects);
    }
}

/// Milliseconds between two looks: nothing of it is urgent.
const LOOK_AGAIN: u64 = 1_000;
