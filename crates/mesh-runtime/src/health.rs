//! Asks a module for its health.

use std::time::Duration;

use mesh_model::Probe;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Runs a command where a module is: beside a process, inside a container.
pub(crate) trait Exec {
    /// Runs it to its end; an error says in a few words what is wrong. Dropped, the command is ended.
    fn exec(&self, command: &[String]) -> impl Future<Output = Result<(), String>> + Send;
}

/// Asks once. No answer within `limit` is a bad one.
pub(crate) async fn ask(probe: &Probe, limit: Duration, exec: &impl Exec) -> Result<(), String> {
    let answer = async {
        match probe {
            Probe::Http(url) => http(url).await,
            Probe::Tcp(address) => connect(address).await.map(drop),
            Probe::Exec(command) => exec.exec(command).await,
        }
    };
    timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(format!("{} did not answer in time", named(probe))))
}

fn named(probe: &Probe) -> &str {
    match probe {
        Probe::Http(at) | Probe::Tcp(at) => at,
        Probe::Exec(command) => command.first().map_or("the command", String::as_str),
    }
}

async fn connect(address: &str) -> Result<TcpStream, String> {
    let connected = TcpStream::connect(address).await;
    connected.map_err(|refused| format!("{address}: {refused}"))
}

/// Asks a URL of plain HTTP, and reads of the answer no more than its first line: the status is all that counts.
async fn http(url: &str) -> Result<(), String> {
    let Some(Url {
        address,
        host,
        path,
    }) = Url::of(url)
    else {
        return Err(format!("{url} is no URL of plain HTTP"));
    };
    let mut stream = connect(&address).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: mesh-agent\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    let broken = |broken: std::io::Error| format!("{url}: {broken}");
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut line = Vec::new();
    let mut limited = stream.take(STATUS_LIMIT);
    while !line.contains(&b'\n') {
        if limited.read_buf(&mut line).await.map_err(broken)? == 0 {
            break;
        }
    }
    match status(&line) {
        Some(200..=399) => Ok(()),
        Some(status) => Err(format!("{url} answered with status {status}")),
        None => Err(format!("{url} answered with no HTTP")),
    }
}

/// Bytes of an answer within which its first line has to end.
const STATUS_LIMIT: u64 = 4 * 1024;

/// The status in the first line of an answer.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let (version, rest) = line.trim_end().split_once(' ')?;
    let status = rest.split(' ').next()?;
    let good = version.starts_with("HTTP/1.") && status.len() == 3;
    good.then(|| status.parse().ok()).flatten()
}

/// Where a URL leads.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    address: String,
    host: String,
    path: String,
}

impl Url {
    fn of(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("http://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at_checked(end)?;
        let path = path.split('#').next().unwrap_or_default();
        let clean = |part: &str| !part.contains(|c: char| c.is_whitespace() || c.is_control());
        if host.is_empty() || host.contains('@') || !clean(host) || !clean(path) {
            return None;
        }
        // After the last colon comes the port, unless that colon is inside of `[::1]`.
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.ends_with(']'));
        let address = if has_port {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        Some(Self {
            address,
            host: host.to_owned(),
            path: format!("{slash}{path}"),
        })
    }
}

#[cfg(test)]
mod tests;
