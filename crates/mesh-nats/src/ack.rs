//! What a reply subject says of the message it acknowledges.

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
    fn a_delay_is_said_in_nanoseconds() {
        assert_eq!(
            again_after(Duration::from_millis(1500)),
            b"-NAK {\"delay\":1500000000}"
        );
    }
}
