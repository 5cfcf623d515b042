//! Both ends of the conversation, without I/O: the controller and the agent as state machines over values.
//!
//! Facts go in with the time they happened, work comes out as effects. Whoever carries the effects out (`mesh-bus` does,
//! over any bus; the simulator does, over none) decides nothing.

mod agent;
mod amend;
mod controller;
pub mod convergence;
mod effect;
mod enrolment;
mod fact;
mod failover;
mod message;
mod pause;
mod placement;
mod preview;
mod rotation;
mod secrets;
mod spread;
mod status;

pub use agent::{Agent, AgentEffect, AgentSettings, InHand, Remembered};
pub use amend::{Command, CommandError};
pub use controller::{Controller, Settings, Start, Tally};
pub use effect::{CommandId, Effect, Note, StoreRefusal, Ticket};
pub use fact::{AuditFact, Change, Fact, FactKey, Kept, MeshFact};
pub use message::{Announcement, Message, MessageKey, NodeSettlement, Queue, Settlement};
pub use placement::{Mint, MintError, Minted, Places};
pub use preview::{Chosen, Preview};
pub use rotation::Rotation;
pub use secrets::{SECRET_LIMIT, uses_of_secrets};
pub use status::{
    Candidate, HeldBy, LOST_AFTER, ModuleStatus, MovingStatus, NodeState, NodeStatus, SeatStatus,
    Status, WindowStatus,
};
