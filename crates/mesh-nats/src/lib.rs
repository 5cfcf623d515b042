//! The mesh over NATS JetStream.

mod ack;
mod api;
mod asserting;
mod audit;
mod authority;
mod backlog;
mod carrying;
mod connect;
mod controller;
mod definition;
mod denial;
mod epoch;
mod findings;
mod guests;
mod holding;
mod joiner;
mod logs;
mod managed;
mod memory;
mod module;
mod node;
mod places;
pub mod proof;
mod proving;
mod publish;
mod pull;
mod reloading;
mod retry;
mod seats;
mod stalls;
mod taking;
mod version;
mod warned;
mod watch;

pub use api::ApiCalls;
pub use authority::{Authority, SysConnection};
pub use carrying::NatsLoad;
pub use connect::{Connection, Credential, Dialling, Endpoint, FirstAttempt};
pub use controller::{ControllerSetup, NatsController};
pub use joiner::NatsJoiner;
pub use managed::{
    FindServerError, ManagedServer, Ready, ServerSpec, ServerState, StartServerError, Stopped,
    SyncPolicy, TlsFiles,
};
pub use module::{NatsListener, NatsModule};
pub use node::NatsNode;
pub use pull::Receipt;
