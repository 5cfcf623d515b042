//! The least client there can be: the text protocol, every refusal in its place, and nothing tried twice. A library's
//! client keeps refusals apart from what was refused, and reconnects where here the end of a connection is an answer.

use std::fmt;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use mesh_bus::BusError;
use mesh_model::one_line;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::identity::proof_of;
use super::pipe::{Address, Stream};
use super::reading::{Heard, LINE, Message, Reading};
use crate::connect::{Credential, Endpoint};
use crate::reloading::unless_reloading;

/// One connection. What it does not get through with is dropped with it.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    read: Reading,
    /// Still to be written; the answer to the challenge among it.
    out: BytesMut,
    challenge: String,
    /// What the server refused last: where it then hangs up, that is why.
    refused: Option<String>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
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
        address.check(endpoint.tls.as_ref())?;
        let mut stream = address.dial().await?;
        let info = greeting(&mut stream).await?;
        let stream: Box<dyn Stream> = match &endpoint.tls {
            Some(tls) => address.encrypt(stream, tls).await?,
            None => Box::new(stream),
        };
        let text = |key: &str| info.get(key).and_then(Value::as_str).unwrap_or_default();
        let challenge = challenge(text("nonce"))?;
        let mut wire = Self {
            stream,
            read: Reading::default(),
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
        // JSON has no control character in it: what would end the line is escaped.
        wire.out
            .extend_from_slice(format!("CONNECT {connect}\r\n").as_bytes());
        wire.ping();
        loop {
            match wire.next().await? {
                Said::Pong => return Ok(wire),
                Said::Refusal(why) => {
                    return Err(BusError::Refused {
                        what: "the connection".to_owned(),
                        why: one_line(&why),
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

    /// Asks the server to say when it has read everything before this.
    pub(super) fn ping(&mut self) {
        self.out.extend_from_slice(b"PING\r\n");
    }

    /// Adds a subscription under a number.
    pub(super) fn subscribe(
        &mut self,
        filter: &str,
        group: Option<&str>,
        number: usize,
    ) -> Result<(), BusError> {
        let number = number.to_string();
        let mut words = vec!["SUB", filter];
        words.extend(group);
        words.push(&number);
        self.say(&words, b"")
    }

    /// Takes one back.
    pub(super) fn unsubscribe(&mut self, number: usize) -> Result<(), BusError> {
        self.say(&["UNSUB", &number.to_string()], b"")
    }

    /// Adds a message.
    pub(super) fn publish(
        &mut self,
        subject: &str,
        reply: Option<&str>,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), BusError> {
        let mut head = String::new();
        if !headers.is_empty() {
            head.push_str(VERSION);
            for (name, value) in headers {
                fenced(name)?;
                fenced(value)?;
                head.extend(["\r\n", name, ": ", value]);
            }
            head.push_str("\r\n\r\n");
        }
        let sizes = [head.len(), head.len() + body.len()].map(|size| size.to_string());
        let [head_size, size] = &sizes;
        let mut words = vec![if headers.is_empty() { "PUB" } else { "HPUB" }, subject];
        words.extend(reply);
        words.extend((!headers.is_empty()).then_some(head_size.as_str()));
        words.push(size);
        self.say(&words, &[head.as_bytes(), body, b"\r\n"].concat())
    }

    /// Adds a line of words, and what follows it. Whatever would be more than one word is refused here, whoever made it.
    fn say(&mut self, words: &[&str], rest: &[u8]) -> Result<(), BusError> {
        for word in words {
            fenced(word)?;
        }
        self.out.extend_from_slice(words.join(" ").as_bytes());
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(rest);
        Ok(())
    }

    /// Writes what there is to write, and waits for what the server says next. Dropped, it goes on where it was.
    pub(super) async fn next(&mut self) -> Result<Said, BusError> {
        loop {
            self.flush().await?;
            let heard = self.read.take();
            match heard.map_err(|error| self.ended(&error.to_string()))? {
                Some(Heard::Message(message)) => return Ok(Said::Message(message)),
                Some(Heard::Refusal(why)) => {
                    self.refused = Some(why.clone());
                    return Ok(Said::Refusal(why));
                }
                Some(Heard::Pong) => return Ok(Said::Pong),
                Some(Heard::Ping) => self.out.extend_from_slice(b"PONG\r\n"),
                None => {
                    let read = self.stream.read_buf(self.read.more()).await;
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
        BusError::Away(refused.map_or_else(
            || one_line(why),
            |last| one_line(&format!("{why} after: {last}")),
        ))
    }
}

/// One word, as it may stand in a line of the protocol or of a header.
fn fenced(word: &str) -> Result<(), BusError> {
    let ends = |character: char| character.is_whitespace() || character.is_control();
    if word.is_empty() || word.contains(ends) {
        return Err(BusError::Refused {
            what: format!("{:?}", one_line(word)),
            why: "it is not one word, and would be something else to the server".to_owned(),
        });
    }
    Ok(())
}

/// What a server asks to have signed, if it is what servers ask: it becomes a part of subjects.
fn challenge(text: &str) -> Result<String, BusError> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.is_empty() || text.len() > CHALLENGE || !text.as_bytes().iter().all(is_letter) {
        return Err(BusError::Refused {
            what: "the connection".to_owned(),
            why: format!(
                "the server asks for {:?} to be signed, which is no challenge",
                one_line(text)
            ),
        });
    }
    Ok(text.to_owned())
}

/// The line a server begins with, byte by byte: what follows it may be encrypted already.
async fn greeting(stream: &mut tokio::net::TcpStream) -> Result<Value, BusError> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < LINE {
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
            one_line(&text)
        ))),
    }
}

const VERSION: &str = "NATS/1.0";
/// More than any challenge: a server's has 15 letters.
const CHALLENGE: usize = 128;
const OPENED_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
