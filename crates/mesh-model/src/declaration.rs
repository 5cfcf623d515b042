//! The complete desired state of one node at one generation; never a delta.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    Container, Generation, HandedSecret, Health, Home, ModuleName, NodeName, PublicKey, Sealed,
    SecretName,
};

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
    /// How it is known that it does its work; a change here alone restarts nothing.
    pub health: Option<Health>,
    /// Secrets it is handed, each in a file.
    pub secrets: BTreeMap<SecretName, HandedSecret>,
    /// What its image's registry is asked with, and it is not handed.
    pub pull_secret: Option<HandedSecret>,
    /// The public half of the instance's credential: who it is on the bus.
    pub key: PublicKey,
    /// The secret half, sealed to the node.
    pub credential: Sealed,
    /// Keys of earlier credentials: what was started with one of them goes on, and takes the new one by itself.
    pub accepts: BTreeSet<PublicKey>,
}

impl Workload {
    /// Whether a process started for `self` may go on running for `other`: nothing the process was given differs.
    pub fn runs_as(&self, other: &Self) -> bool {
        self.module == other.module
            && self.release == other.release
            && self.run == other.run
            && self.env == other.env
            && self.restart == other.restart
            && versions(&self.secrets).eq(versions(&other.secrets))
            && (self.key == other.key || other.accepts.contains(&self.key))
    }
}

/// Which value of each secret it is; sealed anew, the same value is other bytes.
fn versions(
    secrets: &BTreeMap<SecretName, HandedSecret>,
) -> impl Iterator<Item = (&SecretName, u64)> {
    secrets.iter().map(|(name, handed)| (name, handed.version))
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
    /// A container.
    Image(Box<Container>),
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

    /// Program and arguments; of a container the arguments alone, since its program is in the image.
    pub fn argv(&self) -> impl Iterator<Item = &str> {
        let (program, args) = match self {
            Self::Command { program, args } => (Some(program), args),
            Self::Image(container) => (None, &container.args),
        };
        program.into_iter().chain(args).map(String::as_str)
    }

    /// The container, where it is one.
    pub fn container(&self) -> Option<&Container> {
        match self {
            Self::Command { .. } => None,
            Self::Image(container) => Some(container),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        Workload {
            module: "mailer".parse().unwrap(),
            release: "1".to_owned(),
            run: Run::command(["mailer".to_owned()]).unwrap(),
            after: BTreeSet::new(),
            env: BTreeMap::new(),
            restart: Restart::Always,
            health: None,
            secrets: [("PASSWORD".parse().unwrap(), handed(1, 1))].into(),
            pull_secret: None,
            key: PublicKey::from_raw([1; 32]),
            credential: Sealed(vec![1]),
            accepts: BTreeSet::new(),
        }
    }

    fn handed(version: u64, byte: u8) -> HandedSecret {
        HandedSecret {
            version,
            sealed: Sealed(vec![byte]),
        }
    }

    type Change = fn(&mut Workload);

    #[test]
    fn what_runs_goes_on_where_nothing_it_was_given_differs() {
        let cases: [(&str, bool, Change); 9] = [
            ("nothing", true, |_| ()),
            ("sealed anew", true, |it| {
                it.credential = Sealed(vec![2]);
                it.secrets = [("PASSWORD".parse().unwrap(), handed(1, 2))].into();
            }),
            ("another value", false, |it| {
                it.secrets = [("PASSWORD".parse().unwrap(), handed(2, 1))].into();
            }),
            ("no secret", false, |it| it.secrets.clear()),
            ("a health", true, |it| {
                it.health = Some(Health {
                    probe: crate::Probe::Tcp("127.0.0.1:25".to_owned()),
                    every: 1000,
                    within: 1000,
                });
            }),
            ("another key", false, |it| {
                it.key = PublicKey::from_raw([2; 32]);
            }),
            ("another key, and the first accepted", true, |it| {
                it.key = PublicKey::from_raw([2; 32]);
                it.accepts = [PublicKey::from_raw([1; 32])].into();
            }),
            ("another key, and a third accepted", false, |it| {
                it.key = PublicKey::from_raw([2; 32]);
                it.accepts = [PublicKey::from_raw([3; 32])].into();
            }),
            ("a release", false, |it| it.release = "2".to_owned()),
        ];
        for (what, goes_on, change) in cases {
            let mut declared = workload();
            change(&mut declared);
            assert_eq!(workload().runs_as(&declared), goes_on, "{what}");
        }
    }
}
