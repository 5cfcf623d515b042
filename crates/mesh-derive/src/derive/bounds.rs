//! What of the mesh's own definitions is a choice and not a consequence.

/// The bounds of the mesh's own streams and consumers: what is a choice, not a consequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Consumers a stream may have that has one for each node or module.
    pub max_consumers: u32,
    /// Messages of one sender that `CONTROL` holds before the sender is told that it is full.
    pub control_per_subject: u64,
    /// Bytes of `CONTROL`.
    pub control_bytes: u64,
    /// Bytes of `EVENTS`.
    pub events_bytes: u64,
    /// Seconds an event is kept.
    pub events_age_secs: u64,
    /// Bytes of each seat's queue.
    pub seat_bytes: u64,
    /// Bytes of `PARKED`.
    pub parked_bytes: u64,
    /// Seconds something parked is kept.
    pub parked_age_secs: u64,
    /// Messages the controller may hold at once.
    pub held: u32,
    /// Seconds a node may take between two signs of work on a declaration.
    pub node_ack_wait_secs: u32,
    /// Seconds of silence after which a node's consumer says that it is there.
    pub idle_heartbeat_secs: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            max_consumers: 100_000,
            control_per_subject: 64,
            control_bytes: 128 * MIB,
            events_bytes: 256 * MIB,
            events_age_secs: 7 * 24 * 3600,
            seat_bytes: 16 * MIB,
            parked_bytes: 32 * MIB,
            parked_age_secs: 30 * 24 * 3600,
            held: 1000,
            node_ack_wait_secs: 300,
            idle_heartbeat_secs: 30,
        }
    }
}
