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
    /// Whether it is spoken with encrypted or not at all.
    must_encrypt: bool,
}

impl Address {
    /// Reads `nats://host:port` or `tls://host:port`; the port is 4222 where none is named.
    pub(super) fn parse(url: &str) -> Result<Self, BusError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            // An address of IPv6 has colons of its own, and stands in brackets.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (rest, Some(4222)),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let must_encrypt = match scheme {
            "nats" => Some(false),
            "tls" => Some(true),
            _ => None,
        };
        match (must_encrypt, port) {
            (Some(must_encrypt), Some(port)) if !host.is_empty() && !host.contains('@') => {
                Ok(Self {
                    host: host.to_owned(),
                    port,
                    must_encrypt,
                })
            }
            _ => Err(BusError::Refused {
                what: mesh_model::one_line(url),
                why: "it is no address: write nats://host:port or tls://host:port".to_owned(),
            }),
        }
    }

    /// An error where it must be encrypted, and nothing says how its server proves itself.
    pub(super) fn check(&self, tls: Option<&rustls::ClientConfig>) -> Result<(), BusError> {
        if self.must_encrypt && tls.is_none() {
            return Err(BusError::Refused {
                what: self.to_string(),
                why: "its address begins with tls://, and nothing says which certificate to trust"
                    .to_owned(),
            });
        }
        Ok(())
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
        for url in [
            "",
            "nats://",
            "nats://a:x",
            "nats://:1",
            "ws://a:1",
            "nats://u:p@a:1",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn what_is_to_be_encrypted_is_not_spoken_in_the_clear() {
        let of = |url: &str| Address::parse(url).unwrap().check(None);
        assert!(matches!(of("tls://a:1"), Err(BusError::Refused { .. })));
        assert!(of("nats://a:1").is_ok());
    }
}
