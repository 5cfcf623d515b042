//! From the records: every stream, every consumer and every grant of the mesh.
//!
//! [`derive()`] is pure and total: equal records give an equal [`Plan`], and records that exist can be derived from. No
//! other code in the mesh builds a subject, names a stream or writes a grant. [`Plan::check`] holds a plan against
//! itself before any of it reaches a bus, [`Plan::diff`] says whose authority grows, and [`render`] writes it down.
//!
#![doc = include_str!("../README.md")]

mod ack;
mod api;
mod check;
mod derive;
mod diff;
mod plan;
pub mod proof;
pub mod render;
pub mod subject;
pub mod topology;

pub use ack::{ack_filters, is_ack_of};
pub use api::ApiCall;
pub use check::{
    Counted, DefinitionFault, GrantFault, JWT_LIMIT, LimitFault, Mismatch, SharingFault, check,
    in_operator_mode,
};
pub use derive::{
    Bounds, carrier_grant, controller_grant, derive, in_parts, node_consumer, own_streams, part,
    system_grant,
};
pub use diff::{Change, Difference, Part, PlanDiff, Right};
pub use plan::{Accounts, Plan, Share};
