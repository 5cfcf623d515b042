//! The seam: what a bus must do, the two loops over it, the loopback and the conformance suite.

mod agent_loop;
mod backlog;
mod both;
mod carrier;
pub mod conformance;
mod controller_loop;
mod disturbed;
mod ended;
mod handover;
mod ledger;
mod logs;
pub mod loopback;
mod proof;
mod seam;
mod signing;
mod understand;

pub use agent_loop::{AgentLoop, AgentParts, Doing, Memory, Seen, States, Workloads};
pub use backlog::Backlog;
pub use both::{Both, BothReceipt};
pub use carrier::{Carried, Carrier};
pub use controller_loop::{ControllerHandle, ControllerLoop, ControllerParts, Gone, LoopError};
pub use disturbed::Disturbed;
pub use handover::{HandOver, Readers, SeatAuthority, hand_over};
pub use ledger::Ledger;
pub use logs::{
    LOG_LINE, LogDesk, LogLines, LogSource, NoLog, Read, ReadEnd, Reading, TooManyReadings,
    answer_asks,
};
pub use mesh_control::{MessageKey, NodeSettlement, Queue, Settlement};
pub use proof::{Attempted, Prober, Proven, UnprovenError};
pub use seam::{
    Asserted, BusError, ControllerBus, Delivery, Disturbance, Finding, Incoming, JoinerBus, Link,
    Listener, ModuleBus, ModuleSettlement, NodeBus, NodeEvent, Source,
};
pub use signing::{Signer, UnsignedError, Verifier};
