//! How nats-server judges: subjects, permissions, names, streams, consumers, subject transforms, exports.
//!
//! Read in nats-server 2.15 (`server/*.go`), and measured on a 2.15.1. Where a client library or `nats-io/jwt` has the rule
//! and the server has not, the item says so.

mod account;
mod api;
mod consumer;
mod name;
mod permission;
mod refusal;
mod stream;
mod subject;
mod transform;
mod update;

pub use account::{Export, ExportKind, exports_ok, rename_ok, rename_to_subject};
pub use api::{AckForm, Request};
pub use consumer::{
    AckPolicy, Consumer, DEFAULT_ACK_WAIT, Retention, any_filter_subset_of, backoff_fits,
    effective_ack_wait, filters_match, filters_ok, is_filtered, unique_on_work_queue,
};
pub use name::{
    MAX_NAME, valid_api_prefix, valid_kv_bucket, valid_kv_key, valid_name, valid_queue_group,
};
pub use permission::{
    EntryError, Permissions, split_subject_queue, valid_publish_entry, valid_subscribe_entry,
};
pub use refusal::Refusal;
pub use stream::{Stream, subjects_allowed, subjects_disjoint};
pub use subject::{
    has_wildcard, is_literal, is_subset, matches, overlaps, valid_filter, valid_literal,
    valid_reply,
};
pub use transform::{Transform, TransformError};
pub use update::{ConsumerField, UnknownField};
