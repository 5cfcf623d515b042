//! The management of a broker, over the least HTTP that speaks to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, ensure};
use data_encoding::BASE64;
use serde_json::Value;

/// Speaks to a broker's management as one of its users.
#[derive(Debug, Clone)]
pub struct Management {
    at: SocketAddr,
    login: String,
}

/// What it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code of HTTP.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Management {
    /// At this address, as this user.
    pub fn new(at: SocketAddr, user: &str, password: &str) -> Self {
        let login = BASE64.encode(format!("{user}:{password}").as_bytes());
        Self { at, login }
    }

    /// Where it is.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// As whom: the name and the password.
    pub fn credentials(&self) -> anyhow::Result<(String, String)> {
        let login = String::from_utf8(BASE64.decode(self.login.as_bytes())?)?;
        let (user, password) = login.split_once(':').context("a login has a password")?;
        Ok((user.to_owned(), password.to_owned()))
    }

    /// Reads what is at a path below `/api`.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.ask("GET", path, None)?;
        ensure!(
            answer.status == 200,
            "GET {path}: {} {}",
            answer.status,
            answer.body
        );
        serde_json::from_str(&answer.body).with_context(|| format!("GET {path}"))
    }

    /// Sends a document, and expects it to be taken.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<()> {
        let answer = self.ask(method, path, Some(&body.to_string()))?;
        ensure!(
            (200..300).contains(&answer.status),
            "{method} {path}: {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    }

    /// Asks, whatever the answer. HTTP 1.0, so that the answer is what comes until the connection ends.
    pub fn ask(&self, method: &str, path: &str, body: Option<&str>) -> anyhow::Result<Answer> {
        let body = body.unwrap_or_default();
        let mut stream = TcpStream::connect_timeout(&self.at, PATIENCE)
            .with_context(|| format!("connecting to {}", self.at))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} /api/{path} HTTP/1.0\r\nhost: {}\r\nauthorization: Basic {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.at,
            self.login,
            body.len(),
        )?;
        let mut text = String::new();
        stream
            .read_to_string(&mut text)
            .with_context(|| format!("{method} {path}"))?;
        let (head, body) = text
            .split_once("\r\n\r\n")
            .context("an answer has a head")?;
        let status = head.split(' ').nth(1).context("an answer has a status")?;
        Ok(Answer {
            status: status.parse()?,
            body: body.to_owned(),
        })
    }
}

const PATIENCE: Duration = Duration::from_secs(30);
