//! The complete desired state of one node at one generation; never a delta.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Generation, Home, ModuleName, NodeName, PublicKey, Sealed};

/// Everything one node is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// Whom it is for.
    pub node: NodeName,
    /// Which declaration of that node.
    pub generation: Generation,
    /// What it is to run; in name order, started in the order of `after`.
    pub workloads: Vec<Workload>,
    /// On which bus it is at home.
    pub home: Home,
}

/// One module as one node is to run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The module.
    pub module: ModuleName,
    /// Its release, repeated in reports.
    pub release: String,
    /// How it runs.
    pub run: Run,
    /// Modules of this node that start before it.
    pub after: BTreeSet<ModuleName>,
    /// Environment, without what the agent adds.
    pub env: BTreeMap<String, String>,
    /// What happens when it ends.
    pub restart: Restart,
    /// The public half of the instance's credential: who it is on the bus.
    pub key: PublicKey,
    /// The secret half, sealed to the node.
    pub credential: Sealed,
}

impl Workload {
    /// Whether a process started for `self` may go on running for `other`: nothing the process was given differs.
    pub fn runs_as(&self, other: &Self) -> bool {
        self.module == other.module
            && self.release == other.release
            && self.run == other.run
            && self.env == other.env
            && self.restart == other.restart
            && self.key == other.key
    }
}

/// How a module runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Run {
    /// A plain process: a program, looked up in `PATH` unless it is a path, and its arguments.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
    },
}

impl Run {
    /// A command from `["bin", "arg"]`; nothing when it names no program.
    pub fn command(argv: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut argv = argv.into_iter();
        let program = argv.next().filter(|program| !program.is_empty())?;
        Some(Self::Command {
            program,
            args: argv.collect(),
        })
    }

    /// Program and arguments.
    pub fn argv(&self) -> impl Iterator<Item = &str> {
        let Self::Command { program, args } = self;
        std::iter::once(program.as_str()).chain(args.iter().map(String::as_str))
    }
}

/// What happens when a module's process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// It is started again, with backoff and jitter.
    #[default]
    Always,
    /// It is started again when it did not end with success.
    OnFailure,
    /// It stays ended.
    Never,
}
