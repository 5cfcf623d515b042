//! From the records: every stream, every consumer and every grant of the mesh.
//!
//! [`derive()`] is pure and total: equal records give an equal [`Plan`], and records that exist can be derived from. No
//! other code in the mesh builds a subject, names a stream or writes a grant. [`Plan::check`] holds a plan against
//! itself before any of it reaches a bus, [`Plan::diff`] says whose authority grows, and [`render`] writes it down.
//!
//! ```
//! use mesh_derive::{Bounds, derive};
//! use mesh_model::{BusFacts, Manifest, Principal, Records, Restart, Run};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bus = BusFacts { domain: None, account: "MESH".to_owned() };
//! let mut records = Records::new("home".parse()?, bus);
//! let mailer = Manifest {
//!     module: "mailer".parse()?,
//!     release: "1.0.0".to_owned(),
//!     run: Run::command(["mailer".to_owned()]).ok_or("no program")?,
//!     after: [].into(),
//!     env: [].into(),
//!     restart: Restart::Always,
//!     emits: ["sent".parse()?].into(),
//!     follows: ["mailer.announced".parse()?].into(),
//!     can_hold: [].into(),
//!     sends_to: [].into(),
//! };
//! records.declared.modules.insert("mailer".parse()?, mailer);
//!
//! let plan = derive(&records, &Bounds::default());
//! assert!(plan.check(&records.bus).is_empty());
//!
//! let grant = &plan.grants[&Principal::Module("mailer".parse()?)];
//! let publish: Vec<&str> = grant.publish.iter().map(|filter| filter.as_str()).collect();
//! assert_eq!(
//!     publish,
//!     [
//!         "$JS.ACK.EVENTS.mailer.>",
//!         "$JS.ACK._.znJdjy7f.EVENTS.mailer.>",
//!         "mesh.mod.mailer.announced",
//!         "mesh.mod.mailer.sent",
//!     ]
//! );
//! # Ok(())
//! # }
//! ```

mod ack;
mod check;
mod derive;
mod diff;
mod plan;
pub mod proof;
pub mod render;
pub mod subject;
pub mod topology;

pub use ack::{ack_filters, is_ack_of};
pub use check::{
    Counted, DefinitionFault, JWT_LIMIT, LimitFault, Mismatch, SharingFault, check,
    in_operator_mode,
};
pub use derive::{Bounds, controller_grant, derive, node_consumer, own_streams, system_grant};
pub use diff::{Change, Difference, Part, PlanDiff, Right};
pub use plan::{Accounts, Plan, Share};
