//! Publishing into a stream, and what its answer means.

use std::time::Duration;

use async_nats::{HeaderMap, RequestErrorKind, client::Request};
use mesh_bus::BusError;
use serde::Deserialize;

use crate::connect::Connection;

/// What the server says to a message that was to be stored.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    seq: u64,
    error: Option<ApiError>,
}

/// An error as JetStream writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ApiError {
    /// As in HTTP.
    #[serde(default)]
    pub(crate) code: u16,
    /// Which one; `errors.json` in nats-server lists them.
    #[serde(default)]
    pub(crate) err_code: u32,
    /// In words.
    #[serde(default)]
    pub(crate) description: String,
}

impl ApiError {
    /// What it means for whoever attempted `what`.
    pub(crate) fn into_bus_error(self, what: &str) -> BusError {
        match self.err_code {
            WRONG_LAST_SEQUENCE => BusError::Fenced(self.description),
            // What a stream may fill is set aside when it is made: no waiting makes a disk larger.
            NO_STORAGE if what.starts_with("STREAM.") => BusError::Refused {
                what: what.to_owned(),
                why: format!(
                    "{}: the server's disk has less room than its streams may fill together; give it more, or declare \
                     fewer seats",
                    self.description
                ),
            },
            STORE_FAILED | NO_STORAGE | NO_RESOURCES | NO_MEMORY => BusError::Full(what.to_owned()),
            MESSAGE_TOO_LARGE | HEADERS_TOO_LARGE => BusError::TooLarge {
                what: what.to_owned(),
                why: self.description,
            },
            _ if self.code == 503 => BusError::Away(format!("{what}: {}", self.description)),
            _ => BusError::Refused {
                what: what.to_owned(),
                why: format!("{} ({})", self.description, self.err_code),
            },
        }
    }
}

/// Publishes and waits until a stream has the message; returns its sequence there. A duplicate counts as stored.
pub(crate) async fn store(
    connection: &Connection,
    subject: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<u64, BusError> {
    let request = Request::new().headers(headers).payload(body.into());
    let answer = ask(connection, subject, request, STORED_WITHIN).await?;
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|error| BusError::Away(format!("{subject}: the answer is no answer: {error}")))?;
    match answer.error {
        None => Ok(answer.seq),
        Some(error) => Err(error.into_bus_error(subject)),
    }
}

/// Settles a message, and waits until the server says that it has: it says nothing of one it refuses to whom it withdrew
/// that, but for the client's events.
pub(crate) async fn confirm(
    connection: &Connection,
    reply: &str,
    how: &'static [u8],
) -> Result<(), BusError> {
    let request = Request::new().payload(how.into());
    ask(connection, reply, request, STORED_WITHIN)
        .await
        .map(drop)
}

/// Asks and waits for the answer. A refusal, which the server never answers with, is told from the client's events.
pub(crate) async fn ask(
    connection: &Connection,
    subject: &str,
    request: Request,
    within: Duration,
) -> Result<bytes::Bytes, BusError> {
    connection.require_up()?;
    let mut denials = connection.denials();
    let request = request.timeout(Some(within));
    let answer = connection
        .client()
        .send_request(subject.to_owned(), request);
    let denied = async {
        loop {
            match denials.recv().await {
                Ok(denial) if denial.is_of_publish(subject) => return denial.text,
                Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => {
                    std::future::pending::<()>().await;
                }
            }
        }
    };
    tokio::select! {
        answer = answer => answer.map(|message| message.payload).map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => {
                BusError::Away(format!("{subject}: no stream takes it"))
            }
            RequestErrorKind::TimedOut => {
                BusError::Away(format!("{subject}: no answer within {} s", within.as_secs()))
            }
            RequestErrorKind::MaxPayloadExceeded => BusError::TooLarge {
                what: subject.to_owned(),
                why: format!(
                    "the server takes {} bytes at most, headers included (max_payload)",
                    connection.client().max_payload()
                ),
            },
            RequestErrorKind::InvalidSubject => {
                BusError::Refused { what: subject.to_owned(), why: error.to_string() }
            }
            RequestErrorKind::Other => BusError::Away(error.to_string()),
        }),
        why = denied => Err(BusError::Refused { what: subject.to_owned(), why }),
    }
}

const WRONG_LAST_SEQUENCE: u32 = 10_071;
/// Also what `maximum messages per subject exceeded` comes with.
const STORE_FAILED: u32 = 10_077;
const NO_STORAGE: u32 = 10_047;
/// Above `max_msg_size` of its stream.
const MESSAGE_TOO_LARGE: u32 = 10_054;
/// Above 64 KiB.
const HEADERS_TOO_LARGE: u32 = 10_097;
const NO_MEMORY: u32 = 10_028;
const NO_RESOURCES: u32 = 10_023;
const STORED_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn api_error(code: u16, err_code: u32) -> ApiError {
        ApiError {
            code,
            err_code,
            description: "why".to_owned(),
        }
    }

    fn of(code: u16, err_code: u32) -> BusError {
        api_error(code, err_code).into_bus_error("what")
    }

    #[test]
    fn what_the_server_answers_is_what_the_seam_says() {
        assert_eq!(of(400, 10_071), BusError::Fenced("why".to_owned()));
        assert_eq!(of(503, 10_077), BusError::Full("what".to_owned()));
        assert_eq!(of(500, 10_047), BusError::Full("what".to_owned()));
        let made = api_error(500, 10_047).into_bus_error("STREAM.CREATE.EVENTS");
        assert!(matches!(made, BusError::Refused { .. }), "{made:?}");
        for too_large in [10_054, 10_097] {
            assert!(of(400, too_large).is_of_the_message());
        }
        assert!(of(503, 10_008).is_passing());
        assert!(matches!(of(500, 10_012), BusError::Refused { .. }));
        assert!(matches!(of(400, 10_025), BusError::Refused { .. }));
    }

    #[test]
    fn a_duplicate_is_stored() {
        let answer: Answer =
            serde_json::from_str(r#"{"stream":"EVENTS","seq":4,"duplicate":true}"#).unwrap();
        assert_eq!((answer.seq, answer.error), (4, None));
    }
}
