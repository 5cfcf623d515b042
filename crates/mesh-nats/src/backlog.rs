//! How much waits in the queues of seats, and for how long: by the server's own clock.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mesh_bus::{Backlog, BusError};
use mesh_derive::subject;
use mesh_model::{SeatName, StreamName};

use crate::api::{Api, FoundStream};

/// Of each seat there is a stream of.
pub(crate) async fn backlogs(api: &Api) -> Result<BTreeMap<SeatName, Backlog>, BusError> {
    let found = api.streams().await?;
    let seats = found.iter().filter_map(|stream| {
        let name = StreamName::new(stream.name()?).ok()?;
        Some((subject::seat_of(&name)?, backlog(stream)))
    });
    Ok(seats.collect())
}

/// A work queue holds what is not settled, the oldest first.
fn backlog(found: &FoundStream) -> Backlog {
    let messages = found.state.messages;
    let read = |text: &str| humantime::parse_rfc3339(text).ok();
    let age = || -> Option<u64> {
        let (first, now): (SystemTime, SystemTime) =
            (read(&found.state.first_ts)?, read(&found.ts)?);
        let age = now.duration_since(first).unwrap_or_default();
        u64::try_from(age.as_millis()).ok()
    };
    Backlog {
        messages,
        oldest: (messages > 0).then(age).flatten(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_age_of_the_oldest_is_told_by_one_clock() {
        for (messages, first, now, oldest) in [
            (
                3,
                "2026-11-30T09:42:03.123456789Z",
                "2026-11-30T09:42:05.623Z",
                Some(2499),
            ),
            // A server that has it from its future.
            (1, "2026-11-30T09:42:05Z", "2026-11-30T09:42:03Z", Some(0)),
            (0, "0001-01-01T00:00:00Z", "2026-11-30T09:42:03Z", None),
            // One that does not say what time it is.
            (1, "2026-11-30T09:42:05Z", "", None),
        ] {
            let found = json!({
                "config": { "name": "SEAT-desk" },
                "state": { "messages": messages, "first_ts": first, "last_seq": 9 },
                "ts": now,
            });
            let found: FoundStream = serde_json::from_value(found).unwrap();
            assert_eq!(backlog(&found), Backlog { messages, oldest }, "{first}");
        }
    }
}
