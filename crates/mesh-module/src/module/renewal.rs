//! Another credential takes the place of the one a module was started with, and the module takes it without a restart.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mesh_model::InstanceRef;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{Module, Said, locked};
use crate::bus::HandedBus;
use crate::config::{BusConfig, ModuleConfig};
use crate::id::Ids;

/// What it takes to go on with another credential, while anybody uses the bus.
struct Renewal {
    bus: Weak<HandedBus>,
    instance: Arc<InstanceRef>,
    ids: Arc<Ids>,
    said: Arc<Said>,
    config: BusConfig,
    creds: PathBuf,
    seed: u64,
    /// It has another key, and has not said so yet.
    unsaid: bool,
}

impl Module {
    /// Looks at the file of the credential now and then, for as long as anybody uses the bus.
    pub(super) fn renew_from(&self, creds: PathBuf, config: ModuleConfig, seed: u64) {
        let renewal = Renewal {
            bus: Arc::downgrade(&self.bus),
            instance: Arc::clone(&self.instance),
            ids: Arc::clone(&self.ids),
            said: Arc::clone(&self.said),
            config: config.bus,
            creds,
            seed,
            unsaid: false,
        };
        self.bus.keep(renewal.run());
    }
}

impl Renewal {
    async fn run(mut self) {
        let mut told = None;
        loop {
            sleep(LOOK_AGAIN).await;
            let Some(bus) = self.bus.upgrade() else {
                return;
            };
            match self.look(bus).await {
                Ok(()) => told = None,
                Err(why) if told.as_ref() != Some(&why) => {
                    tracing::warn!(why, creds = %self.creds.display(), "the module goes on with the credential it has; trying again");
                    told = Some(why);
                }
                Err(_) => {}
            }
        }
    }

    /// Takes what is new, if anything is.
    async fn look(&mut self, bus: Arc<HandedBus>) -> Result<(), String> {
        let (config, creds) = (self.config.clone(), self.creds.clone());
        let read = spawn_blocking(move || config.with_credential_of(&creds));
        let found = read.await.map_err(|error| error.to_string())?;
        let found = found.map_err(|error| error.to_string())?;
        if found.key() != self.config.key() {
            let renewed = bus.renew(&found, &self.instance, self.seed);
            renewed.await.map_err(|error| error.to_string())?;
            *locked(&self.said.key) = found.key();
            self.config = found;
            self.unsaid = true;
            tracing::info!(instance = %self.instance, "the module has a new credential, and uses it");
        }
        let release = locked(&self.said.release).clone();
        let Some(release) = release.filter(|_| self.unsaid) else {
            return Ok(());
        };
        let module = Module {
            bus,
            instance: Arc::clone(&self.instance),
            ids: Arc::clone(&self.ids),
            said: Arc::clone(&self.said),
        };
        let said = module.announce(&release).await;
        said.map_err(|error| error.to_string())?;
        self.unsaid = false;
        Ok(())
    }
}

/// Nothing tells when the file is another; a second of delay is none in a day.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
