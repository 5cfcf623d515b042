//! The words of the mesh, as types that are whole if they exist.
//!
//! Nothing here reads a clock, a socket or a disk, and nothing here decides: a value of one of these types is known to
//! be well formed, and what it means for a bus is worked out in `mesh-derive`.

mod bus;
mod declaration;
mod declared;
mod enrol;
mod generation;
mod grant;
mod group;
mod key;
mod line;
mod manifest;
mod name;
mod records;
mod report;
mod spec;
mod subject;
mod text;

pub use bus::{BusKind, BusPlace, Home, InvalidBusKind, Moving, Offer};
pub use declaration::{Declaration, Restart, Run, Workload};
pub use declared::{Declared, Labels, MeshError, Placement, Selector, labels_too_large};
pub use enrol::{Enrolment, EnrolmentAnswer, EnrolmentRefusal};
pub use generation::{Generation, ReportId, Revision, Seq, Timestamp};
pub use grant::{Allow, Grant, InstanceRef, InvalidPrincipal, Principal, QueueSubscription};
pub use group::{InvalidQueueGroup, QueueGroup};
pub use key::{BoxPublicKey, InvalidPublicKey, PublicKey, Sealed};
pub use line::one_line;
pub use manifest::{Manifest, ManifestError};
pub use name::{
    EventName, EventRef, InvalidName, MeshName, ModuleName, NameKind, NameRule, NodeName, SeatName,
    TokenId,
};
pub use records::{BusFacts, InstanceRecord, NodeRecord, Records, SeatRecord, Spent, TokenRecord};
pub use report::{Heartbeat, ModuleReport, ModuleState, Outcome, Report};
pub use spec::{
    AckPolicy, ConsumerKind, ConsumerRef, ConsumerSpec, DeliverPolicy, Discard, InvalidBusName,
    Retention, Selects, StreamName, StreamSpec,
};
pub use subject::{Filter, InvalidSubject, Subject};
