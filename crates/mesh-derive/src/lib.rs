//! From the records: every stream, every consumer and every grant of the mesh.
//!
//! [`derive`] is pure and total: equal records give an equal [`Plan`], and records that exist can be derived from. No
//! other code in the mesh builds a subject, names a stream or writes a grant.

mod ack;
mod check;
mod derive;
mod diff;
mod plan;
pub mod render;
pub mod subject;

pub use ack::{ack_filters, is_ack_of};
pub use check::{Mismatch, check};
pub use derive::{Bounds, controller_grant, derive, node_consumer, own_streams, system_grant};
pub use diff::{Change, Difference, Part, PlanDiff, Right};
pub use plan::{Accounts, Plan, Share};
