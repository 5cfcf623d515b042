//! What is said and what is kept, byte for byte, in every version still spoken.
//!
//! The types of the core are free to change; these bytes are not. Each boundary has forms of its own that never change
//! once written, and converts. A form that must say more becomes a new version beside the old one, whose decoder stays;
//! `tests/golden` holds the bytes of each, and today's code reads them.
//!
//! Bytes are read to the end, in the one way they are written: whatever decodes encodes to the same bytes again.
//!
//! - [`encode_declaration`], [`seal_signed`], [`to_sign`]: what the controller says and signs
//! - [`encode_report`], [`encode_heartbeat`]: what a node says
//! - [`encode_enrolment`], [`encode_enrolment_answer`]: how a host becomes a node
//! - [`encode_announcement`]: what a module says of itself, in JSON, since modules are written in any language
//! - [`encode_ask`], [`encode_log_part`]: what is asked of a node for now, and what it says to that
//! - [`encode_mark`]: how far a store had come, said where the store is not
//! - [`fact_entry`], [`fact_key`], [`read_fact`]: what the controller keeps on disk

mod announce;
mod codec;
mod declaration;
mod enrol;
mod error;
mod fact;
mod heartbeat;
mod log;
mod mark;
mod report;
mod run;
mod signed;

pub use announce::{Announcement, decode_announcement, encode_announcement};
pub use codec::MAX_BYTES;
pub use declaration::{decode_declaration, encode_declaration};
pub use enrol::{
    decode_enrolment, decode_enrolment_answer, encode_enrolment, encode_enrolment_answer,
};
pub use error::{FieldError, InvalidText, WireError};
pub use fact::{DiskEntry, fact_entry, fact_key, read_fact};
pub use heartbeat::{decode_heartbeat, encode_heartbeat};
pub use log::{
    Ask, Asked, LogEnd, LogPart, LogSaid, decode_ask, decode_log_part, encode_ask, encode_log_part,
};
pub use mark::{Mark, decode_mark, encode_mark};
pub use report::{decode_report, encode_report};
pub use signed::{Signed, SignedKind, open_signed, seal_signed, to_sign};
