//! The seam: what a bus must do, the two loops over it, the loopback and the conformance suite.

mod seam;

pub use mesh_control::{MessageKey, NodeSettlement, Queue, Settlement};
pub use seam::{
    Asserted, BusError, ControllerBus, Delivery, Finding, Incoming, JoinerBus, Link, Listener,
    ModuleBus, ModuleSettlement, NodeBus, NodeEvent, Source,
};
