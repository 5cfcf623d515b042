//! Both ends of the conversation, without I/O: the controller and the agent as state machines over values.
//!
//! Facts go in with the time they happened, work comes out as effects. Whoever carries the effects out (`mesh-bus` does,
//! over any bus; the simulator does, over none) decides nothing.

mod fact;
mod message;

pub use fact::{AuditFact, Change, Fact, FactKey, Kept, MeshFact};
pub use message::{Announcement, Message, MessageKey, NodeSettlement, Queue, Settlement};
