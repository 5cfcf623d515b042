//! Bytes to a server and back, encrypted where the mesh's servers prove themselves.

use std::fmt;
use std::sync::Arc;

use mesh_bus::BusError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection, plain or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

/// Where one server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Reads `nats://host:port` or `tls://host:port`; the port is 4222 where none is named.
    pub(super) fn parse(url: &str) -> Result<Self, BusError> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            // An address of IPv6 has colons of its own, and stands in brackets.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (rest, Some(4222)),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match port {
            Some(port) if !host.is_empty() => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(BusError::Refused {
                what: url.to_owned(),
                why: "it is no address: write nats://host:port".to_owned(),
            }),
        }
    }

    /// Connects.
    pub(super) async fn dial(&self) -> Result<TcpStream, BusError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| self.away(&error))?;
        stream
            .set_nodelay(true)
            .map_err(|error| self.away(&error))?;
        Ok(stream)
    }

    /// Has the server prove itself, and encrypts from there on.
    pub(super) async fn encrypt(
        &self,
        stream: TcpStream,
        tls: &rustls::ClientConfig,
    ) -> Result<Box<dyn Stream>, BusError> {
        let name = ServerName::try_from(self.host.clone()).map_err(|error| BusError::Refused {
            what: self.to_string(),
            why: error.to_string(),
        })?;
        let connector = TlsConnector::from(Arc::new(tls.clone()));
        let stream = connector.connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| self.away(&error))?))
    }

    fn away(&self, error: &std::io::Error) -> BusError {
        BusError::Away(format!("{self}: {error}"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_in_each_form() {
        for (url, host, port) in [
            ("nats://127.0.0.1:4223", "127.0.0.1", 4223),
            ("tls://bus.example:1", "bus.example", 1),
            ("nats://bus.example", "bus.example", 4222),
            ("nats://[::1]:5", "::1", 5),
            ("tls://[::1]", "::1", 4222),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{url}");
        }
        for url in ["", "nats://", "nats://a:x", "nats://:1"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
