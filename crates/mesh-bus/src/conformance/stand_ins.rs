//! What stands in for store, runtime, disk and signatures, so that only the bus and the loops are real.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_control::{Change, Fact, FactKey, Remembered, StoreRefusal};
use mesh_model::{Declaration, Generation, ModuleName, ModuleReport, ModuleState, Report};
use mesh_wire::Mark;
use tokio::sync::watch;

use super::journal::{Entry, Journal};
use crate::agent_loop::{Memory, States, Workloads};
use crate::ledger::Ledger;
use crate::signing::{Signer, Verifier};

/// What a store makes of the next commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreMood {
    /// It takes them.
    #[default]
    Takes,
    /// It cannot now.
    Later,
    /// It never will take any of these.
    Never,
    /// It is beyond mending.
    Stop,
}

/// A store in memory that does as it is told, and remembers each commit.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    journal: Journal,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    mood: StoreMood,
    facts: BTreeMap<FactKey, Fact>,
    commits: u64,
}

impl MemoryLedger {
    /// A store that holds these facts already.
    pub fn new(facts: impl IntoIterator<Item = Fact>) -> Self {
        Self::beside(Journal::default(), facts)
    }

    pub(super) fn beside(journal: Journal, facts: impl IntoIterator<Item = Fact>) -> Self {
        let facts = facts.into_iter().map(|fact| (fact.key(), fact)).collect();
        let held = Held {
            facts,
            ..Held::default()
        };
        Self {
            journal,
            held: Mutex::new(held),
        }
    }

    /// Does so from now on.
    pub fn set(&self, mood: StoreMood) {
        self.held().mood = mood;
    }

    /// How many commits it took.
    pub fn commits(&self) -> u64 {
        self.held().commits
    }

    /// What it holds.
    pub fn facts(&self) -> Vec<Fact> {
        self.held().facts.values().cloned().collect()
    }

    /// The reports it holds.
    pub fn reports(&self) -> Vec<Report> {
        let held = self.held();
        let reports = held.facts.values().filter_map(|fact| match fact {
            Fact::Report(report) => Some(report.clone()),
            _ => None,
        });
        reports.collect()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(mood: StoreMood) -> Option<StoreRefusal> {
        let why = "told to refuse".to_owned();
        match mood {
            StoreMood::Takes => None,
            StoreMood::Later => Some(StoreRefusal::Later(why)),
            StoreMood::Never => Some(StoreRefusal::Never(why)),
            StoreMood::Stop => Some(StoreRefusal::Stop(why)),
        }
    }
}

impl Ledger for MemoryLedger {
    async fn commit(&self, changes: Vec<Change>) -> Result<Mark, StoreRefusal> {
        let mut held = self.held();
        if let Some(refusal) = Self::refusal(held.mood) {
            return Err(refusal);
        }
        for change in &changes {
            match change {
                Change::Put(fact) => held.facts.insert(fact.key(), fact.clone()),
                Change::Remove(key) => held.facts.remove(key),
            };
        }
        held.commits += 1;
        self.journal.push(Entry::Committed(changes));
        Ok(Mark {
            store: STORE,
            commit: held.commits,
        })
    }

    async fn reopen(&self) -> Result<Vec<Fact>, StoreRefusal> {
        let mood = self.held().mood;
        match Self::refusal(mood) {
            Some(refusal) if mood != StoreMood::Never => Err(refusal),
            _ => Ok(self.facts()),
        }
    }
}

const STORE: [u8; 16] = *b"a store in mind.";

/// A runtime in which everything runs at once.
#[derive(Debug, Clone)]
pub struct MemoryWorkloads(Arc<Running>);

#[derive(Debug)]
struct Running {
    states: watch::Sender<States>,
    carried: Mutex<Vec<Generation>>,
}

impl Default for MemoryWorkloads {
    fn default() -> Self {
        Self(Arc::new(Running {
            states: watch::Sender::default(),
            carried: Mutex::default(),
        }))
    }
}

impl MemoryWorkloads {
    /// The generations it was told to carry out, in order.
    pub fn carried_out(&self) -> Vec<Generation> {
        self.carried().clone()
    }

    /// A module changes by itself.
    pub fn change(&self, module: ModuleName, report: ModuleReport) {
        self.0.states.send_modify(|states| {
            states.insert(module, report);
        });
    }

    fn carried(&self) -> MutexGuard<'_, Vec<Generation>> {
        self.0
            .carried
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workloads for MemoryWorkloads {
    async fn carry_out(&self, declaration: Declaration) -> Result<States, String> {
        self.carried().push(declaration.generation);
        let states: States = declaration
            .workloads
            .into_iter()
            .map(|workload| (workload.module, runs(workload.release)))
            .collect();
        self.0.states.send_replace(states.clone());
        Ok(states)
    }

    fn states(&self) -> watch::Receiver<States> {
        self.0.states.subscribe()
    }
}

/// A module that runs.
pub(super) fn runs(release: String) -> ModuleReport {
    ModuleReport {
        release,
        state: ModuleState::Running,
        pid: None,
        restarts: 0,
        reason: None,
        image: None,
        last_exit: None,
        repairs: 0,
    }
}

/// A disk in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Remembered>>);

impl MemoryDisk {
    /// What is on it.
    pub fn remembered(&self) -> Remembered {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Memory for MemoryDisk {
    async fn keep(&self, remembered: &Remembered) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone_from(remembered);
        Ok(())
    }
}

/// Signs so that [`verifier`] can tell. It keeps nobody out: signatures are not what is checked here.
pub fn signer() -> Signer {
    Signer::new(fold)
}

/// Knows what [`signer`] signed.
pub fn verifier() -> Verifier {
    Verifier::new(|bytes, signature| fold(bytes).as_slice() == signature)
}

/// Every byte of a message folded into 64, each step hanging on the one before.
fn fold(bytes: &[u8]) -> [u8; 64] {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut step = |byte: u8| {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        state.to_le_bytes()[4]
    };
    for byte in bytes {
        step(*byte);
    }
    std::array::from_fn(|_| step(0))
}
