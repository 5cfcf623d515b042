//! What a broker says when it refuses, and what that is to whoever asked.

use std::io;
use std::time::Duration;

use lapin::{Error, ErrorKind};
use mesh_bus::BusError;
use rustls::CertificateError;

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
        None => match error.kind() {
            ErrorKind::IOError(error) => BusError::Away(format!("{what}: {}", in_words(error))),
            _ => BusError::Away(format!("{what}: {error}")),
        },
    }
}

/// What went wrong with a connection. That its peer is vouched for by somebody else is not the network's fault, and what
/// is to be done about it is something else.
pub(crate) fn in_words(error: &io::Error) -> String {
    let why = error.get_ref().and_then(|why| why.downcast_ref());
    match why {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("{error}; {UNVOUCHED}")
        }
        _ => error.to_string(),
    }
}

const UNVOUCHED: &str = "the authority that is trusted here (ca) does not vouch for the broker's certificate: name the one that issued it";

/// How long the broker lets a message be held, where it ended a channel because one was held for longer.
pub(crate) fn held_too_long(error: &Error) -> Option<Duration> {
    let (code, why) = said(error)?;
    (code == PRECONDITION_FAILED).then(|| timeout_in(&why))?
}

fn timeout_in(why: &str) -> Option<Duration> {
    let (_, rest) = why.split_once("delivery acknowledgement")?;
    let (_, rest) = rest.split_once("timed out. Timeout value used: ")?;
    let (millis, _) = rest.split_once(" ms")?;
    millis.parse().ok().map(Duration::from_millis)
}

/// How many bytes a message has, where it ended a channel because it is larger than the broker takes.
pub(crate) fn too_large(error: &Error) -> Option<(usize, String)> {
    let (code, why) = said(error)?;
    let bytes = (code == PRECONDITION_FAILED).then(|| size_in(&why))??;
    Some((bytes, why))
}

fn size_in(why: &str) -> Option<usize> {
    let (_, rest) = why.split_once("message size ")?;
    let (bytes, _) = rest.split_once(" is larger than ")?;
    bytes.parse().ok()
}

/// Whether a broker's words are about this exchange and key: what one message is refused for ends the channel, and with
/// it every other message on its way there, of which nothing is known.
pub(crate) fn is_about(why: &str, exchange: &str, key: &str) -> bool {
    let quoted = |name: &str| why.contains(&format!("'{name}'"));
    quoted(exchange) && (!why.contains("topic") || quoted(key))
}

/// No right to do it, or to log in.
const ACCESS_REFUSED: u16 = 403;
/// What was asked for is not as it is, or the broker has waited too long.
const PRECONDITION_FAILED: u16 = 406;
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

    #[test]
    fn a_channel_that_ended_since_a_message_was_held_says_for_how_long_one_may_be() {
        // As RabbitMQ 3.10 and 4.0 say it.
        for (why, expected) in [
            (
                "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. This timeout value can be configured, see consumers doc guide to learn more",
                Some(Duration::from_mins(30)),
            ),
            ("PRECONDITION_FAILED - unknown delivery tag 7", None),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'timed out' in vhost 'v'",
                None,
            ),
        ] {
            assert_eq!(timeout_in(why), expected, "{why}");
        }
    }

    #[test]
    fn a_channel_that_ended_for_a_message_that_is_too_large_says_how_large_that_is() {
        // As RabbitMQ 3.10 and 4.0 say it.
        for (why, expected) in [
            (
                "PRECONDITION_FAILED - message size 17825792 is larger than configured max size 16777216",
                Some(17_825_792),
            ),
            (
                "PRECONDITION_FAILED - message size 536870913 is larger than max size 536870912",
                Some(536_870_913),
            ),
            ("PRECONDITION_FAILED - unknown delivery tag 7", None),
        ] {
            assert_eq!(size_in(why), expected, "{why}");
        }
    }

    #[test]
    fn a_certificate_of_another_authority_is_told_from_a_network_that_fails() {
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let expired = rustls::Error::InvalidCertificate(CertificateError::Expired);
        for (error, expected) in [
            (io::Error::new(io::ErrorKind::InvalidData, unknown), true),
            (io::Error::new(io::ErrorKind::InvalidData, expired), false),
            (io::Error::from(io::ErrorKind::ConnectionReset), false),
        ] {
            let words = in_words(&error);
            assert!(words.starts_with(&error.to_string()), "{words}");
            assert_eq!(words.contains("name the one that issued it"), expected);
        }
    }
}
