//! Connecting as one principal: its inbox, its credential, and what the client would otherwise keep to itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ClientError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use mesh_bus::{BusError, Link};
use mesh_derive::subject::inbox_prefix;
use mesh_model::Principal;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::denial::Denial;
use crate::reloading::unless_reloading;
use crate::version::Version;
use crate::warned::Warned;

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
    let mut options = options
        .name(&endpoint.name)
        .custom_inbox_prefix(inbox_prefix(principal))
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(move |attempt| {
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

/// What turns the client's events into a link, a count and denials.
struct Observer {
    name: String,
    link: watch::Sender<Link>,
    connects: watch::Sender<u64>,
    denials: broadcast::Sender<Denial>,
    refused: Warned,
    dropped: Warned,
}

impl Observer {
    fn observe(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.connects.send_modify(|count| *count += 1);
                self.turn(Link::Up);
            }
            Event::Disconnected | Event::Closed => self.turn(Link::Down),
            Event::ServerError(ServerError::Other(text)) => self.denied(text),
            Event::ServerError(ServerError::AuthorizationViolation) => {
                self.denied("authorization violation");
            }
            Event::ClientError(ClientError::Other(text)) if text.contains("authorization") => {
                self.denied(text);
            }
            Event::SlowConsumer(_) => {
                if let Some(withheld) = self.dropped.due(Instant::now()) {
                    tracing::warn!(connection = %self.name, withheld, "messages were dropped: they came faster than they were read");
                }
            }
            other => {
                tracing::debug!(connection = %self.name, event = %other, "event of the client");
            }
        }
    }

    fn turn(&self, to: Link) {
        let turned = self.link.send_if_modified(|link| {
            let turned = *link != to;
            *link = to;
            turned
        });
        if turned {
            tracing::info!(connection = %self.name, link = ?to, "the link to the bus changed");
        }
    }

    fn denied(&self, text: &str) {
        if let Some(withheld) = self.refused.due(Instant::now()) {
            tracing::warn!(connection = %self.name, error = text, withheld, "the server refuses something");
        }
        // Nobody may be listening for it just now.
        drop(self.denials.send(Denial::parse(text)));
    }
}

/// Doubles from a tenth of a second to eight, and draws from the upper half of that.
fn reconnect_delay(attempt: usize, seed: u64) -> Duration {
    let exponent = u32::try_from(attempt.saturating_sub(1))
        .unwrap_or(u32::MAX)
        .min(7);
    let whole = (100_u64 << exponent).min(CEILING_MILLIS);
    let half = whole / 2;
    Duration::from_millis(half + scramble(seed ^ attempt as u64) % (half + 1))
}

/// The finaliser of `SplitMix64`: neighbouring seeds give unrelated numbers.
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const CEILING_MILLIS: u64 = 8_000;
const DENIALS_KEPT: usize = 64;
const EVENT_WAIT: Duration = Duration::from_secs(2);
/// A peer that is gone without a word is noticed after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warned::WARN_EACH;

    #[test]
    fn delays_grow_to_a_ceiling_and_differ_between_hosts() {
        for attempt in 1..40 {
            let delay = reconnect_delay(attempt, 7);
            assert!(delay >= Duration::from_millis(50), "{attempt}: {delay:?}");
            assert!(delay <= Duration::from_secs(8), "{attempt}: {delay:?}");
        }
        assert!(reconnect_delay(30, 1) >= Duration::from_secs(4));
        let hosts: std::collections::BTreeSet<_> =
            (0..100).map(|seed| reconnect_delay(5, seed)).collect();
        assert!(hosts.len() > 80, "{}", hosts.len());
    }

    /// Counts what is logged as a warning.
    #[derive(Default)]
    struct Warnings(std::sync::atomic::AtomicUsize);

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
            *of.level() == tracing::Level::WARN
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    /// One subscriber that stops reading, and its log has thousands of lines a second.
    /// <https://github.com/vectordotdev/vector/pull/24230>
    #[tokio::test(start_paused = true)]
    async fn case_b_c436d06_events_that_come_by_the_thousand_are_logged_once_in_a_while_and_counted()
     {
        let observer = Observer {
            name: "test".to_owned(),
            link: watch::Sender::new(Link::Up),
            connects: watch::Sender::new(0),
            denials: broadcast::Sender::new(DENIALS_KEPT),
            refused: Warned::default(),
            dropped: Warned::default(),
        };
        let warnings = Arc::new(Warnings::default());
        let _logging = tracing::subscriber::set_default(Arc::clone(&warnings));
        let logged = || warnings.0.load(Ordering::Relaxed);
        for _ in 0..1_000 {
            observer.observe(&Event::SlowConsumer(1));
        }
        assert_eq!(logged(), 1);
        // What is refused is not hidden behind what is dropped.
        for _ in 0..1_000 {
            observer.observe(&Event::ServerError(ServerError::AuthorizationViolation));
        }
        assert_eq!(logged(), 2);
        tokio::time::advance(WARN_EACH).await;
        assert_eq!(observer.dropped.due(Instant::now()), Some(999));
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
