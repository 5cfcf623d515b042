//! What must outlive the process.
//!
//! The store knows bytes under keys; what the bytes mean is said by whoever writes them. A [`Store`] answers a commit
//! only when it is on disk; whatever queued during the last flush becomes one commit. An error from a commit means
//! *outcome unknown*: [`Store::reopen`] reads again what is really there.
//!
//! - [`store`]: the async handle and the one thread behind it
//! - [`engine`]: what keeps bytes on disk: redb, sled, and a switch that makes either refuse
//! - [`dump`]: the engine-neutral backup file
//! - [`record`], [`key`]: what is stored, and how damage to it is seen
//! - [`mark`]: whether the store still holds all it promised
//! - [`error`]: what can go wrong and what to do about each

pub mod dump;
pub mod engine;
pub mod error;
pub mod key;
pub mod mark;
mod meta;
pub mod record;
pub mod store;

pub use dump::{ExportSummary, ImportError, ImportSummary, import};
pub use engine::faulty::{Fault, FaultGate, Faulty};
pub use engine::{Engine, EngineError, EngineKind, IfAbsent, RawOp, Visitor};
pub use error::{Class, StoreError};
pub use key::Key;
pub use mark::{MarkVerdict, check_mark};
pub use meta::StoreId;
pub use record::{Entry, Form, Op};
pub use store::{Opened, Store};
