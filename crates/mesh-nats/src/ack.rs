//! What a reply subject says of the message it acknowledges.

use mesh_derive::subject;
use mesh_model::StreamName;

/// The sequence in its stream of the message a reply acknowledges; nothing for a subject that acknowledges none.
///
/// Older form: `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`. Newer:
/// `$JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<delivered>.<stream seq>.…`, which may have more after it
/// (nats-server ADR-15).
pub(crate) fn stream_sequence(reply: &str) -> Option<u64> {
    let rest = reply.strip_prefix("$JS.ACK.")?;
    let tokens: Vec<&str> = rest.split('.').collect();
    let at = match tokens.len() {
        7 => 3,
        9.. => 5,
        _ => return None,
    };
    tokens.get(at)?.parse().ok()
}

/// Whether what a reply acknowledges is the work of a seat.
pub(crate) fn is_work(reply: &str) -> bool {
    let Some(rest) = reply.strip_prefix("$JS.ACK.") else {
        return false;
    };
    let tokens: Vec<&str> = rest.split('.').collect();
    let at = match tokens.len() {
        7 => 0,
        9.. => 2,
        _ => return false,
    };
    let stream = tokens.get(at).and_then(|name| StreamName::new(*name).ok());
    stream.is_some_and(|stream| subject::seat_of(&stream).is_some())
}

/// Which message a reply acknowledges: its sequence in its stream, and when it was stored there. The same each time it is
/// delivered.
pub(crate) fn message(reply: &str) -> Option<(u64, u64)> {
    let rest = reply.strip_prefix("$JS.ACK.")?;
    let tokens: Vec<&str> = rest.split('.').collect();
    let stored = match tokens.len() {
        7 => 5,
        9.. => 7,
        _ => return None,
    };
    Some((stream_sequence(reply)?, tokens.get(stored)?.parse().ok()?))
}

/// `+ACK`: done with.
pub(crate) const DONE: &[u8] = b"+ACK";
/// `+WPI`: still working.
pub(crate) const WORKING: &[u8] = b"+WPI";

/// `-NAK` with a delay, which the server takes in nanoseconds.
pub(crate) fn again_after(delay: std::time::Duration) -> Vec<u8> {
    let nanos = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
    format!("-NAK {{\"delay\":{nanos}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_forms_name_the_sequence() {
        for (reply, sequence) in [
            (
                "$JS.ACK.CONTROL.controller.1.42.7.1700000000000000000.3",
                Some(42),
            ),
            (
                "$JS.ACK._.znJdjy7f.CONTROL.controller.1.42.7.1700000000000000000.3",
                Some(42),
            ),
            (
                "$JS.ACK.hub.znJdjy7f.CONTROL.controller.1.42.7.1700000000000000000.3.rnd",
                Some(42),
            ),
            ("$JS.ACK.CONTROL.controller.1.x.7.0.0", None),
            ("$JS.ACK.CONTROL.controller", None),
            ("mesh.inbox.controller.x", None),
        ] {
            assert_eq!(stream_sequence(reply), sequence, "{reply}");
            let stored = sequence.map(|sequence| (sequence, 1_700_000_000_000_000_000));
            assert_eq!(message(reply), stored, "{reply}");
        }
    }

    #[test]
    fn work_is_told_from_what_comes_of_other_streams() {
        for (reply, work) in [
            ("$JS.ACK.SEAT-desk.desk.1.42.7.1700000000000000000.3", true),
            (
                "$JS.ACK._.znJdjy7f.SEAT-desk.desk.1.42.7.1700000000000000000.3",
                true,
            ),
            ("$JS.ACK.EVENTS.m.1.42.7.1700000000000000000.3", false),
            ("$JS.ACK.SEAT-desk.desk", false),
            ("mesh.inbox.module.m.n.x", false),
        ] {
            assert_eq!(is_work(reply), work, "{reply}");
        }
    }

    #[test]
    fn a_delay_is_said_in_nanoseconds() {
        assert_eq!(
            again_after(Duration::from_millis(1500)),
            b"-NAK {\"delay\":1500000000}"
        );
    }
}
