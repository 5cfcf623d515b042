//! As much of HTTP as an engine speaks on its socket: one request a connection, and answers whole or in parts.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the version of the API and without what follows `?`.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) async fn read(stream: &mut UnixStream) -> io::Result<Option<Self>> {
        let mut bytes = vec![];
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(None);
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut body = bytes.split_off(end + 4);
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        while body.len() < length {
            if stream.read_buf(&mut body).await? == 0 {
                return Ok(None);
            }
        }
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = match path.strip_prefix("/v1.41") {
            Some(rest) => rest,
            // Before the version is known.
            None => path.find("/version").map_or(path, |at| path.split_at(at).1),
        };
        Ok(Some(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: decoded(query),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            head,
        }))
    }

    /// One value of what follows `?`.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        let pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs
            .into_iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let pairs = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut of = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
    of.next().map(|(_, value)| value.trim())
}

pub(crate) async fn answer(stream: &mut UnixStream, status: u16, body: &Value) -> io::Result<()> {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let text = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await
}

/// Begins an answer that ends with the connection.
pub(crate) async fn begin(stream: &mut UnixStream) -> io::Result<()> {
    let text = "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    stream.write_all(text.as_bytes()).await
}

fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [a, b, more @ ..]) => {
                let pair = [*a, *b];
                let hex = std::str::from_utf8(&pair).unwrap();
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = more;
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
