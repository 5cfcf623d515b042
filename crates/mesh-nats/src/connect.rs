//! Connecting as one principal: its inbox, its credential, and what the client would otherwise keep to itself.

mod delay;
mod observer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use mesh_bus::{BusError, Link};
use mesh_derive::subject::inbox_prefix;
use mesh_model::{Principal, PublicKey};
use tokio::sync::{broadcast, watch};

use crate::denial::Denial;
use crate::reloading::unless_reloading;
use crate::version::Version;
use crate::warned::Warned;
use delay::reconnect_delay;
use observer::Observer;

/// Where a bus is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its servers, each as `nats://host:port` or `tls://host:port`.
    pub urls: Vec<String>,
    /// How the server proves itself; plain TCP without.
    pub tls: Option<rustls::ClientConfig>,
    /// What the connection is called in the server's own lists.
    pub name: String,
}

/// What proves a principal to the server.
#[derive(Clone)]
pub enum Credential {
    /// The seed of a user nkey.
    NKeySeed(String),
    /// The text of a credentials file: a user JWT and its seed.
    Creds(String),
}

impl Credential {
    /// The public half, by which records know it; nothing where there is no seed in it.
    pub fn public(&self) -> Option<PublicKey> {
        let seed = match self {
            Self::NKeySeed(seed) => seed.trim(),
            Self::Creds(text) => {
                let mut lines = text.lines().map(str::trim);
                lines.find(|line| line.starts_with("SU"))?
            }
        };
        let key = nkeys::KeyPair::from_seed(seed).ok()?;
        PublicKey::new(key.public_key()).ok()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NKeySeed(_) => "NKeySeed(redacted)",
            Self::Creds(_) => "Creds(redacted)",
        })
    }
}

/// What becomes of a first attempt that fails. Later on it is always tried again for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstAttempt {
    /// It is an error.
    MustSucceed,
    /// It is tried again for ever, and the connection is returned at once.
    MayFail,
}

/// How to keep connecting.
#[derive(Debug, Clone, Copy)]
pub struct Dialling {
    /// What becomes of a first attempt that fails.
    pub first: FirstAttempt,
    /// What the spread of the delays is drawn from: different for each host, or all of them come back at once.
    pub seed: u64,
}

/// A connection of one principal, which reconnects for ever.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    link: watch::Receiver<Link>,
    connects: watch::Receiver<u64>,
    denials: broadcast::Sender<Denial>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("link", &*self.link.borrow())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects as `principal`, with an inbox of its own.
    pub async fn open(
        endpoint: &Endpoint,
        credential: &Credential,
        principal: &Principal,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        // The client's own future is of many kilobytes, and would be part of every caller's.
        let open = |dialling| Box::pin(Self::opened(endpoint, credential, principal, dialling));
        if dialling.first == FirstAttempt::MustSucceed {
            return unless_reloading(|| open(dialling)).await;
        }
        let once = Dialling {
            first: FirstAttempt::MustSucceed,
            ..dialling
        };
        match open(once).await {
            // The client tries for ever without a word; what is in its way is said once, before it begins.
            Err(error @ (BusError::Away(_) | BusError::Refused { .. }))
                if dialling.first == FirstAttempt::MayFail =>
            {
                tracing::warn!(connection = endpoint.name, %error, "the bus is not reached; it is tried again and again");
                open(dialling).await
            }
            other => other,
        }
    }

    async fn opened(
        endpoint: &Endpoint,
        credential: &Credential,
        principal: &Principal,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let (link_tx, link) = watch::channel(Link::Down);
        let (connects_tx, connects) = watch::channel(0);
        let (denials, _) = broadcast::channel(DENIALS_KEPT);
        let observer = Arc::new(Observer {
            name: endpoint.name.clone(),
            link: link_tx,
            connects: connects_tx,
            denials: denials.clone(),
            refused: Warned::default(),
            dropped: Warned::default(),
        });
        let options = options(endpoint, credential, principal, dialling, observer)?;
        let client =
            options
                .connect(endpoint.urls.as_slice())
                .await
                .map_err(|error| match error.kind() {
                    ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                        BusError::Refused {
                            what: format!("the connection of {principal}"),
                            why: error.to_string(),
                        }
                    }
                    _ => BusError::Away(error.to_string()),
                })?;
        let connection = Self {
            client,
            link,
            connects,
            denials,
        };
        if dialling.first == FirstAttempt::MustSucceed {
            connection.wait_up().await;
        }
        connection.check_version()?;
        Ok(connection)
    }

    /// Refuses a server older than what the mesh needs; one not reached yet is not refused.
    pub fn check_version(&self) -> Result<(), BusError> {
        let Some(info) = self.client.try_server_info() else {
            return Ok(());
        };
        if info.version.is_empty() || Version::parse(&info.version) >= Some(Version::NEEDED) {
            return Ok(());
        }
        Err(BusError::TooOld {
            url: format!("{}:{}", info.host, info.port),
            found: info.version,
            needed: Version::NEEDED.to_string(),
        })
    }

    /// The server's JetStream domain, where it has one.
    pub fn domain(&self) -> Option<String> {
        let info = self.client.try_server_info()?;
        info.domain.filter(|domain| !domain.is_empty())
    }

    /// The id of the server it is connected to; another one after the server was started anew.
    pub fn server_id(&self) -> Option<String> {
        self.client.try_server_info().map(|info| info.server_id)
    }

    /// Whether the server can be reached, and each change of that.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// How often it was connected so far, and each change of that.
    pub(crate) fn connects(&self) -> watch::Receiver<u64> {
        self.connects.clone()
    }

    /// What the server refuses from here on.
    pub(crate) fn denials(&self) -> broadcast::Receiver<Denial> {
        self.denials.subscribe()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// An error while the link is down: what is written then would wait in memory, and be sent when it is long stale.
    pub(crate) fn require_up(&self) -> Result<(), BusError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Pending | State::Disconnected => Err(BusError::Away("not connected".to_owned())),
        }
    }

    /// Subscribes, alone or as a member of a group.
    pub(crate) async fn subscribe(
        &self,
        subject: &str,
        group: Option<&str>,
    ) -> Result<async_nats::Subscriber, BusError> {
        let subject = subject.to_owned();
        match group {
            Some(group) => self.client.queue_subscribe(subject, group.to_owned()).await,
            None => self.client.subscribe(subject).await,
        }
        .map_err(|error| BusError::Away(error.to_string()))
    }

    /// Publishes without waiting for anybody to have it.
    pub(crate) async fn tell(&self, subject: &str, body: Vec<u8>) -> Result<(), BusError> {
        self.require_up()?;
        self.client
            .publish(subject.to_owned(), body.into())
            .await
            .map_err(|error| BusError::Away(error.to_string()))
    }

    async fn wait_up(&self) {
        let mut link = self.link.clone();
        let up = link.wait_for(|link| *link == Link::Up);
        // The event comes a moment after the connection; without it the link is told from the next one.
        if tokio::time::timeout(EVENT_WAIT, up).await.is_err() {
            tracing::debug!("the client did not say that it is connected");
        }
    }
}

fn options(
    endpoint: &Endpoint,
    credential: &Credential,
    principal: &Principal,
    dialling: Dialling,
    observer: Arc<Observer>,
) -> Result<ConnectOptions, BusError> {
    let options = match credential {
        Credential::NKeySeed(seed) => ConnectOptions::with_nkey(seed.clone()),
        Credential::Creds(text) => {
            ConnectOptions::with_credentials(text).map_err(|error| BusError::Refused {
                what: format!("the credentials of {principal}"),
                why: error.to_string(),
            })?
        }
    };
    let connected_once = Arc::new(AtomicBool::new(false));
    let connected = Arc::clone(&connected_once);
    let left = Arc::clone(&observer);
    let mut options = options
        .name(&endpoint.name)
        .custom_inbox_prefix(inbox_prefix(principal))
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(move |attempt| {
            // The client itself would go on for ever: one that was left, and whose user is gone, never gets through.
            if left.nobody_looks() {
                return FOR_EVER;
            }
            let first = attempt <= 1 && !connected_once.load(Ordering::Relaxed);
            if first {
                Duration::ZERO
            } else {
                reconnect_delay(attempt, dialling.seed)
            }
        })
        .event_callback(move |event| {
            let (observer, connected) = (Arc::clone(&observer), Arc::clone(&connected));
            async move {
                if matches!(event, Event::Connected) {
                    connected.store(true, Ordering::Relaxed);
                }
                observer.observe(&event);
            }
        });
    if let Some(tls) = &endpoint.tls {
        options = options.tls_client_config(tls.clone()).require_tls(true);
    }
    if dialling.first == FirstAttempt::MayFail {
        options = options.retry_on_initial_connect();
    }
    Ok(options)
}

const DENIALS_KEPT: usize = 64;
/// Longer than any process lives.
const FOR_EVER: Duration = Duration::from_hours(10 * 365 * 24);
const EVENT_WAIT: Duration = Duration::from_secs(2);
/// A peer that is gone without a word is noticed after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_known_by_its_public_half() {
        let key = nkeys::KeyPair::new_user();
        let seed = key.seed().unwrap();
        let public = PublicKey::new(key.public_key()).ok();
        let creds =
            format!("-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n");
        assert_eq!(Credential::NKeySeed(format!("{seed}\n")).public(), public);
        assert_eq!(Credential::Creds(creds).public(), public);
        assert_eq!(Credential::NKeySeed("SUA".to_owned()).public(), None);
    }

    #[test]
    fn a_credential_does_not_show_itself() {
        for credential in [
            Credential::NKeySeed("SUASECRET".to_owned()),
            Credential::Creds("SUASECRET".to_owned()),
        ] {
            assert!(!format!("{credential:?}").contains("SUASECRET"));
        }
    }
}
