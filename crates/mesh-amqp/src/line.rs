//! A connection that is made when it is needed, and again after it was lost: never by the client itself, whose own way of
//! coming back leaves consumers waiting for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amq_protocol_tcp::{AMQPUriTcpExt, RustlsConnector};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{Channel, Connection, ConnectionProperties};
use mesh_bus::{BusError, Link};
use tokio::sync::{Mutex as Turn, watch};
use tokio::time::{Instant, timeout};

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::refusal::bus_error;

/// Who logs in.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) credential: Credential,
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

/// One connection of one principal.
#[derive(Debug)]
pub(crate) struct Line {
    endpoint: Arc<Endpoint>,
    login: Mutex<Option<Login>>,
    dial: Turn<Dial>,
    link: watch::Sender<Link>,
    seed: u64,
}

#[derive(Debug, Default)]
struct Dial {
    connection: Option<Connection>,
    /// Attempts since it was last there.
    failed: u32,
    /// Before this, the error of the last attempt stands.
    not_before: Option<(Instant, BusError)>,
}

impl Line {
    pub(crate) fn new(endpoint: Arc<Endpoint>, login: Option<Login>, seed: u64) -> Self {
        Self {
            endpoint,
            login: Mutex::new(login),
            dial: Turn::default(),
            link: watch::Sender::new(Link::Down),
            seed,
        }
    }

    /// Another's connection to the same broker.
    pub(crate) fn beside(&self, login: Login) -> Self {
        Self::new(Arc::clone(&self.endpoint), Some(login), self.seed)
    }

    /// As another from now on.
    pub(crate) async fn log_in_as(&self, login: Login) {
        self.log_in_next_as(login);
        self.hang_up().await;
    }

    /// As another, whenever a connection has to be made: the one that is there goes on.
    pub(crate) fn log_in_next_as(&self, login: Login) {
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) = Some(login);
    }

    /// Whether it is there, and each change of that.
    pub(crate) fn link(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    /// Under which name.
    pub(crate) fn user(&self) -> Option<String> {
        let login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        login.as_ref().map(|login| login.user.clone())
    }

    /// A channel of its own; connects first where that must be. After a failure the next attempt is put off.
    pub(crate) async fn channel(&self) -> Result<Channel, BusError> {
        let mut dial = self.dial.lock().await;
        if let Some(connection) = &dial.connection {
            if connection.status().connected() {
                return channel_of(connection).await;
            }
            dial.connection = None;
            self.turn(Link::Down);
        }
        if let Some((at, error)) = &dial.not_before
            && Instant::now() < *at
        {
            return Err(error.clone());
        }
        match self.dial(dial.failed).await {
            Ok(connection) => {
                let channel = channel_of(&connection).await?;
                *dial = Dial {
                    connection: Some(connection),
                    ..Dial::default()
                };
                self.turn(Link::Up);
                Ok(channel)
            }
            Err(error) => {
                let delay = delay(dial.failed, self.seed);
                dial.failed = dial.failed.saturating_add(1);
                dial.not_before = Some((Instant::now() + delay, error.clone()));
                Err(error)
            }
        }
    }

    /// Looks whether the connection is still there, where something that went over it has ended.
    pub(crate) async fn look(&self) {
        let dial = self.dial.lock().await;
        let there = dial.connection.as_ref();
        if !there.is_some_and(|connection| connection.status().connected()) {
            self.turn(Link::Down);
        }
    }

    /// Ends the connection; the next who needs one connects anew, at once.
    pub(crate) async fn hang_up(&self) {
        let mut dial = self.dial.lock().await;
        let ended = std::mem::take(&mut *dial);
        self.turn(Link::Down);
        if let Some(connection) = ended.connection {
            // It is gone either way, with a word or without.
            let _gone = timeout(CLOSED_WITHIN, connection.close(200, "bye".into())).await;
        }
    }

    async fn dial(&self, failed: u32) -> Result<Connection, BusError> {
        let login = self
            .login
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(login) = login else {
            return Err(BusError::Away("nobody has logged in yet".to_owned()));
        };
        let servers = self.endpoint.servers.len().max(1);
        let nth = usize::try_from(failed).unwrap_or_default() % servers;
        let Some((host, port)) = self.endpoint.servers.get(nth) else {
            return Err(BusError::Away("no server is named".to_owned()));
        };
        let uri = uri(&self.endpoint, host, *port, &login);
        let name = format!("{} {}", self.endpoint.name, login.user);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let runtime = lapin::runtime::default_runtime();
        let runtime = runtime.map_err(|error| BusError::Away(error.to_string()))?;
        let trust = self.endpoint.trust.clone();
        let open = async move |uri: AMQPUri, runtime| {
            let plain = uri.connect_async(&runtime).await?;
            match &trust {
                None => Ok(plain),
                // By nobody's certificates but those that are trusted here.
                Some(trust) => {
                    let connector = RustlsConnector::from(trust.config());
                    Ok(plain.into_rustls(&connector, &uri.authority.host).await?)
                }
            }
        };
        let connect = Connection::connector(uri, runtime, open, properties);
        // A server that takes the connection and says nothing is waited for by the client for ever.
        let connected = timeout(CONNECTED_WITHIN, connect).await;
        let at = format!("the broker at {host}:{port}");
        let connected = connected
            .map_err(|_| BusError::Away(format!("{at} does not answer the connection")))?;
        connected
            .map_err(|error| bus_error(&format!("the login of {} at {at}", login.user), &error))
    }

    fn turn(&self, to: Link) {
        let turned = self
            .link
            .send_if_modified(|link| std::mem::replace(link, to) != to);
        if turned {
            tracing::info!(connection = %self.endpoint.name, link = ?to, "the link to the bus changed");
        }
    }
}

async fn channel_of(connection: &Connection) -> Result<Channel, BusError> {
    let channel = timeout(CONNECTED_WITHIN, connection.create_channel()).await;
    let channel = channel.map_err(|_| BusError::Away("no channel in time".to_owned()))?;
    channel.map_err(|error| bus_error("a channel", &error))
}

fn uri(endpoint: &Endpoint, host: &str, port: u16, login: &Login) -> AMQPUri {
    AMQPUri {
        // Over whatever was opened; it is encrypted before it is given to the client.
        scheme: AMQPScheme::AMQP,
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo {
                username: login.user.clone(),
                password: login.credential.password().to_owned(),
            },
            host: host.to_owned(),
            port,
        },
        vhost: endpoint.vhost.clone(),
        query: AMQPQueryString {
            heartbeat: Some(HEARTBEAT_SECS),
            ..AMQPQueryString::default()
        },
    }
}

/// Doubles from a tenth of a second to eight, and draws from the upper half of that.
pub(crate) fn delay(failed: u32, seed: u64) -> Duration {
    let whole = (100_u64 << failed.min(7)).min(CEILING_MILLIS);
    let half = whole / 2;
    Duration::from_millis(half + scramble(seed ^ u64::from(failed)) % (half + 1))
}

/// The finaliser of `SplitMix64`: neighbouring seeds give unrelated numbers.
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const CEILING_MILLIS: u64 = 8_000;
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
/// A peer that is gone without a word is noticed after two of these.
const HEARTBEAT_SECS: u16 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_the_connection_and_says_nothing_is_given_up() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint {
            servers: vec![("127.0.0.1".to_owned(), silent.local_addr().unwrap().port())],
            vhost: "mesh".to_owned(),
            users: String::new(),
            trust: None,
            name: "test".to_owned(),
        };
        let login = Login {
            user: "node.a".to_owned(),
            credential: Credential::of_seed("SUA"),
        };
        let line = Line::new(Arc::new(endpoint), Some(login), 7);
        let channel = line.channel().await.map(drop);
        assert!(
            matches!(&channel, Err(BusError::Away(why)) if why.contains("does not answer")),
            "{channel:?}"
        );
        // It is not tried again at once: the last answer stands for a while.
        assert_eq!(line.channel().await.map(drop), channel);
    }

    #[test]
    fn delays_grow_to_a_ceiling_and_differ_between_hosts() {
        for failed in 0..40 {
            let delay = delay(failed, 7);
            assert!(delay >= Duration::from_millis(50), "{failed}: {delay:?}");
            assert!(delay <= Duration::from_secs(8), "{failed}: {delay:?}");
        }
        let hosts: std::collections::BTreeSet<_> = (0..100).map(|seed| delay(5, seed)).collect();
        assert!(hosts.len() > 80, "{}", hosts.len());
    }
}
