//! Starting a server, and starting it again when it ends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::managed::process::ProcessId;
use crate::managed::state::State;
use crate::managed::{Files, Ready, ServerState, StartServerError, Stopped, file_error};

/// What starting a server takes.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) binary: PathBuf,
    pub(super) files: Files,
    /// Where this machine reaches it.
    pub(super) address: SocketAddr,
}

/// A server that runs. An adopted one is nobody's child.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) ready: Ready,
    process: ProcessId,
    child: Option<Child>,
}

/// What a server says to whoever connects.
#[derive(Debug, Deserialize)]
pub(super) struct Greeting {
    pub(super) server_id: String,
    #[serde(default)]
    pub(super) version: String,
}

impl Running {
    pub(super) fn adopted(process: ProcessId, port: u16, greeting: Greeting) -> Self {
        Self {
            ready: ready(process, port, greeting, true),
            process,
            child: None,
        }
    }

    async fn ended(&mut self) {
        match &mut self.child {
            Some(child) => drop(child.wait().await),
            None => self.process.ended().await,
        }
    }

    async fn end(mut self, patience: Duration) -> Stopped {
        let process = self.process;
        let ending = process.end(patience);
        // A child that ended stays as a zombie until somebody waits for it.
        let (killed, ()) = tokio::join!(ending, self.ended());
        if killed {
            Stopped::Killed
        } else {
            Stopped::Gracefully
        }
    }
}

impl Supervisor {
    /// Has the server read its configuration without starting.
    pub(super) async fn validate(&self) -> Result<(), StartServerError> {
        let config = &self.files.config;
        let output = Command::new(&self.binary)
            .arg("-t")
            .arg("-c")
            .arg(config)
            .output()
            .await
            .map_err(|error| file_error(&self.binary, error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(StartServerError::Config {
            config: config.clone(),
            said,
        })
    }

    /// Starts a server, in a process group of its own, and returns when it answers.
    pub(super) async fn launch(&self) -> Result<Running, StartServerError> {
        let printed = &self.files.printed;
        keep_what_was_printed(printed).map_err(|error| file_error(printed, error))?;
        let output = std::fs::File::create(printed).map_err(|error| file_error(printed, error))?;
        let errors = output
            .try_clone()
            .map_err(|error| file_error(printed, error))?;
        let mut child = Command::new(&self.binary)
            .arg("-c")
            .arg(&self.files.config)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| file_error(&self.binary, error))?;
        let process = child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(ProcessId::of);
        let Some(process) = process else {
            return Err(self.ended_early());
        };
        self.remember(process, None)?;
        let greeting = tokio::select! {
            greeting = answers(self.address) => greeting,
            _ = child.wait() => return Err(self.ended_early()),
        };
        let Some(greeting) = greeting else {
            process.end(Duration::ZERO).await;
            return Err(StartServerError::Silent {
                port: self.address.port(),
                secs: READY_WITHIN.as_secs(),
                log: self.files.log.clone(),
            });
        };
        self.remember(process, Some(greeting.server_id.clone()))?;
        Ok(Running {
            ready: ready(process, self.address.port(), greeting, false),
            process,
            child: Some(child),
        })
    }

    /// Remembered as soon as it runs: a controller that dies now must not leave a server nobody knows.
    fn remember(
        &self,
        process: ProcessId,
        server_id: Option<String>,
    ) -> Result<(), StartServerError> {
        let state = State {
            pid: process.pid,
            started: process.started,
            port: self.address.port(),
            server_id,
            config: self.files.config.clone(),
        };
        state
            .save(&self.files.state)
            .map_err(|error| file_error(&self.files.state, error))
    }

    /// Starts the server again each time it ends, until told to stop.
    pub(super) async fn supervise(
        self,
        mut running: Running,
        state: watch::Sender<ServerState>,
        mut stop: watch::Receiver<Option<Duration>>,
    ) -> Stopped {
        let mut delay = AGAIN_FIRST;
        loop {
            let began = Instant::now();
            tokio::select! {
                patience = told_to_stop(&mut stop) => return running.end(patience).await,
                () = running.ended() => {}
            }
            if began.elapsed() > STEADY_AFTER {
                delay = AGAIN_FIRST;
            }
            tracing::error!(
                pid = running.process.pid,
                "the server ended; it is started again"
            );
            let mut why = "it ended".to_owned();
            running = loop {
                state.send_replace(ServerState::Down(why));
                tokio::select! {
                    _ = told_to_stop(&mut stop) => return Stopped::Gracefully,
                    () = sleep(delay) => {}
                }
                delay = (delay * 2).min(AGAIN_MOST);
                match self.launch().await {
                    Ok(running) => break running,
                    Err(error) => {
                        tracing::error!(%error, "the server cannot be started");
                        why = error.to_string();
                    }
                }
            };
            state.send_replace(ServerState::Ready(running.ready.clone()));
        }
    }

    fn ended_early(&self) -> StartServerError {
        let printed = last_lines(&self.files.printed);
        let (log, said) = if printed.is_empty() {
            (&self.files.log, last_lines(&self.files.log))
        } else {
            (&self.files.printed, printed)
        };
        StartServerError::Ended {
            log: log.clone(),
            said,
        }
    }
}

async fn told_to_stop(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    let told = stop.wait_for(Option::is_some).await.map(|told| *told);
    match told {
        Ok(Some(patience)) => patience,
        // Whoever could have told is gone, and this task with it.
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

fn ready(process: ProcessId, port: u16, greeting: Greeting, adopted: bool) -> Ready {
    Ready {
        pid: process.pid,
        port,
        server_id: greeting.server_id,
        version: greeting.version,
        adopted,
    }
}

/// The `INFO` a server sends first, before any encryption; nothing when none is there.
pub(super) async fn greeting(address: SocketAddr) -> Option<Greeting> {
    let asked = async {
        let stream = TcpStream::connect(address).await.ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.ok()?;
        serde_json::from_str(line.strip_prefix("INFO ")?.trim()).ok()
    };
    timeout(GREETED_WITHIN, asked).await.ok().flatten()
}

/// The same, from a server that is starting.
pub(super) async fn answers(address: SocketAddr) -> Option<Greeting> {
    let until = Instant::now() + READY_WITHIN;
    while Instant::now() < until {
        if let Some(greeting) = greeting(address).await {
            return Some(greeting);
        }
        sleep(ASK_EACH).await;
    }
    None
}

/// A server prints why it crashed, and nothing once it has a log: what the last one printed outlives the next one's start.
fn keep_what_was_printed(printed: &Path) -> std::io::Result<()> {
    match std::fs::metadata(printed) {
        Ok(file) if file.len() > 0 => std::fs::rename(printed, printed.with_extension("out.1")),
        _ => Ok(()),
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut last: Vec<&str> = text.lines().rev().take(3).collect();
    last.reverse();
    last.join(" | ")
}

/// A server with fifty thousand consumers takes twenty seconds.
const READY_WITHIN: Duration = Duration::from_mins(1);
const ASK_EACH: Duration = Duration::from_millis(50);
const GREETED_WITHIN: Duration = Duration::from_secs(3);
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_MOST: Duration = Duration::from_secs(30);
const STEADY_AFTER: Duration = Duration::from_mins(1);
