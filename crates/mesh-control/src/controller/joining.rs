//! Hosts that come with a token: queued, admitted, answered, and their joiners done with once the node is heard.

use mesh_derive::subject;
use mesh_model::{Enrolment, EnrolmentAnswer, EnrolmentRefusal, NodeName, Timestamp, TokenId};

use super::Controller;
use super::lane::{Origin, Request, audit};
use crate::effect::{Effect, Note};
use crate::enrolment::{Admission, admit};
use crate::message::MessageKey;
use crate::placement::Mint;

impl<M: Mint> Controller<M> {
    pub(super) fn queue_enrolment(&mut self, key: MessageKey, token: TokenId, request: Enrolment) {
        let request = Request::Enrolment(key, token, request);
        self.lane.push(request);
    }

    /// The token of a node that has not been heard since it was spent.
    pub(super) fn awaited(&self, node: &NodeName) -> Option<&TokenId> {
        let token = &self.records.nodes.get(node)?.token;
        let spent = self.records.tokens.get(token)?.spent.as_ref()?;
        (!spent.arrived && spent.node == *node).then_some(token)
    }

    /// A joiner whose node is heard is done with.
    pub(super) fn arrive(&mut self, node: &NodeName, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(token) = self.awaited(node).cloned() else {
            return;
        };
        let waits = |request: &Request| matches!(request, Request::Arrival(it) if *it == token);
        if self.store_is_up() && !self.lane.waits(waits) {
            self.lane.push(Request::Arrival(token));
            self.advance(now, effects);
        }
    }

    pub(super) fn begin_enrolment(
        &mut self,
        key: MessageKey,
        token: &TokenId,
        request: &Enrolment,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let to = request.reply.clone();
        match admit(
            &self.records,
            token,
            request,
            now,
            &self.settings.own_keys,
            &mut self.mint,
        ) {
            Admission::New { records, node } => {
                if let Err(error) = self.sound(&records) {
                    return self.park(key, error.to_string(), effects);
                }
                let what = format!("enrol node {node} with token {token}");
                let audit = audit(&records, now, &format!("joiner/{token}"), &what);
                let token = token.clone();
                let origin = Origin::Enrolment {
                    key,
                    to,
                    token,
                    node,
                };
                self.store_change(origin, *records, Some(audit), effects);
            }
            Admission::Again { node } => {
                let token = token.clone();
                let origin = Origin::Enrolment {
                    key,
                    to,
                    token,
                    node,
                };
                self.await_bus(origin, now, effects);
            }
            Admission::Refused(refusal) => {
                self.tally.refused += 1;
                effects.push(Effect::Note(Note::EnrolmentRefused(refusal.to_string())));
                // Where the request says only if that is the joiner's own: the controller may publish further than the
                // joiner may. Two hosts may come with one token, and each hears its own answer.
                let to = match &refusal {
                    EnrolmentRefusal::ForeignAddress { .. } => subject::enrolment_answer(token),
                    _ => to,
                };
                let answer = EnrolmentAnswer::Refused(refusal);
                effects.push(Effect::Answer { to, answer });
                self.finish(key, now, effects);
            }
        }
    }
}
