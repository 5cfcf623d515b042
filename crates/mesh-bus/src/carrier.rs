//! A controller's hands on one bus of a mesh of two.
//!
//! What waits there for readers who are all on the other bus is taken, put down on that one, and only then settled. So a
//! message is on at least one of them until its reader has it, and a reader may be brought one twice: under the same id.

use std::future::Future;

use mesh_model::Subject;

use crate::seam::{BusError, ModuleSettlement};

/// Takes what waits on this bus for readers on the other, and puts down what comes from there.
///
/// A future here may be dropped before it is ready only where its method says so.
pub trait Carrier: Send + Sync + 'static {
    /// What settling takes.
    type Load: Clone + Send + Sync + 'static;

    /// Waits for the next message of a consumer of [`Plan::carried`](mesh_derive::Plan::carried), of the plan asserted
    /// last. What a plan before had read and this one has not is left: it comes to who reads there now. May be dropped, and
    /// then nothing was taken.
    fn load(&self) -> impl Future<Output = Carried<Self::Load>> + Send;

    /// Settles it: done once the other bus has it, again where that cannot take it now, working while it is tried.
    fn unload(
        &self,
        load: &Self::Load,
        how: ModuleSettlement,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Publishes here what came from the other bus, and waits until this bus has it. Under this id its reader hears it.
    /// The bus itself must not take it for one it had before: a piece of work may come back to where it was sent, and be
    /// new there. So one that is put twice may be there twice.
    fn put(
        &self,
        to: &Subject,
        id: &str,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<(), BusError>> + Send;
}

/// A message on its way from one bus to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried<L> {
    /// Where it goes on the other bus: to the module that follows the event
    /// ([`subject::carry`](mesh_derive::subject::carry)), or to the seat it was sent to, in its sender's name.
    pub to: Subject,
    /// The id its module gave it.
    pub id: String,
    /// What it says.
    pub body: Vec<u8>,
    /// What settling it takes.
    pub load: L,
}
