//! The seam: what a bus must do, the two loops over it, the loopback and the conformance suite.

mod agent_loop;
pub mod conformance;
mod controller_loop;
mod ledger;
pub mod loopback;
mod seam;
mod signing;
mod understand;

pub use agent_loop::{AgentLoop, AgentParts, Memory, Seen, States, Workloads};
pub use controller_loop::{ControllerHandle, ControllerLoop, ControllerParts, Gone, LoopError};
pub use ledger::Ledger;
pub use mesh_control::{MessageKey, NodeSettlement, Queue, Settlement};
pub use seam::{
    Asserted, BusError, ControllerBus, Delivery, Finding, Incoming, JoinerBus, Link, Listener,
    ModuleBus, ModuleSettlement, NodeBus, NodeEvent, Source,
};
pub use signing::{Signer, UnsignedError, Verifier};

/// What a task came to; nothing when it was called off. A panic in one goes on in the loop that began it: a loop that
/// waited for ever for what never comes would be the worse end.
fn came_to_its_end<T>(ended: Result<T, tokio::task::JoinError>) -> Option<T> {
    match ended.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(result) => Some(result),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_called_off)) => None,
    }
}
