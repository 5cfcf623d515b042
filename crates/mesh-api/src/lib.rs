//! The operator's HTTP surface and its typed client, over a unix socket.

mod client;
mod error;
mod form;
mod server;

pub use client::{CallError, Client};
pub use error::{ApiError, Code};
pub use form::{
    Applied, Apply, Assign, DoctorFinding, DoctorReport, Envelope, Label, PlanRequest, RefuseStore,
    ReportLine, ReportList, TokenCreated, TokenLine, TokenList, TokenRequest,
};
pub use server::{Caller, Control, ServeError, serve};
