//! From the records: every stream, every consumer and every grant of the mesh.
//!
//! [`derive`] is pure and total: equal records give an equal [`Plan`], and records that exist can be derived from. No
//! other code in the mesh builds a subject, names a stream or writes a grant.

mod ack;
mod derive;
mod plan;
pub mod subject;

pub use ack::{ack_filters, is_ack_of};
pub use derive::{Bounds, controller_grant, derive, node_consumer, own_streams, system_grant};
pub use plan::{Accounts, Plan, Share};
