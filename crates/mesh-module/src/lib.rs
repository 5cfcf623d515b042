//! The SDK a module's author uses: emit events, follow them, work a seat.
//!
//! A module is a program that a node runs. What it may say and hear stands in its manifest; the mesh makes a credential
//! of that and hands it over in the environment ([`ModuleConfig::from_env`] lists the variables). A whole module:
//!
//! ```no_run
//! use mesh_module::Module;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let module = Module::connect_from_env().await?;
//!     module.announce("1.4.0").await?;
//!
//!     let mut orders = module.follow().await?; // follows = ["shop.order.placed"]
//!     loop {
//!         let order = orders.next().await;
//!         module.send("mail", order.body.clone()).await?; // sends_to = ["mail"]
//!         module.emit("confirmed", order.id.clone()).await?; // emits = ["confirmed"]
//!         order.done().await?;
//!     }
//! }
//! ```
//!
//! and one that can hold the seat `mail`:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use mesh_module::Module;
//! # async fn deliver(letter: &[u8]) -> bool { true }
//! # async fn mailer() -> Result<(), Box<dyn std::error::Error>> {
//! let module = Module::connect_from_env().await?;
//! let mut mail = module.work("mail").await?; // can_hold = ["mail"]
//! loop {
//!     let letter = mail.next().await;
//!     if deliver(&letter.body).await {
//!         letter.done().await?;
//!     } else {
//!         letter.again(Duration::from_secs(30)).await?;
//!     }
//! }
//! # }
//! ```
//!
//! # What holds
//!
//! - **What is emitted or sent is kept** when the call returns `Ok`: the bus confirmed it. While the bus is away it is
//!   tried again for a minute, under the same id, so that it is kept once.
//! - **What is heard comes at least once**, and again until it is [done](Event::done). Its id is the same each time: a
//!   module to which twice is worse than once remembers the ids it is done with.
//! - **It is the same over NATS and over RabbitMQ.** Which bus it is says the scheme of `MESH_BUS_URL`; every module has
//!   both clients, so that its node can change. On RabbitMQ what is dropped, or put off with `again`, comes again to the
//!   same instance while that lives.
//! - **Work may take as long as it takes.** While an [`Event`] or a [`Work`] exists, the bus is told every ten seconds
//!   that it is in hand; that includes those not yet taken from [`Follower::next`]. One that is dropped, or whose
//!   process dies, comes again to some instance after the ack wait (30 s for events, 60 s for work).
//! - **A seat is listened to from the start, held or not.** [`Module::work`] succeeds for a module that does not hold
//!   the seat; its work arrives once it does, and when the seat is taken away [`Worker::next`] waits again.
//! - **Work of a seat that was taken away is another's.** What waits in [`Worker::next`] is dropped, [`Work::lost`] is
//!   ready, and [`Work::done`] is an error: the next holder gets that work too.
//! - **A refusal names the line of the manifest** that is missing.
//!
//! # Without a server
//!
//! [`Module::over`] takes any bus behind [`ModuleBus`](mesh_bus::ModuleBus): with [`mesh_bus::loopback`] a module is
//! tested in its own process.

mod bus;
mod config;
mod ear;
mod error;
mod hand;
mod heard;
mod host;
mod id;
mod module;
mod term;

pub use bus::{HandedBus, HandedListener, HandedReceipt};
pub use config::{BusConfig, ConfigError, ModuleConfig};
pub use error::{ConnectError, EmitError, ListenError, SendError, SettleError};
pub use heard::{Event, Follower, Work, Worker};
pub use mesh_bus::BusError;
pub use mesh_model::{
    BusFacts, EventName, InstanceRef, InvalidName, ModuleName, NodeName, SeatName,
};
pub use module::Module;

/// The page for authors: what it shows in Rust is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/modules.md")]
struct WritingAModule;
