//! The operator's HTTP surface and its typed client, over a unix socket.

mod client;
mod error;
mod form;
mod logs;
mod server;

pub use client::{CallError, Client};
pub use error::{ApiError, Code};
pub use form::{
    Applied, Apply, Assign, BrokerAnswer, CanAnswer, CanRequest, CanVerb, DoctorFinding,
    DoctorReport, Envelope, Label, Move, PlanRequest, RefuseStore, ReportLine, ReportList, Rotate,
    Schedule, SecretLine, SecretList, SecretValue, TokenCreated, TokenLine, TokenList,
    TokenRequest, Verified, VerifiedPrincipal, VerifyRequest,
};
pub use logs::{LogQuery, LogReader, LogRecord, LogRecords};
pub use server::{Caller, Control, ServeError, serve};
