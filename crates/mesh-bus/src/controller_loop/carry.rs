//! Carrying out: each effect becomes work on the bus or in the store, and its end becomes something that happened.

use std::sync::Arc;

use mesh_control::{Effect, Mint};
use mesh_model::{Declaration, StreamSpec};
use mesh_wire::{Mark, SignedKind, encode_declaration, encode_enrolment_answer, encode_mark};
use tokio::sync::watch;
use tokio::time::sleep;

use super::note::log;
use super::{ControllerLoop, Happening, LoopError, TAKE_AGAIN};
use crate::ledger::Ledger;
use crate::seam::{BusError, ControllerBus};
use crate::signing::Signer;

impl<B, L, M> ControllerLoop<B, L, M>
where
    B: ControllerBus,
    L: Ledger,
    M: Mint + Send + 'static,
{
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), LoopError> {
        for effect in effects {
            match effect {
                Effect::Stop(why) => return Err(LoopError::Store(why)),
                Effect::Note(note) => log(&note),
                Effect::Store { ticket, changes } => {
                    // Where nobody takes it any more, the loop is about to hear why.
                    let _gone = self.commits.send((ticket, changes));
                }
                Effect::Reply { id, result } => {
                    if let Some(answer) = self.replies.remove(&id) {
                        // Whoever asked may have gone; the change is made all the same.
                        let _unheard = answer.send(result);
                    }
                }
                other => self.begin(other),
            }
        }
        Ok(())
    }

    /// Begins what takes time.
    fn begin(&mut self, effect: Effect) {
        let bus = Arc::clone(&self.bus);
        match effect {
            Effect::Reopen => {
                let ledger = Arc::clone(&self.ledger);
                self.happenings
                    .spawn(async move { Happening::Reopened(ledger.reopen().await) });
            }
            Effect::Settle(key, how) => {
                let Some(held) = self.in_hand.remove(&key) else {
                    return;
                };
                self.happenings.spawn(async move {
                    // One that could not be settled comes again after the ack wait, and is then known.
                    passed_over(
                        bus.settle(&held.receipt, how).await,
                        "a message could not be settled",
                    )
                });
            }
            Effect::Park { key, why } => {
                let Some(held) = self.in_hand.get(&key) else {
                    return;
                };
                let (subject, body) = (held.subject.clone(), held.body.clone());
                self.happenings.spawn(async move {
                    let result = bus.park(&subject, body, &why).await;
                    Happening::Parked(key, result.map_err(|error| error.to_string()))
                });
            }
            Effect::Assert { version, plan } => {
                self.happenings
                    .spawn(async move { Happening::Asserted(version, bus.assert(&plan).await) });
            }
            Effect::Declare {
                declaration,
                unless_there,
            } => {
                let (signer, turn) = (self.signer.clone(), Arc::clone(&self.declaring));
                self.happenings.spawn(async move {
                    let _turn = turn.acquire_owned().await;
                    let result = declare(&*bus, &signer, &declaration, unless_there).await;
                    Happening::Declared(declaration.node, declaration.generation, result)
                });
            }
            Effect::Answer { to, answer } => {
                let body = encode_enrolment_answer(&answer);
                let body = self.signer.seal(SignedKind::EnrolmentAnswer, &body);
                self.happenings.spawn(async move {
                    // A host that hears nothing asks again, and gets the same answer.
                    passed_over(
                        bus.answer(&to, body).await,
                        "an enrolment could not be answered",
                    )
                });
            }
            Effect::Stop(_) | Effect::Note(_) | Effect::Store { .. } | Effect::Reply { .. } => {}
        }
    }
}

/// Takes over, as soon as the bus can be reached. One that holds nothing yet has no epoch to take: the mesh's own streams
/// come first, and nothing else before the store has what the rest follows from.
pub(super) async fn take_over<B: ControllerBus>(
    bus: &B,
    own: &[StreamSpec],
) -> Result<(), BusError> {
    loop {
        match bus.take_over().await {
            Err(error) if !error.is_final() => tracing::debug!(%error, "not taken over yet"),
            ended => return ended,
        }
        match bus.make_streams(own).await {
            Ok(()) if bus.take_over().await.is_ok() => return Ok(()),
            Ok(()) => {}
            Err(error) if error.is_final() => return Err(error),
            Err(error) if error.is_passing() => {
                tracing::debug!(%error, "the mesh's own streams are not there yet");
            }
            Err(error) => {
                tracing::warn!(%error, "the mesh's own streams cannot be made; it is tried again");
            }
        }
        sleep(TAKE_AGAIN).await;
    }
}

async fn declare<B: ControllerBus>(
    bus: &B,
    signer: &Signer,
    declaration: &Declaration,
    unless_there: bool,
) -> Result<(), BusError> {
    let body = encode_declaration(declaration);
    let body = signer.seal(SignedKind::Declaration, &body);
    let node = &declaration.node;
    if unless_there && bus.declared(node).await?.as_ref() == Some(&body) {
        return Ok(());
    }
    bus.declare(node, body).await
}

/// Leaves the newest mark on the bus whenever there is a newer one. Only ever after the commit it tells of: a mark ahead
/// of its store would mean that the store lost something. Ends with an error when no mark can be left any more.
pub(super) async fn leave_marks<B: ControllerBus>(
    bus: Arc<B>,
    mut marks: watch::Receiver<Option<Mark>>,
) -> Result<(), BusError> {
    while marks.changed().await.is_ok() {
        let mark = *marks.borrow_and_update();
        let Some(mark) = mark else { continue };
        match bus.leave_mark(encode_mark(&mark)).await {
            Err(error) if error.is_final() => return Err(error),
            Err(error) => tracing::debug!(%error, "no mark could be left"),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// What failed and comes right by itself.
fn passed_over<R>(result: Result<(), BusError>, what: &str) -> Happening<R> {
    if let Err(error) = result {
        tracing::debug!(%error, "{what}");
    }
    Happening::Nothing
}
