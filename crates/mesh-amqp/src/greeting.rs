//! A handshake before anybody logs in: for what it shows of a broker's certificate.

use std::sync::Arc;
use std::time::Duration;

use mesh_bus::BusError;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Shakes hands with the first of these servers that answers, and hangs up. What the configuration's verifier learns of
/// it is what this is for: nobody has said anything yet.
pub async fn greet(servers: &[(String, u16)], config: ClientConfig) -> Result<(), BusError> {
    let connector = TlsConnector::from(Arc::new(config));
    let mut last = BusError::Away("no server is named".to_owned());
    for (host, port) in servers {
        match timeout(GREETED_WITHIN, shake(&connector, host, *port)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => last = BusError::Away(format!("the broker at {host}:{port}: {why}")),
            Err(_) => last = BusError::Away(format!("the broker at {host}:{port} does not answer")),
        }
    }
    Err(last)
}

async fn shake(connector: &TlsConnector, host: &str, port: u16) -> Result<(), String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let greeted = connector.connect(name, stream).await;
    greeted.map(drop).map_err(|error| error.to_string())
}

const GREETED_WITHIN: Duration = Duration::from_secs(10);
