//! The mesh over RabbitMQ, in AMQP 0-9-1.

mod asserting;
mod carrying;
mod controller;
mod credential;
mod definitions;
mod ear;
mod endpoint;
mod epoch;
mod findings;
mod greeting;
mod inbox;
mod intake;
mod joiner;
mod line;
mod management;
mod module;
mod node;
mod publish;
mod refusal;
mod sender;
mod url;
mod watch;

pub use controller::{AmqpController, ControllerSetup};
pub use credential::Credential;
pub use endpoint::{Endpoint, InvalidTrust, Trust};
pub use greeting::greet;
pub use inbox::ModuleReceipt;
pub use intake::Receipt;
pub use joiner::AmqpJoiner;
pub use line::{Dialling, FirstAttempt};
pub use management::Management;
pub use module::{AmqpListener, AmqpModule};
pub use node::{AmqpNode, NodeReceipt};
pub use url::{Account, BrokerUrl, InvalidUrl, ManagementUrl};
