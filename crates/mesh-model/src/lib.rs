//! The words of the mesh, as types that are whole if they exist.
//!
//! Nothing here reads a clock, a socket or a disk, and nothing here decides: a value of one of these types is known to
//! be well formed, and what it means for a bus is worked out in `mesh-derive`.

mod bus;
mod container;
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
mod secret;
mod spec;
mod subject;
mod text;

pub use bus::{BusKind, BusPlace, Home, InvalidBusKind, Moving, Offer};
pub use container::{
    Container, HandedSecret, Health, Image, InvalidImage, InvalidPort, InvalidVolume, Network,
    Port, Probe, Protocol, Resources, Volume,
};
pub use declaration::{Declaration, Restart, Run, Workload};
pub use declared::{Declared, Labels, MeshError, Placement, SeatSpec, Selector, labels_too_large};
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
pub use records::{
    Assigner, BusFacts, CredentialLife, InstanceRecord, NodeRecord, Records, Retiring, Scheduling,
    SeatRecord, Spent, TokenRecord,
};
pub use report::{Heartbeat, LastExit, ModuleReport, ModuleState, Outcome, Report};
pub use secret::{InvalidSecretName, SecretName, SecretRecord};
pub use spec::{
    AckPolicy, ConsumerKind, ConsumerRef, ConsumerSpec, DeliverPolicy, Discard, InvalidBusName,
    Retention, Selects, StreamName, StreamSpec,
};
pub use subject::{Filter, InvalidSubject, Subject};
