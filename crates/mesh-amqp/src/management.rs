//! The broker's management interface: HTTP and JSON, as the account that provisions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use mesh_bus::BusError;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::endpoint::Trust;
use crate::refusal::in_words;

/// Where a broker is managed, and as whom.
#[derive(Clone)]
pub struct Management {
    /// Its host.
    pub host: String,
    /// The port of its management plugin: 15672, or 15671 for one that encrypts.
    pub port: u16,
    /// By whom it is vouched for; plain HTTP without.
    pub trust: Option<Trust>,
    /// The account that provisions. It may administrate the broker, and is nobody's at run time.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for Management {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Management")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Management {
    /// What is there; nothing when it is not. Asked again where the broker stumbled over something that was just changing.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, BusError> {
        match self.call(Method::GET, path, None).await {
            Err(error) if error.is_passing() => {
                sleep(ASKED_AGAIN).await;
                self.call(Method::GET, path, None).await
            }
            other => other,
        }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Option<Value>, BusError> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Removes what is there, or is not.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), BusError> {
        self.call(Method::DELETE, path, None).await.map(drop)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, BusError> {
        let what = format!("{method} {path}");
        let credential = BASE64.encode(format!("{}:{}", self.user, self.password).as_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", format!("{}:{}", self.host, self.port))
            .header("authorization", format!("Basic {credential}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(
                body.map(Value::to_string).unwrap_or_default(),
            )))
            .map_err(|error| self.away(&error))?;
        let answered = timeout(ANSWERED_WITHIN, self.exchange(request)).await;
        let (status, bytes) = answered.map_err(|_| self.away(&"no answer in time"))??;
        self.read(&what, status, &bytes)
    }

    fn read(
        &self,
        what: &str,
        status: StatusCode,
        bytes: &[u8],
    ) -> Result<Option<Value>, BusError> {
        let read = || serde_json::from_slice::<Value>(bytes).ok();
        if status.is_success() {
            return Ok(Some(read().unwrap_or_default()));
        }
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let why = read().and_then(|said| {
            let reason = said.get("reason").or_else(|| said.get("error"))?;
            Some(
                reason
                    .as_str()
                    .map_or_else(|| reason.to_string(), str::to_owned),
            )
        });
        let why = why.unwrap_or_else(|| status.to_string());
        if status.is_server_error() {
            return Err(self.away(&why));
        }
        Err(BusError::Refused {
            what: format!("{what} by {} through its management", self.user),
            why,
        })
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), BusError> {
        let stream = self.open().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.away(&error))?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| self.away(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| self.away(&error))?;
        Ok((status, body.to_bytes()))
    }

    async fn open(&self) -> Result<Box<dyn Stream>, BusError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| self.away(&error))?;
        let Some(trust) = &self.trust else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| self.away(&error))?;
        let connector = TlsConnector::from(Arc::clone(&trust.config()));
        let stream = connector.connect(name, stream).await;
        let stream = stream.map_err(|error| self.away(&in_words(&error)))?;
        Ok(Box::new(stream))
    }

    fn away(&self, why: &dyn fmt::Display) -> BusError {
        BusError::Away(format!(
            "the management of the broker at {}:{}: {why}",
            self.host, self.port
        ))
    }
}

/// A name as one part of a path.
pub(crate) fn part(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            part.push(char::from(byte));
        } else {
            part.push('%');
            part.push_str(&data_encoding::HEXUPPER.encode(&[byte]));
        }
    }
    part
}

/// A broker with a hundred thousand queues takes a while to list them.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const ASKED_AGAIN: Duration = Duration::from_millis(100);
/// Bytes of an answer; the definitions of a mesh of a hundred thousand nodes fit.
const LARGEST: usize = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path_whatever_is_in_it() {
        for (name, expected) in [
            ("/", "%2F"),
            ("node.a", "node.a"),
            ("report.*", "report.%2A"),
            ("a b#", "a%20b%23"),
        ] {
            assert_eq!(part(name), expected);
        }
    }
}
