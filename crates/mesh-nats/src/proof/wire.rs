//! The least client there can be: the text protocol, every refusal in its place, and nothing tried twice. A library's
//! client keeps refusals apart from what was refused, and reconnects where here the end of a connection is an answer.

use std::fmt;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use mesh_bus::BusError;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::identity::proof_of;
use super::pipe::{Address, Stream};
use crate::connect::{Credential, Endpoint};
use crate::reloading::unless_reloading;

/// One connection. What it does not get through with is dropped with it.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    read: BytesMut,
    /// Still to be written.
    out: BytesMut,
    challenge: String,
    /// What the server refused last: where it then hangs up, that is why.
    refused: Option<String>,
}

/// What a server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A message of a subscription.
    Message(Message),
    /// A refusal, without the quotes around it.
    Refusal(String),
    /// It has read everything before the `PING`.
    Pong,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Where it was published.
    pub(super) subject: String,
    /// Where an answer is to go.
    pub(super) reply: Option<String>,
    /// The headers as they are, the line of the status first.
    pub(super) headers: Bytes,
    /// The body.
    pub(super) body: Bytes,
}

impl Message {
    /// The status in place of a message, where it is one.
    pub(super) fn status(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.headers);
        let status = text.lines().next()?.strip_prefix(VERSION)?.trim();
        (!status.is_empty()).then(|| status.to_owned())
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.headers);
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        Some(value.trim().to_owned())
    }
}

impl Wire {
    /// Connects to the first server that can be reached. A refusal is believed when it is repeated.
    pub(super) async fn open(
        endpoint: &Endpoint,
        credential: &Credential,
    ) -> Result<Self, BusError> {
        unless_reloading(|| async {
            let mut last = BusError::Away("no server is named".to_owned());
            for url in &endpoint.urls {
                let opened = timeout(OPENED_WITHIN, Self::open_at(url, endpoint, credential));
                match opened.await {
                    Ok(Ok(wire)) => return Ok(wire),
                    Ok(Err(error)) => last = error,
                    Err(_late) => last = BusError::Away(format!("{url} does not answer")),
                }
            }
            Err(last)
        })
        .await
    }

    async fn open_at(
        url: &str,
        endpoint: &Endpoint,
        credential: &Credential,
    ) -> Result<Self, BusError> {
        let address = Address::parse(url)?;
        let mut stream = address.dial().await?;
        let info = greeting(&mut stream).await?;
        let stream: Box<dyn Stream> = match &endpoint.tls {
            Some(tls) => address.encrypt(stream, tls).await?,
            None => Box::new(stream),
        };
        let text = |key: &str| info.get(key).and_then(Value::as_str).unwrap_or_default();
        let challenge = text("nonce").to_owned();
        let mut wire = Self {
            stream,
            read: BytesMut::new(),
            out: BytesMut::new(),
            refused: None,
            challenge,
        };
        let mut connect = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "protocol": 1, "echo": true,
            "lang": "rust", "version": env!("CARGO_PKG_VERSION"), "name": endpoint.name,
            "tls_required": endpoint.tls.is_some(),
        });
        if let Some(members) = connect.as_object_mut() {
            members.extend(proof_of(credential, &wire.challenge)?);
        }
        wire.put(format_args!("CONNECT {connect}\r\nPING\r\n"));
        loop {
            match wire.next().await? {
                Said::Pong => return Ok(wire),
                Said::Refusal(why) => {
                    return Err(BusError::Refused {
                        what: "the connection".to_owned(),
                        why,
                    });
                }
                Said::Message(_) => {}
            }
        }
    }

    /// What the server asked to have signed: unlike that of any other connection.
    pub(super) fn challenge(&self) -> &str {
        &self.challenge
    }

    /// Adds to what is written next.
    pub(super) fn put(&mut self, text: fmt::Arguments<'_>) {
        self.out.extend_from_slice(text.to_string().as_bytes());
    }

    /// Adds a message.
    pub(super) fn publish(
        &mut self,
        subject: &str,
        reply: Option<&str>,
        headers: &[(&str, &str)],
        body: &str,
    ) {
        let reply = reply.map(|reply| format!("{reply} ")).unwrap_or_default();
        let size = body.len();
        if headers.is_empty() {
            self.put(format_args!("PUB {subject} {reply}{size}\r\n{body}\r\n"));
            return;
        }
        let lines = headers.iter();
        let lines: Vec<String> = lines
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!("{VERSION}\r\n{}\r\n", lines.concat());
        let (head_size, size) = (head.len(), head.len() + size);
        self.put(format_args!(
            "HPUB {subject} {reply}{head_size} {size}\r\n{head}{body}\r\n"
        ));
    }

    /// Writes what there is to write, and waits for what the server says next. Dropped, it goes on where it was.
    pub(super) async fn next(&mut self) -> Result<Said, BusError> {
        loop {
            self.flush().await?;
            match self.parse()? {
                Parsed::Said(said) => {
                    if let Said::Refusal(why) = &said {
                        self.refused = Some(why.clone());
                    }
                    return Ok(said);
                }
                Parsed::Ping => self.put(format_args!("PONG\r\n")),
                Parsed::PassedOver => {}
                Parsed::Incomplete => {
                    let read = self.stream.read_buf(&mut self.read).await;
                    if read.map_err(|error| self.away(&error))? == 0 {
                        return Err(self.ended("the server hung up"));
                    }
                }
            }
        }
    }

    async fn flush(&mut self) -> Result<(), BusError> {
        while self.out.has_remaining() {
            let written = self.stream.write(&self.out).await;
            let written = written.map_err(|error| self.away(&error))?;
            self.out.advance(written);
        }
        let flushed = self.stream.flush().await;
        flushed.map_err(|error| self.away(&error))
    }

    fn away(&self, error: &std::io::Error) -> BusError {
        self.ended(&error.to_string())
    }

    fn ended(&self, why: &str) -> BusError {
        let refused = self.refused.as_deref();
        BusError::Away(
            refused.map_or_else(|| why.to_owned(), |last| format!("{why} after: {last}")),
        )
    }

    fn parse(&mut self) -> Result<Parsed, BusError> {
        let Some(end) = self.read.windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(Parsed::Incomplete);
        };
        let line = String::from_utf8_lossy(self.read.get(..end).unwrap_or_default()).into_owned();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (head, size) = match words.as_slice() {
            ["MSG", .., size] => ("0", *size),
            ["HMSG", .., head, size] => (*head, *size),
            _ => {
                self.read.advance(end + 2);
                return Ok(Parsed::of(&line));
            }
        };
        let (Ok(head), Ok(size)) = (head.parse::<usize>(), size.parse::<usize>()) else {
            return Err(self.ended(&format!("the server says {line:?}")));
        };
        if self.read.len() < end + 2 + size + 2 {
            return Ok(Parsed::Incomplete);
        }
        self.read.advance(end + 2);
        let mut all = self.read.split_to(size).freeze();
        self.read.advance(2);
        let headers = all.split_to(head.min(size));
        // Verb, subject, number of the subscription, a reply where there is one, and one or two sizes.
        let sizes = if words.first() == Some(&"HMSG") { 2 } else { 1 };
        let has_reply = words.len() == 4 + sizes;
        Ok(Parsed::Said(Said::Message(Message {
            subject: (*words.get(1).unwrap_or(&"")).to_owned(),
            reply: words
                .get(3)
                .filter(|_| has_reply)
                .map(|it| (*it).to_owned()),
            headers,
            body: all,
        })))
    }
}

enum Parsed {
    Said(Said),
    Ping,
    PassedOver,
    Incomplete,
}

impl Parsed {
    fn of(line: &str) -> Self {
        match line
            .split_once(' ')
            .map_or((line, ""), |(verb, rest)| (verb, rest))
        {
            ("PONG", _) => Self::Said(Said::Pong),
            ("PING", _) => Self::Ping,
            ("-ERR", why) => Self::Said(Said::Refusal(why.trim().trim_matches('\'').to_owned())),
            _ => Self::PassedOver,
        }
    }
}

/// The line a server begins with, byte by byte: what follows it may be encrypted already.
async fn greeting(stream: &mut tokio::net::TcpStream) -> Result<Value, BusError> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < GREETING {
        match stream.read_u8().await {
            Ok(byte) => line.push(byte),
            Err(error) => return Err(BusError::Away(error.to_string())),
        }
    }
    let text = String::from_utf8_lossy(&line);
    let info = text.strip_prefix("INFO ").map(serde_json::from_str);
    match info {
        Some(Ok(info)) => Ok(info),
        _ => Err(BusError::Away(format!(
            "it is no NATS server: it says {:?}",
            mesh_model::one_line(&text)
        ))),
    }
}

const VERSION: &str = "NATS/1.0";
/// More than any server's first line.
const GREETING: usize = 64 << 10;
const OPENED_WITHIN: Duration = Duration::from_secs(10);
