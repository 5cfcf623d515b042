//! The least HTTP that speaks to a container engine and to a registry of images.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// On a socket of the file system.
    Unix(PathBuf),
    /// On loopback.
    Tcp(SocketAddr),
}

/// What is asked of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// Lines of the head besides those that every request has, by name.
    pub head: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: &'a [u8],
}

/// What it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The line of the head with this name.
    pub fn line(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| self.text())
    }

    /// The same, if what was asked was done.
    pub fn ok(self) -> anyhow::Result<Self> {
        if !(200..300).contains(&self.status) {
            bail!("{}: {}", self.status, self.text());
        }
        Ok(self)
    }
}

/// Asks, whatever the answer. HTTP 1.0, so that the answer is what comes until the connection ends.
pub fn ask(at: &At, method: &str, path: &str, ask: Ask<'_>) -> anyhow::Result<Answer> {
    let what = || format!("{method} {path}");
    match at {
        At::Unix(socket) => {
            let stream = UnixStream::connect(socket)
                .with_context(|| format!("connecting to {}", socket.display()))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            talk(stream, "engine", method, path, ask).with_context(what)
        }
        At::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)
                .with_context(|| format!("connecting to {address}"))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            talk(stream, &address.to_string(), method, path, ask).with_context(what)
        }
    }
}

fn talk(
    mut stream: impl Read + Write,
    host: &str,
    method: &str,
    path: &str,
    Ask { head, body }: Ask<'_>,
) -> anyhow::Result<Answer> {
    let mut said = Vec::new();
    write!(said, "{method} {path} HTTP/1.0\r\nhost: {host}\r\n")?;
    for (name, value) in head {
        write!(said, "{name}: {value}\r\n")?;
    }
    write!(said, "content-length: {}\r\n\r\n", body.len())?;
    said.extend_from_slice(body);
    // A server that answers before it has read everything may cut off who still says it, or hears: what it said counts.
    let told = stream.write_all(&said);
    let mut bytes = Vec::new();
    let heard = stream.read_to_end(&mut bytes);
    if let Some(answer) = read(&bytes) {
        return Ok(answer);
    }
    told?;
    heard?;
    bail!("no answer: {}", String::from_utf8_lossy(&bytes))
}

fn read(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, rest) = bytes.split_at_checked(end)?;
    let head = String::from_utf8_lossy(head).into_owned();
    Some(Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        head,
        body: rest.get(4..)?.to_owned(),
    })
}

/// Longer than anything asked here takes: an image of some size, pulled slowly.
const PATIENCE: Duration = Duration::from_mins(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_with_its_status_its_head_and_a_body_of_any_bytes() {
        let answer =
            read(b"HTTP/1.0 202 Accepted\r\nLocation: /there\r\n\r\n\xff\r\n\r\n").unwrap();
        assert_eq!(answer.status, 202);
        assert_eq!(answer.line("location"), Some("/there"));
        assert_eq!(answer.body, b"\xff\r\n\r\n");
        assert_eq!(read(b"HTTP/1.0 202"), None);
    }
}
