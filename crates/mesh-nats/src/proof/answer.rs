//! What an answer says of where a message arrived.

use mesh_derive::proof::Evidence;
use serde_json::Value;

use super::found::{Found, Text};
use super::reading::Message;

/// What came of an act of which this is to be seen, by the answer to it.
pub(super) fn found(by: &Evidence, answer: Option<&Message>) -> Found {
    let Some(message) = answer else {
        return Found::Unheard;
    };
    let status = message.status();
    if status.is_some_and(|status| status.starts_with("503")) {
        return Found::Otherwise(Text::of("503, nobody takes it"));
    }
    let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
    let is = match by {
        Evidence::Stream(stream) => {
            if body.get("error").is_none() && body.get("seq").is_some() {
                return Found::Effect(Text::of(&format!("it was stored: {body}")));
            }
            let code = body.pointer("/error/err_code").and_then(Value::as_u64);
            code == Some(ANOTHER_STREAM)
                && body.get("stream").and_then(Value::as_str) == Some(stream.as_str())
        }
        Evidence::Consumer(_) => message.body.is_empty(),
        Evidence::Api => is_of_api(message, &body),
        Evidence::HeardBySelf | Evidence::HeardInMesh | Evidence::Taken => true,
    };
    if is {
        Found::Allowed
    } else {
        Found::Otherwise(Text::of(&String::from_utf8_lossy(&message.body)))
    }
}

/// Whether the API answers, whatever it says: what a proof asks is meant to fail, and that it cannot be read is said by
/// whom it has reached.
fn is_of_api(message: &Message, body: &Value) -> bool {
    let of = body.get("type").and_then(Value::as_str);
    of.is_some_and(|of| of.starts_with(RESPONSE))
        // Where messages are asked for, a status is the answer, or the message itself.
        || (message.body.is_empty() && message.status().is_some())
        || message.header(STORED_IN).is_some()
}

/// What the type of every answer of the API begins with.
const RESPONSE: &str = "io.nats.jetstream.api.";
/// The header of a message that is read from a stream.
const STORED_IN: &str = "Nats-Stream";
/// "expected stream does not match"
const ANOTHER_STREAM: u64 = 10_060;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(headers: &'static str, body: &'static str) -> Message {
        Message {
            subject: "mesh.inbox.controller.x".to_owned(),
            headers: headers.into(),
            body: body.into(),
        }
    }

    #[test]
    fn whatever_the_api_answers_it_was_reached_and_what_another_says_is_shown() {
        let error = r#"{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":400,"err_code":10025}}"#;
        for (headers, body) in [
            ("", error),
            ("NATS/1.0 400 Bad Request\r\n\r\n", ""),
            ("NATS/1.0\r\nNats-Stream: EVENTS\r\n\r\n", "sold"),
        ] {
            let found = found(&Evidence::Api, Some(&message(headers, body)));
            assert_eq!(found, Found::Allowed, "{headers} {body}");
        }
        for (headers, body) in [
            ("NATS/1.0 503\r\n\r\n", ""),
            ("", ""),
            ("", "{\"type\":\"another\"}"),
            ("", "{\"error\":{\"code\":400}}"),
        ] {
            let found = found(&Evidence::Api, Some(&message(headers, body)));
            assert!(matches!(found, Found::Otherwise(_)), "{headers} {body}");
        }
        assert_eq!(found(&Evidence::Api, None), Found::Unheard);
    }

    #[test]
    fn a_stream_that_stores_a_probe_or_is_another_has_not_answered_as_it_is_to() {
        let by = Evidence::Stream(mesh_derive::subject::events_stream());
        let said = |body| found(&by, Some(&message("", body)));
        let refuses = r#"{"error":{"err_code":10060},"stream":"EVENTS","seq":0}"#;
        assert_eq!(said(refuses), Found::Allowed);
        let another = r#"{"error":{"err_code":10060},"stream":"NODES","seq":0}"#;
        assert!(matches!(said(another), Found::Otherwise(_)));
        let stored = r#"{"stream":"EVENTS","seq":7}"#;
        assert!(matches!(said(stored), Found::Effect(_)));
    }
}
