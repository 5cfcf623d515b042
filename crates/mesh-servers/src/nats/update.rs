//! What of a consumer an update may change: `checkNewConsumerConfig` of `server/consumer.go`.

use std::str::FromStr;

/// A field of a consumer's definition, by its name in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerField {
    /// Refused in an update, with what the server says of it.
    Fixed(&'static str),
    /// A consumer that is asked for by a name has that name.
    Name,
    /// Changed while nobody is subscribed to the old one; a push consumer never becomes a pull consumer, nor back.
    DeliverSubject,
    /// Taken in an update.
    Free,
}

impl ConsumerField {
    /// Whether an update may change it. `bound` says whether somebody is subscribed to the deliver subject.
    pub fn updatable(self, bound: bool) -> bool {
        match self {
            Self::Fixed(_) | Self::Name => false,
            Self::DeliverSubject => !bound,
            Self::Free => true,
        }
    }
}

/// A text that names no field a consumer has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a consumer's definition has no field {0:?}")]
pub struct UnknownField(pub String);

impl FromStr for ConsumerField {
    type Err = UnknownField;

    fn from_str(name: &str) -> Result<Self, UnknownField> {
        Ok(match name {
            "name" | "durable_name" => Self::Name,
            "deliver_subject" => Self::DeliverSubject,
            "deliver_policy" => Self::Fixed("deliver policy can not be updated"),
            "mem_storage" => Self::Fixed("storage type can not be updated"),
            "direct" => Self::Fixed("direct can not be updated"),
            "sourcing" => Self::Fixed("sourcing can not be updated"),
            "opt_start_seq" => Self::Fixed("start sequence can not be updated"),
            "opt_start_time" => Self::Fixed("start time can not be updated"),
            "ack_policy" => Self::Fixed("ack policy can not be updated"),
            "replay_policy" => Self::Fixed("replay policy can not be updated"),
            "idle_heartbeat" => Self::Fixed("heart beats can not be updated"),
            "flow_control" => Self::Fixed("flow control can not be updated"),
            "max_waiting" => Self::Fixed("max waiting can not be updated"),
            "description" | "ack_wait" | "max_deliver" | "backoff" | "filter_subject"
            | "filter_subjects" | "rate_limit_bps" | "sample_freq" | "max_ack_pending"
            | "headers_only" | "max_batch" | "max_expires" | "max_bytes" | "deliver_group"
            | "inactive_threshold" | "num_replicas" | "metadata" | "pause_until"
            | "priority_groups" | "priority_policy" | "priority_timeout" => Self::Free,
            _ => return Err(UnknownField(name.to_owned())),
        })
    }
}
