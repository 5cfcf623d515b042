//! The agent's shell: its files, its disk, its runtime, and how its host joins a mesh.
//!
//! - [`AgentConfig`]: `agent.toml`, as enrolment writes it and an operator may change it
//! - [`bus_at`]: which kind of bus a URL names
//! - [`StateDir`]: what an agent keeps, held by one agent at a time
//! - [`DiskMemory`]: the newest declaration and the reports not yet sent, on disk
//! - [`Place`], [`Homes`]: a bus as a node has it, and the buses of a node that moves from one to another
//! - [`HostWorkloads`]: modules with their credentials opened, over this host's runtime
//! - [`run`], [`run_over`]: the agent itself, over the bus of its configuration or over any
//! - [`join`]: how a host with a token asks to become a node
//! - [`Status`]: what the files of an agent say, whether it runs or not

mod bus_kind;
mod config;
mod containers;
mod dial;
mod homes;
mod join;
mod memory;
mod place;
mod run;
mod state_dir;
mod status;
mod workloads;

pub use bus_kind::{bus_at, public_on};
pub use config::{AgentConfig, ReadConfigError, RuntimeKind, WriteConfigError};
pub use containers::{ContainerSettings, Engine, container_owner};
pub use dial::{Dial, DialError, HostDial, HostNode, HostReceipt};
pub use homes::{Homes, HomesParts, HomesReceipt, Kept, PlaceError, PlaceFiles, forget_moves};
pub use join::{JoinError, JoinPace, join};
pub use memory::{DiskMemory, LoadError};
pub use place::{OfferError, Place};
pub use run::{AgentHost, RunAgentError, run, run_over, verifier};
pub use state_dir::{StateDir, TakeStateDirError};
pub use status::{BusSeen, ModuleStatus, Phase, Status, StatusError};
pub use workloads::{HandedFiles, HostWorkloads, Surroundings};
