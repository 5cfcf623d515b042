//! How much waits in the queues of seats. For how long a broker does not tell: of a message it keeps the time its sender
//! wrote on it, if any, and of most kinds of queue not even that.

use std::collections::BTreeMap;

use mesh_bus::{Backlog, BusError};
use mesh_derive::topology::Queue;
use mesh_model::SeatName;
use serde_json::Value;

use crate::management::{Management, part};

/// Of each seat there is a queue of, where the broker counts: one told to keep no statistics still counts what waits.
pub(crate) async fn backlogs(
    management: &Management,
    vhost: &str,
) -> Result<BTreeMap<SeatName, Backlog>, BusError> {
    let path = format!(
        "/api/queues/{}?disable_stats=true&enable_queue_totals=true",
        part(vhost)
    );
    let listed = management.get(&path).await?.unwrap_or_default();
    Ok(read(&listed))
}

fn read(listed: &Value) -> BTreeMap<SeatName, Backlog> {
    let queues = listed.as_array().into_iter().flatten();
    let seats = queues.filter_map(|queue| {
        let name = queue.get("name").and_then(Value::as_str)?;
        let messages = queue.get("messages").and_then(Value::as_u64)?;
        let backlog = Backlog {
            messages,
            oldest: None,
        };
        match Queue::named(name) {
            Some(Queue::Seat(seat)) => Some((seat, backlog)),
            _ => None,
        }
    });
    seats.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_queues_of_seats_are_told_and_only_where_they_are_counted() {
        let listed = json!([
            { "name": "seat.desk", "messages": 3 },
            { "name": "seat.mail" },
            { "name": "mod.mailer", "messages": 4 },
            { "name": "somebody's", "messages": 5 },
        ]);
        let told = read(&listed);
        let desk: SeatName = "desk".parse().unwrap();
        assert_eq!(told.len(), 1);
        assert_eq!((told[&desk].messages, told[&desk].oldest), (3, None));
    }
}
