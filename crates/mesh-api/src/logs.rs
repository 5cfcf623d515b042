//! A log over the surface: lines of JSON, one for each thing that is said, for as long as somebody reads.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BytesMut};
use data_encoding::BASE64;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use mesh_model::{ModuleName, NodeName};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::client::{CallError, Driver};
use crate::error::ApiError;

/// How a log is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// On this node only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// How many of the last lines.
    pub tail: u32,
    /// Whether what is written from now on, too.
    #[serde(default)]
    pub follow: bool,
}

/// One thing that is said of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "kebab-case")]
pub enum LogRecord {
    /// Where it is read; the first there is.
    Nodes {
        /// On each of these.
        nodes: Vec<NodeName>,
    },
    /// A line.
    Line {
        /// On which node it was written.
        node: NodeName,
        /// What was written, without what ended the line; in base64, since it may be anything.
        #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
        bytes: Vec<u8>,
        /// Whether it was longer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut: bool,
    },
    /// So many lines were left out here, since they were not read fast enough.
    Dropped {
        /// On which node.
        node: NodeName,
        /// How many.
        lines: u64,
    },
    /// Some lines were lost on their way, nobody knows how many.
    Lost {
        /// From which node.
        node: NodeName,
    },
    /// Nothing more comes from a node.
    Ended {
        /// Which.
        node: NodeName,
        /// Why, unless that was all there is.
        error: Option<ApiError>,
    },
}

/// A log as it is read.
pub type LogRecords = BoxStream<'static, LogRecord>;

fn to_base64<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&BASE64.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    BASE64
        .decode(text.as_bytes())
        .map_err(serde::de::Error::custom)
}

impl LogQuery {
    /// Where it is asked.
    pub(crate) fn path(&self, module: &ModuleName) -> String {
        let Self { node, tail, follow } = self;
        let node = node.as_ref().map(|node| format!("&node={node}"));
        let node = node.unwrap_or_default();
        format!("/v1/logs/{module}?tail={tail}&follow={follow}{node}")
    }
}

/// The answer that goes on for as long as the log does, or its reader.
pub(crate) fn streamed(records: LogRecords) -> Response {
    let lines = records.map(|record| {
        let mut line = serde_json::to_vec(&record).unwrap_or_default();
        line.push(b'\n');
        Ok::<_, Infallible>(line)
    });
    let headers = [(CONTENT_TYPE, "application/x-ndjson")];
    (headers, Body::from_stream(lines)).into_response()
}

/// Reads a log. Dropped, it is read no more, and its node is told.
#[derive(Debug)]
pub struct LogReader {
    body: Incoming,
    rest: BytesMut,
    _driver: Driver,
}

impl LogReader {
    pub(crate) fn of(body: Incoming, driver: Driver) -> Self {
        Self {
            body,
            rest: BytesMut::new(),
            _driver: driver,
        }
    }

    /// What is said next; nothing once all has ended. May be dropped.
    pub async fn next(&mut self) -> Result<Option<LogRecord>, CallError> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end);
                self.rest.advance(1);
                let record = serde_json::from_slice(&line);
                return record
                    .map(Some)
                    .map_err(|error| CallError::NotUnderstood(error.to_string()));
            }
            if self.rest.len() > LINE {
                let why = format!("a line of more than {LINE} bytes");
                return Err(CallError::NotUnderstood(why));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(CallError::Broken(error.to_string())),
                None if self.rest.is_empty() => return Ok(None),
                None => return Err(CallError::Broken("half a line came".to_owned())),
            }
        }
    }
}

/// Bytes of a line of JSON at most.
const LINE: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_as_whoever_reads_it_knows_it() {
        let node: NodeName = "one".parse().unwrap();
        let line = LogRecord::Line {
            node: node.clone(),
            bytes: b"\xff\x1b[1m".to_vec(),
            cut: false,
        };
        let ended = LogRecord::Ended { node, error: None };
        for (record, text) in [
            (line, r#"{"says":"line","node":"one","bytes":"/xtbMW0="}"#),
            (ended, r#"{"says":"ended","node":"one","error":null}"#),
        ] {
            assert_eq!(serde_json::to_string(&record).unwrap(), text);
            assert_eq!(serde_json::from_str::<LogRecord>(text).unwrap(), record);
        }
    }

    #[test]
    fn what_is_asked_is_what_is_read() {
        let module: ModuleName = "shop".parse().unwrap();
        let mut query = LogQuery {
            node: None,
            tail: 7,
            follow: true,
        };
        assert_eq!(query.path(&module), "/v1/logs/shop?tail=7&follow=true");
        query.node = Some("one".parse().unwrap());
        let path = query.path(&module);
        assert_eq!(path, "/v1/logs/shop?tail=7&follow=true&node=one");
    }
}
