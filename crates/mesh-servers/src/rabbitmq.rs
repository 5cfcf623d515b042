//! How RabbitMQ judges: topic bindings, permissions, and what each method of AMQP 0-9-1 requires.
//!
//! Read in rabbitmq-server 4.x (`deps/rabbit/src`, `deps/rabbit_common/src`), and measured on 3.10, 4.0 and 4.3. Permissions
//! are patterns of Erlang's `re`, which is PCRE.

mod method;
mod pattern;
mod topic;

pub use method::{Object, Operation, Permission, Requirement, passive_declare_permitted};
pub use pattern::{MAX_PATTERN, Pattern, PatternError, escape, expand, topic_allows};
pub use topic::{MAX_HASHES, MAX_KEY, binding_key_valid, binding_matches};
