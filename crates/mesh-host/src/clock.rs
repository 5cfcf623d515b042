//! The clock, and a number no other process is likely to have.

use std::time::{SystemTime, UNIX_EPOCH};

use mesh_model::Timestamp;

/// The wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the time enters"
)]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Spreads retries of different processes; not for secrets.
pub fn seed() -> u64 {
    let pid = u64::from(std::process::id());
    now().as_millis().wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ pid.rotate_left(32)
}
