//! Carries out a plan on a host.
//!
//! What is to happen is worked out in [`mesh_control::convergence`], by functions of values; a [`Runtime`] makes it so. The
//! processes it starts belong to the host, not to the agent: they go on when the agent ends, however it ends, and the
//! next one adopts them.
//!
//! Needs Linux: who a process is, is read from `/proc`.

mod board;
mod container;
mod desired;
mod dry_run;
mod ended;
mod ending;
mod error;
mod found;
mod gate;
mod health;
mod host;
mod host_runtime;
mod instance;
mod logs;
mod pace;
mod parts;
mod proc;
mod process;
mod process_runtime;
mod reconcile;
mod record;
mod runtime;
mod vitals;

pub use board::{Doing, States};
pub use container::{ContainersConfig, ENGINE_DEADLINE, EngineChoice, STALL, SWEEP};
pub use desired::{Desired, HANDED_IN_CONTAINER, PullSecret};
pub use dry_run::DryRun;
pub use error::RuntimeError;
pub use host::HostConfig;
pub use host_runtime::HostRuntime;
pub use logs::{LogBroken, LogLine, Logs, Tail};
pub use pace::Pace;
pub use process_runtime::{Adopted, ProcessRuntime};
pub use runtime::Runtime;
