//! A module on the bus.

mod renewal;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_bus::{BusError, ModuleBus, Source};
use mesh_model::{EventName, InstanceRef, PublicKey, SeatName};
use mesh_wire::{Announcement, encode_announcement};
use tokio::time::{Instant, sleep};

use crate::bus::HandedBus;
use crate::config::ModuleConfig;
use crate::error::{ConnectError, EmitError, ListenError, SendError, is_denial};
use crate::heard::{Follower, Worker};
use crate::host;
use crate::id::Ids;

/// An instance of a module on the bus. Clones are the same instance.
///
/// The connection is kept up for ever; a change of the module's grant is felt without a reconnect or a restart.
pub struct Module<B: ModuleBus = HandedBus> {
    bus: Arc<B>,
    instance: Arc<InstanceRef>,
    ids: Arc<Ids>,
    said: Arc<Said>,
}

/// What the module says of itself, to be said again once it has another key.
#[derive(Debug, Default)]
struct Said {
    release: Mutex<Option<String>>,
    key: Mutex<Option<PublicKey>>,
}

impl Module {
    /// Connects with what the node's agent handed over in the environment, as [`ModuleConfig::from_env`] reads it.
    pub async fn connect_from_env() -> Result<Self, ConnectError> {
        Self::connect(ModuleConfig::from_env()?).await
    }

    /// Connects. A bus that cannot be reached, or does not know the module yet, is tried again for ever; what keeps the
    /// module waiting is logged once.
    pub async fn connect(config: ModuleConfig) -> Result<Self, ConnectError> {
        let seed = host::chance();
        let mut told = None;
        let mut pauses = Pauses::new(seed);
        loop {
            let connected = HandedBus::connect(&config.bus, &config.instance, seed);
            match connected.await {
                Ok(bus) => {
                    let module = Self::over(bus, config.instance.clone());
                    *locked(&module.said.key) = config.bus.key();
                    if let Some(creds) = config.creds.clone() {
                        module.renew_from(creds, config, seed);
                    }
                    return Ok(module);
                }
                Err(error @ (BusError::Away(_) | BusError::Refused { .. })) => {
                    let why = error.to_string();
                    if told.as_ref() != Some(&why) {
                        tracing::warn!(%error, servers = ?config.bus.servers(), "not connected; trying again until it is");
                        told = Some(why);
                    }
                }
                Err(error) => return Err(ConnectError::Bus(error)),
            }
            sleep(pauses.next()).await;
        }
    }
}

impl<B: ModuleBus> Module<B> {
    /// A module over a connection that is there: the loopback's, in a test.
    pub fn over(bus: B, instance: InstanceRef) -> Self {
        Self {
            bus: Arc::new(bus),
            ids: Arc::new(Ids::new(&instance, host::chance())),
            instance: Arc::new(instance),
            said: Arc::default(),
        }
    }

    /// Which module this is, on which node.
    pub fn instance(&self) -> &InstanceRef {
        &self.instance
    }

    /// Says that this release of the module runs here. Every module may; no manifest lists it.
    pub async fn announce(&self, release: &str) -> Result<(), EmitError> {
        let announcement = Announcement {
            release: release.to_owned(),
            node: self.instance.node.clone(),
            instance: Some(self.ids.run()),
            key: locked(&self.said.key).clone(),
        };
        *locked(&self.said.release) = Some(release.to_owned());
        self.emit_event(EventName::announced(), encode_announcement(&announcement))
            .await
    }

    /// Emits an event that the manifest lists under `events.emits`. When it returns, the bus has it.
    ///
    /// Dropped before that, or with [`EmitError::Unconfirmed`], the event may or may not be out.
    pub async fn emit(&self, event: &str, body: impl Into<Vec<u8>>) -> Result<(), EmitError> {
        self.emit_event(event.parse()?, body.into()).await
    }

    async fn emit_event(&self, event: EventName, body: Vec<u8>) -> Result<(), EmitError> {
        let id = self.ids.next(host::unix_millis());
        let published = self.publish(Address::Event(&event), &id, body).await;
        published.map_err(|source| {
            let event = event.to_string();
            if is_denial(&source) {
                let module = self.instance.module.clone();
                return EmitError::NotGranted { module, event };
            }
            EmitError::Unconfirmed { event, id, source }
        })
    }

    /// Sends work to a seat that the manifest lists under `seats.sends_to`, held or not. When it returns, the bus has
    /// it.
    ///
    /// Dropped before that, or with [`SendError::Unconfirmed`], the work may or may not be out.
    pub async fn send(&self, seat: &str, body: impl Into<Vec<u8>>) -> Result<(), SendError> {
        let seat: SeatName = seat.parse()?;
        let id = self.ids.next(host::unix_millis());
        let published = self.publish(Address::Seat(&seat), &id, body.into()).await;
        published.map_err(|source| {
            let seat = seat.to_string();
            if is_denial(&source) {
                let module = self.instance.module.clone();
                return SendError::NotGranted { module, seat };
            }
            SendError::Unconfirmed { seat, id, source }
        })
    }

    /// Listens to the events the manifest lists under `events.follows`. They are shared among the instances of the
    /// module, so one [`Follower`] a process is enough.
    pub async fn follow(&self) -> Result<Follower<B>, ListenError> {
        let listener = self.bus.listen(Source::Followed).await?;
        Ok(Follower::new(Arc::clone(&self.bus), listener))
    }

    /// Listens to the work of a seat that the manifest lists under `seats.can_hold`. It arrives while the module holds
    /// the seat, from whenever it is assigned.
    pub async fn work(&self, seat: &str) -> Result<Worker<B>, ListenError> {
        let listener = self.bus.listen(Source::Seat(seat.parse()?)).await?;
        Ok(Worker::new(Arc::clone(&self.bus), listener))
    }

    /// Publishes, again and again while the bus is away: under one id, so that it is kept once.
    async fn publish(&self, to: Address<'_>, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let give_up = Instant::now() + PATIENCE;
        let mut pauses = Pauses::new(host::chance());
        loop {
            let published = match to {
                Address::Event(event) => self.bus.emit(event, id, body.clone()).await,
                Address::Seat(seat) => self.bus.send(seat, id, body.clone()).await,
            };
            let pause = pauses.next();
            match published {
                Err(BusError::Away(why)) if Instant::now() + pause < give_up => {
                    tracing::debug!(%id, why, "not confirmed yet; trying again");
                }
                settled => return settled,
            }
            sleep(pause).await;
        }
    }
}

impl<B: ModuleBus> Clone for Module<B> {
    fn clone(&self) -> Self {
        Self {
            bus: Arc::clone(&self.bus),
            instance: Arc::clone(&self.instance),
            ids: Arc::clone(&self.ids),
            said: Arc::clone(&self.said),
        }
    }
}

/// No writer leaves what it writes half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: ModuleBus> fmt::Debug for Module<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

/// Where a message goes.
#[derive(Clone, Copy)]
enum Address<'a> {
    Event(&'a EventName),
    Seat(&'a SeatName),
}

/// How long to wait before each next attempt: doubles from a quarter of a second to eight, less up to half of that.
struct Pauses {
    whole: u64,
    /// What the spread is drawn from.
    seed: u64,
}

impl Pauses {
    const fn new(seed: u64) -> Self {
        Self {
            whole: FIRST_PAUSE_MILLIS,
            seed,
        }
    }

    fn next(&mut self) -> Duration {
        let pause = self.whole - self.seed % (self.whole / 2 + 1);
        self.whole = (self.whole * 2).min(LONGEST_PAUSE_MILLIS);
        self.seed = self.seed.rotate_left(7);
        Duration::from_millis(pause)
    }
}

const FIRST_PAUSE_MILLIS: u64 = 250;
const LONGEST_PAUSE_MILLIS: u64 = 8_000;
/// Well inside the two minutes for which a bus knows an id again.
const PATIENCE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
