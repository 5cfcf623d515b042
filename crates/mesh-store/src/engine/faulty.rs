//! An engine that refuses when told to, for rehearsals: what a full or failing disk does to everything above.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Engine, EngineError, RawOp, Visitor};

/// What a refusal looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// As a full disk.
    Full,
    /// As a failing one.
    Io,
}

/// The switch: shared by whoever rehearses and every [`Faulty`] engine made with it.
#[derive(Debug, Default)]
pub struct FaultGate {
    setting: Mutex<Setting>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Setting {
    refusal: Option<Fault>,
    delay: Duration,
}

impl FaultGate {
    /// From now on every apply and scan is refused, so that a reopened store is refused too.
    pub fn refuse(&self, fault: Fault) {
        self.change(|setting| setting.refusal = Some(fault));
    }

    /// From now on every apply takes `delay` longer, or until the gate is set again.
    pub fn delay(&self, delay: Duration) {
        self.change(|setting| setting.delay = delay);
    }

    /// Neither refuses nor delays any longer; whoever waits goes on at once.
    pub fn allow(&self) {
        self.change(|setting| *setting = Setting::default());
    }

    fn change(&self, change: impl FnOnce(&mut Setting)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    // A setting is whole at every moment, whoever panicked while holding it.
    fn lock(&self) -> MutexGuard<'_, Setting> {
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let setting = self.lock();
        let delay = setting.delay;
        if !delay.is_zero() {
            let waited = self
                .changed
                .wait_timeout_while(setting, delay, |now| now.delay == delay);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn pass(&self) -> Result<(), EngineError> {
        let detail = "refused by the fault switch".to_owned();
        match self.lock().refusal {
            None => Ok(()),
            Some(Fault::Full) => Err(EngineError::Full(detail)),
            Some(Fault::Io) => Err(EngineError::Io(detail)),
        }
    }
}

/// An engine behind a [`FaultGate`].
pub struct Faulty {
    engine: Box<dyn Engine>,
    gate: Arc<FaultGate>,
}

impl Faulty {
    /// Puts `engine` behind `gate`.
    pub fn new(engine: Box<dyn Engine>, gate: Arc<FaultGate>) -> Self {
        Self { engine, gate }
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl Engine for Faulty {
    fn apply(&mut self, ops: &[RawOp]) -> Result<(), EngineError> {
        self.gate.wait();
        self.gate.pass()?;
        self.engine.apply(ops)
    }

    fn scan(&self, each: &mut Visitor<'_>) -> Result<(), EngineError> {
        self.gate.pass()?;
        self.engine.scan(each)
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.engine.close()
    }
}
