//! A server of the mesh's own: found, configured, started, watched, and adopted by the next controller when this one
//! dies.

mod binary;
mod config;
mod process;
mod state;
mod supervise;

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::authority::replace;
use state::State;
use supervise::{Running, Supervisor};

pub use binary::FindServerError;

/// What a managed server is to be. Keys and certificates are the caller's to make.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// What it is called.
    pub name: String,
    /// Directories looked into first for `nats-server`.
    pub candidates: Vec<PathBuf>,
    /// Then these, as in `PATH`.
    pub search_path: Option<OsString>,
    /// Where its files go: configuration, log, state.
    pub dir: PathBuf,
    /// Where it keeps its streams.
    pub store_dir: PathBuf,
    /// The address it listens on; loopback unless hosts elsewhere are to reach it.
    pub listen: IpAddr,
    /// The port; 0 takes a free one, and the same one from then on.
    pub port: u16,
    /// The largest message, in bytes.
    pub max_payload: u32,
    /// When it has what it confirms on disk.
    pub sync: SyncPolicy,
    /// Its certificate.
    pub tls: Option<TlsFiles>,
    /// The accounts, in its own language ([`mesh_derive::render::nats_conf::accounts`]).
    pub accounts: String,
    /// The users to begin with, where there is no file of them yet.
    pub edge_users: String,
}

/// When a server has what it confirms on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before it confirms.
    Always,
    /// At most this much later.
    Every(Duration),
}

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those above it.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A server that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its process.
    pub pid: i32,
    /// Its port.
    pub port: u16,
    /// What it calls itself; another one each time it is started.
    pub server_id: String,
    /// Its version.
    pub version: String,
    /// It was running already.
    pub adopted: bool,
}

/// Whether a managed server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It does.
    Ready(Ready),
    /// It ended, and is being started again.
    Down(String),
}

/// How a server was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// By itself, when it was asked to.
    Gracefully,
    /// It was killed, after the time it was given.
    Killed,
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartServerError {
    /// There is none to start.
    #[error(transparent)]
    Find(#[from] FindServerError),
    /// One of its files.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// It does not accept its configuration.
    #[error("{config}: the server refuses its configuration: {said}")]
    Config {
        /// The file.
        config: PathBuf,
        /// In its words.
        said: String,
    },
    /// The port is somebody else's.
    #[error("port {port} is taken by another program: stop it, or choose another port")]
    PortTaken {
        /// Which.
        port: u16,
    },
    /// It came to an end before it answered.
    #[error("the server ended before it answered; the last of {log}: {said}")]
    Ended {
        /// Its log.
        log: PathBuf,
        /// The end of it.
        said: String,
    },
    /// It runs, and does not answer.
    #[error("the server does not answer on port {port} after {secs} s; see {log}")]
    Silent {
        /// Where.
        port: u16,
        /// After how long.
        secs: u64,
        /// Its log.
        log: PathBuf,
    },
}

/// A server of the mesh's own. Dropped, it runs on, and the next controller adopts it; only [`ManagedServer::stop`] ends
/// it.
#[derive(Debug)]
pub struct ManagedServer {
    state: watch::Receiver<ServerState>,
    stop: watch::Sender<Option<Duration>>,
    supervising: JoinSet<Stopped>,
    ready: Ready,
}

impl ManagedServer {
    /// Adopts the server that runs in `spec.dir`, or starts one, and returns when it answers.
    pub async fn start(spec: ServerSpec) -> Result<Self, StartServerError> {
        let files = Files::of(&spec.dir);
        for dir in [&spec.dir, &spec.store_dir] {
            std::fs::create_dir_all(dir).map_err(|error| file_error(dir, error))?;
        }
        let before = State::load(&files.state);
        let (binary, version) = binary::find(&spec.candidates, spec.search_path.as_ref()).await?;
        tracing::debug!(binary = %binary.display(), %version, "found a server");
        let port = choose_port(spec.listen, spec.port, before.as_ref())?;
        let address = SocketAddr::new(here(spec.listen), port);
        let changed = write_files(&spec, &files, port)?;
        let running = match before {
            Some(state) => adopt(state, &files, address, changed).await,
            None => None,
        };
        let supervisor = Supervisor {
            binary,
            files,
            address,
        };
        let running = if let Some(running) = running {
            running
        } else {
            supervisor.validate().await?;
            require_free(address)?;
            supervisor.launch().await?
        };
        let ready = running.ready.clone();
        let (state_tx, state) = watch::channel(ServerState::Ready(ready.clone()));
        let (stop, stop_rx) = watch::channel(None);
        let mut supervising = JoinSet::new();
        supervising.spawn(supervisor.supervise(running, state_tx, stop_rx));
        Ok(Self {
            state,
            stop,
            supervising,
            ready,
        })
    }

    /// The server as it first answered.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Whether it answers, and each change of that.
    pub fn state(&self) -> watch::Receiver<ServerState> {
        self.state.clone()
    }

    /// Asks it to stop, and waits for as long as a server with so many consumers may take: it closes them one after
    /// another, about a hundredth of a second each. Then it is killed, which it survives.
    pub async fn stop(mut self, consumers: u32) -> Stopped {
        let patience = Duration::from_millis(10) * consumers + Duration::from_secs(10);
        self.stop.send_replace(Some(patience));
        match self.supervising.join_next().await {
            Some(Ok(stopped)) => stopped,
            // The supervisor did not end in a stop; what it had started is as dead as it can be made.
            Some(Err(_)) | None => Stopped::Killed,
        }
    }
}

/// Where a server's files are.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    config: PathBuf,
    accounts: PathBuf,
    users: PathBuf,
    log: PathBuf,
    printed: PathBuf,
    state: PathBuf,
}

impl Files {
    fn of(dir: &Path) -> Self {
        Self {
            config: dir.join("nats-server.conf"),
            accounts: dir.join(config::ACCOUNTS_FILE),
            users: dir.join(mesh_derive::render::nats_conf::EDGE_USERS_FILE),
            log: dir.join("nats-server.log"),
            printed: dir.join("nats-server.out"),
            state: dir.join("state.json"),
        }
    }
}

/// The one that runs, if it is the one that was started, answers, and was started with these files.
async fn adopt(state: State, files: &Files, address: SocketAddr, changed: bool) -> Option<Running> {
    let process = state.process();
    if !process.is_alive() {
        return None;
    }
    let before = SocketAddr::new(address.ip(), state.port);
    let answers = match &state.server_id {
        Some(id) => supervise::greeting(before)
            .await
            .filter(|info| info.server_id == *id),
        None => supervise::answers(before).await,
    };
    let same = state.config == files.config && state.port == address.port() && !changed;
    match answers {
        Some(info) if same => {
            tracing::info!(pid = state.pid, "adopted the server that was running");
            Some(Running::adopted(process, address.port(), info))
        }
        _ => {
            tracing::info!(
                pid = state.pid,
                "the server that was running is stopped: it does not answer, or was started otherwise"
            );
            process.end(OLD_STOPS_WITHIN).await;
            None
        }
    }
}

/// Whether the configuration is not what a running server was started with. The users are the authority's to write.
fn write_files(spec: &ServerSpec, files: &Files, port: u16) -> Result<bool, StartServerError> {
    let mut changed = false;
    for (path, text) in [
        (&files.config, config::server(spec, port, &files.log)),
        (&files.accounts, spec.accounts.clone()),
    ] {
        if std::fs::read_to_string(path).ok().as_ref() != Some(&text) {
            replace(path, &text).map_err(|error| file_error(path, error))?;
            changed = true;
        }
    }
    if !files.users.exists() {
        replace(&files.users, &spec.edge_users).map_err(|error| file_error(&files.users, error))?;
    }
    Ok(changed)
}

fn choose_port(
    listen: IpAddr,
    wanted: u16,
    before: Option<&State>,
) -> Result<u16, StartServerError> {
    match (wanted, before) {
        (0, Some(state)) => Ok(state.port),
        (0, None) => free_port(listen),
        (port, _) => Ok(port),
    }
}

fn free_port(listen: IpAddr) -> Result<u16, StartServerError> {
    TcpListener::bind((listen, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| file_error(Path::new(&format!("address {listen}")), error))
}

fn require_free(address: SocketAddr) -> Result<(), StartServerError> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(_) => Err(StartServerError::PortTaken {
            port: address.port(),
        }),
    }
}

/// How this machine reaches a server that listens there: one that listens everywhere, on loopback.
fn here(listen: IpAddr) -> IpAddr {
    match listen {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

fn file_error(path: &Path, error: io::Error) -> StartServerError {
    StartServerError::File {
        path: path.to_owned(),
        error,
    }
}

const OLD_STOPS_WITHIN: Duration = Duration::from_secs(30);
