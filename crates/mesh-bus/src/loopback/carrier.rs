//! The controller's hands on a loopback that is one bus of two.

use std::sync::PoisonError;

use mesh_derive::subject;
use mesh_model::{ConsumerRef, Principal, Subject};

use super::Receipt;
use super::controller::LoopbackController;
use super::queue::{Settled, Stored};
use super::state::{State, change_or};
use crate::carrier::{Carried, Carrier};
use crate::seam::{BusError, ModuleSettlement};

impl LoopbackController {
    /// One of each by turns: the backlog of one must not keep the others waiting.
    fn load_ready(&self, state: &mut State) -> Option<Carried<Receipt>> {
        let mut last = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, after): (Vec<ConsumerRef>, Vec<ConsumerRef>) = state
            .carried
            .iter()
            .cloned()
            .partition(|consumer| last.as_ref().is_some_and(|last| consumer <= last));
        after.into_iter().chain(before).find_map(|consumer| {
            let loaded = load_from(state, &consumer)?;
            *last = Some(consumer);
            Some(loaded)
        })
    }
}

fn load_from(state: &mut State, consumer: &ConsumerRef) -> Option<Carried<Receipt>> {
    let deliver = state.delivers_to(consumer)?;
    let hears = state.may_hear(&Principal::Controller, &deliver, Some(consumer.name()));
    let (load, stored) = hears.then(|| state.deliver(consumer))??;
    let of = consumer.stream();
    let id = stored
        .id
        .unwrap_or_else(|| format!("{of}-{}", load.sequence));
    Some(Carried {
        to: destination(consumer, stored.subject),
        id,
        body: stored.body,
        load,
    })
}

/// Work goes where it was sent, and so does what came from the other bus before; an event goes to the module that
/// follows it.
fn destination(consumer: &ConsumerRef, subject: Subject) -> Subject {
    match (subject::heard(&subject), consumer.name().parse()) {
        (Some(subject::Heard::Event(event)), Ok(module)) => subject::carry(&module, &event),
        _ => subject,
    }
}

impl Carrier for LoopbackController {
    type Load = Receipt;

    async fn load(&self) -> Carried<Receipt> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            let again = {
                let mut state = self.shared.state();
                let may = state.is_up() && self.require_not_over(&state).is_ok();
                if may && let Some(loaded) = self.load_ready(&mut state) {
                    return loaded;
                }
                let carried = state.carried.iter();
                let wakes = carried.filter_map(|consumer| state.wakes(consumer));
                // What is due and was not handed out waits for something else to change.
                wakes
                    .filter(|at| may && *at > tokio::time::Instant::now())
                    .min()
            };
            change_or(&mut changed, again).await;
        }
    }

    async fn unload(&self, load: &Receipt, how: ModuleSettlement) -> Result<(), BusError> {
        let how = match how {
            ModuleSettlement::Done => Settled::Done,
            ModuleSettlement::Working => Settled::Working,
            ModuleSettlement::Again(delay) => Settled::Again(delay),
        };
        self.shared.settle(&Principal::Controller, load, how)
    }

    async fn put(&self, to: &Subject, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let message = Stored {
            subject: to.clone(),
            body,
            id: Some(id.to_owned()),
            why: None,
        };
        self.shared.change(|state| {
            self.require_not_over(state)?;
            state.bring(message).map(drop)
        })
    }
}
