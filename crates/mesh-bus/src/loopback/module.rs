//! A module's side of the loopback.

use std::sync::Arc;

use mesh_derive::subject;
use mesh_model::{ConsumerRef, EventName, EventRef, InstanceRef, Principal, SeatName, Subject};
use tokio::sync::watch;

use super::queue::{Settled, Stored};
use super::state::{Shared, State, change_or};
use super::{Receipt, consumer};
use crate::seam::{BusError, Incoming, Listener, ModuleBus, ModuleSettlement, Source};

/// An instance of a module, over the loopback.
#[derive(Debug)]
pub struct LoopbackModule {
    shared: Arc<Shared>,
    instance: InstanceRef,
    principal: Principal,
}

/// An ear on one source. What the module may not hear it hears once it may.
#[derive(Debug)]
pub struct LoopbackListener {
    shared: Arc<Shared>,
    principal: Principal,
    from: ConsumerRef,
    deliver: Subject,
    /// Whether it could hear when it looked last.
    heard: bool,
    terms: watch::Sender<u64>,
}

impl LoopbackModule {
    pub(super) fn new(shared: Arc<Shared>, instance: InstanceRef) -> Self {
        Self {
            shared,
            principal: Principal::Instance(instance.clone()),
            instance,
        }
    }

    fn publish(&self, subject: Subject, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let message = Stored {
            subject,
            body,
            id: Some(id.to_owned()),
            why: None,
        };
        self.shared.publish(&self.principal, message).map(drop)
    }
}

impl ModuleBus for LoopbackModule {
    type Receipt = Receipt;
    type Listener = LoopbackListener;

    async fn emit(&self, event: &EventName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let event = EventRef {
            module: self.instance.module.clone(),
            event: event.clone(),
        };
        self.publish(subject::event(&event), id, body)
    }

    async fn send(&self, seat: &SeatName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        self.publish(subject::work(seat, &self.instance.module), id, body)
    }

    async fn listen(&self, source: Source) -> Result<LoopbackListener, BusError> {
        let module = &self.instance.module;
        let (deliver, from) = match &source {
            Source::Followed => (
                subject::deliver_module(module),
                consumer(subject::events_stream(), module.as_str())?,
            ),
            Source::Seat(seat) => (
                subject::deliver_seat(seat),
                consumer(subject::seat_stream(seat), seat.as_str())?,
            ),
        };
        Ok(LoopbackListener {
            shared: Arc::clone(&self.shared),
            principal: self.principal.clone(),
            from,
            deliver,
            heard: false,
            terms: watch::Sender::new(0),
        })
    }

    async fn settle(&self, receipt: &Receipt, how: ModuleSettlement) -> Result<(), BusError> {
        let how = match how {
            ModuleSettlement::Done => Settled::Done,
            ModuleSettlement::Working => Settled::Working,
            ModuleSettlement::Again(delay) => Settled::Again(delay),
        };
        self.shared.settle(&self.principal, receipt, how)
    }
}

impl LoopbackListener {
    /// What is next for it; what was carried to somebody else is nobody's to hear here.
    fn hear(&self, state: &mut State) -> Option<Incoming<Receipt>> {
        loop {
            let (receipt, stored) = state.deliver(&self.from)?;
            if let Some(subject) = own(&self.principal, &stored.subject) {
                let of = self.from.stream();
                let id = stored.id;
                return Some(Incoming {
                    id: id.unwrap_or_else(|| format!("{of}-{}", receipt.sequence)),
                    subject,
                    body: stored.body,
                    receipt,
                });
            }
            // One that cannot be settled comes again.
            let _again = state.settle(&self.principal, &receipt, Settled::Done);
        }
    }
}

impl Listener for LoopbackListener {
    type Receipt = Receipt;

    fn terms(&self) -> watch::Receiver<u64> {
        self.terms.subscribe()
    }

    async fn next(&mut self) -> Incoming<Receipt> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            let again = {
                let mut state = self.shared.state();
                // The group is called after the consumer.
                let group = Some(self.from.name());
                let may_hear = state.may_hear(&self.principal, &self.deliver, group);
                if std::mem::replace(&mut self.heard, may_hear) && !may_hear {
                    self.terms.send_modify(|term| *term += 1);
                }
                let hears = state.is_up() && may_hear;
                if hears && let Some(heard) = self.hear(&mut state) {
                    return heard;
                }
                state.wakes(&self.from).filter(|_| hears)
            };
            change_or(&mut changed, again).await;
        }
    }
}

/// What a module hears on a subject: an event that came from the other bus is what it was there. Nothing, where it was
/// carried to another module.
fn own(principal: &Principal, subject: &Subject) -> Option<Subject> {
    match (subject::carried(subject), principal) {
        (None, _) => Some(subject.clone()),
        (Some((to, event)), Principal::Instance(instance)) if to == instance.module => {
            Some(subject::event(&event))
        }
        (Some(_), _) => None,
    }
}
