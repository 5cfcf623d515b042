//! What a broker says when it refuses, and what that is to whoever asked.

use lapin::{Error, ErrorKind};
use mesh_bus::BusError;

/// The broker's code and words, where it was the broker that ended something.
pub(crate) fn said(error: &Error) -> Option<(u16, String)> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some((error.get_id(), error.get_message().to_string())),
        _ => None,
    }
}

/// What an error is to whoever attempted `what`.
pub(crate) fn bus_error(what: &str, error: &Error) -> BusError {
    match said(error) {
        Some((ACCESS_REFUSED | NOT_ALLOWED, why)) => BusError::Refused {
            what: what.to_owned(),
            why,
        },
        Some((code, why)) => BusError::Away(format!("{what}: {code} {why}")),
        None => BusError::Away(format!("{what}: {error}")),
    }
}

/// Whether a broker's words are about this exchange and key: what one message is refused for ends the channel, and with
/// it every other message on its way there, of which nothing is known.
pub(crate) fn is_about(why: &str, exchange: &str, key: &str) -> bool {
    let quoted = |name: &str| why.contains(&format!("'{name}'"));
    quoted(exchange) && (!why.contains("topic") || quoted(key))
}

/// No right to do it, or to log in.
const ACCESS_REFUSED: u16 = 403;
/// No right to the virtual host, or too many connections.
const NOT_ALLOWED: u16 = 530;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_its_own_messages_only() {
        // As RabbitMQ 3.10 says it.
        let topic = "ACCESS_REFUSED - write access to topic 'm.said' in exchange 'mesh.ev' in vhost 'v' refused for user 'u'";
        let exchange = "ACCESS_REFUSED - write access to exchange 'mesh.seat' in vhost 'v' refused for user 'u'";
        for (why, on, key, expected) in [
            (topic, "mesh.ev", "m.said", true),
            (topic, "mesh.ev", "m.other", false),
            (topic, "mesh.seat", "m.said", false),
            (exchange, "mesh.seat", "desk.m", true),
            (exchange, "mesh.ev", "m.said", false),
        ] {
            assert_eq!(is_about(why, on, key), expected, "{why}: {on} {key}");
        }
    }
}
