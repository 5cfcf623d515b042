//! What an operator declared, and every way in which it can contradict itself.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::{
    EventName, EventRef, Manifest, ManifestError, MeshName, ModuleName, NodeName, SeatName,
};

/// A node's labels, for placing modules by what a node is.
pub type Labels = BTreeMap<String, String>;

/// What an operator declared: one directory of files, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// The mesh's name.
    pub mesh: MeshName,
    /// Its modules.
    pub modules: BTreeMap<ModuleName, Manifest>,
    /// Its seats, each with the holder the files name.
    pub seats: BTreeMap<SeatName, SeatSpec>,
    /// Where modules run.
    pub placements: BTreeMap<ModuleName, Placement>,
}

/// A seat, as the files say it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SeatSpec {
    /// The module that holds it; nobody: its work waits.
    pub holder: Option<ModuleName>,
    /// Milliseconds for which every node of the holder may be lost before another module that can hold it does; nothing:
    /// an operator decides.
    pub failover: Option<u64>,
}

impl From<Option<ModuleName>> for SeatSpec {
    fn from(holder: Option<ModuleName>) -> Self {
        Self {
            holder,
            failover: None,
        }
    }
}

/// Where one module runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Which nodes.
    pub on: Selector,
    /// On how many of them, spread; nothing: on all.
    pub count: Option<NonZeroU32>,
}

/// Nodes one placement may name.
const NODES_LIMIT: usize = 10_000;
/// Labels a node may have, or a placement may name.
const LABELS_LIMIT: usize = 64;
/// Bytes a label may have, its name and its value.
const LABEL_BYTES: usize = 256;

/// What is too large in labels, and how large it may be.
pub fn labels_too_large(labels: &Labels) -> Option<String> {
    if labels.len() > LABELS_LIMIT {
        let count = labels.len();
        return Some(format!("are {count} and may be at most {LABELS_LIMIT}"));
    }
    let long = labels.iter().find(|(k, v)| k.len() + v.len() > LABEL_BYTES);
    let name = |key: &str| key.chars().take(20).collect::<String>();
    long.map(|(key, _)| {
        let key = name(key);
        format!("hold {key:?}, which has more than {LABEL_BYTES} bytes with its value")
    })
}

impl Placement {
    /// What of it cannot be, or is too much.
    fn wrong(&self) -> Option<(&'static str, String)> {
        match &self.on {
            Selector::Nodes(nodes) if nodes.len() > NODES_LIMIT => {
                let count = nodes.len();
                let problem = format!("are {count} and may be at most {NODES_LIMIT}");
                Some(("nodes", problem))
            }
            Selector::Nodes(nodes) => {
                let count = usize::try_from(self.count?.get()).unwrap_or(usize::MAX);
                let listed = nodes.len();
                (count > listed).then(|| {
                    let problem = format!("is {count}, and nodes lists {listed}");
                    ("count", problem)
                })
            }
            Selector::Labels(labels) => labels_too_large(labels).map(|problem| ("labels", problem)),
        }
    }
}

/// Which nodes are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// These.
    Nodes(BTreeSet<NodeName>),
    /// All that have every one of these labels.
    Labels(Labels),
}

impl Selector {
    /// Whether a node is meant.
    pub fn selects(&self, node: &NodeName, labels: &Labels) -> bool {
        match self {
            Self::Nodes(nodes) => nodes.contains(node),
            Self::Labels(wanted) => wanted.iter().all(|(k, v)| labels.get(k) == Some(v)),
        }
    }
}

/// A set of declarations that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeshError {
    /// One manifest, by itself.
    #[error("module {module}: {error}")]
    Manifest {
        /// The module.
        module: ModuleName,
        /// What is wrong.
        error: ManifestError,
    },
    /// It is declared under another name than its manifest says: it would have the authority of neither, or both.
    #[error("module {module}: its manifest says it is {says}; declare it under that name")]
    Misnamed {
        /// The name it is declared under.
        module: ModuleName,
        /// The name in its manifest.
        says: ModuleName,
    },
    /// More labels, or nodes, than one placement may name, or a count that none of them can make up.
    #[error("place {module}: {field} {problem}")]
    Placement {
        /// The module.
        module: ModuleName,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// It follows what nobody emits.
    #[error("module {module}: follows {event}, which {why}")]
    NobodyEmits {
        /// The follower.
        module: ModuleName,
        /// The event.
        event: EventRef,
        /// Whether the module or the event is missing.
        why: &'static str,
    },
    /// A seat nobody registered.
    #[error("module {module}: {field} names seat {seat}, which is not listed")]
    UnknownSeat {
        /// The module.
        module: ModuleName,
        /// Which field.
        field: &'static str,
        /// The seat.
        seat: SeatName,
    },
    /// A seat held by a module that cannot.
    #[error("seat {seat}: holder {module} {why}")]
    CannotHold {
        /// The seat.
        seat: SeatName,
        /// The holder.
        module: ModuleName,
        /// Why not.
        why: &'static str,
    },
    /// A module placed that is not declared.
    #[error("place: module {module} is not declared")]
    UnknownPlaced {
        /// The module.
        module: ModuleName,
    },
    /// It starts after a module that is not declared.
    #[error("module {module}: after names {other}, which is not declared")]
    UnknownAfter {
        /// The module.
        module: ModuleName,
        /// The other.
        other: ModuleName,
    },
    /// A circle of `after`.
    #[error("modules {} each start after another of them", list(.modules))]
    AfterCycle {
        /// The circle.
        modules: Vec<ModuleName>,
    },
}

fn list(modules: &[ModuleName]) -> String {
    modules
        .iter()
        .map(ModuleName::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Declared {
    /// Every contradiction, in a stable order; none when it may be applied.
    pub fn check(&self) -> Vec<MeshError> {
        let mut errors = Vec::new();
        for (module, manifest) in &self.modules {
            if *module != manifest.module {
                errors.push(MeshError::Misnamed {
                    module: module.clone(),
                    says: manifest.module.clone(),
                });
            }
            self.check_module(manifest, &mut errors);
        }
        for (seat, spec) in &self.seats {
            if let Some(module) = &spec.holder
                && let Err(why) = self.can_hold(module, seat)
            {
                errors.push(MeshError::CannotHold {
                    seat: seat.clone(),
                    module: module.clone(),
                    why,
                });
            }
        }
        for (module, placement) in &self.placements {
            if let Some((field, problem)) = placement.wrong() {
                errors.push(MeshError::Placement {
                    module: module.clone(),
                    field,
                    problem,
                });
            }
            if !self.modules.contains_key(module) {
                errors.push(MeshError::UnknownPlaced {
                    module: module.clone(),
                });
            }
        }
        errors.extend(self.cycle());
        errors
    }

    /// Whether a module may hold a seat, and if not, why.
    pub fn can_hold(&self, module: &ModuleName, seat: &SeatName) -> Result<(), &'static str> {
        match self.modules.get(module) {
            None => Err("is not declared"),
            Some(manifest) if !manifest.can_hold.contains(seat) => {
                Err("does not list it under can_hold")
            }
            Some(_) => Ok(()),
        }
    }

    fn check_module(&self, manifest: &Manifest, errors: &mut Vec<MeshError>) {
        let module = &manifest.module;
        let own = manifest.check().into_iter();
        errors.extend(own.map(|error| MeshError::Manifest {
            module: module.clone(),
            error,
        }));
        for event in &manifest.follows {
            let why = match self.modules.get(&event.module) {
                None => "no declared module emits: there is no such module",
                Some(_) if event.event == EventName::announced() => continue,
                Some(emitter) if !emitter.emits.contains(&event.event) => {
                    "its module does not list under emits"
                }
                Some(_) => continue,
            };
            errors.push(MeshError::NobodyEmits {
                module: module.clone(),
                event: event.clone(),
                why,
            });
        }
        for (field, seats) in [
            ("can_hold", &manifest.can_hold),
            ("sends_to", &manifest.sends_to),
        ] {
            for seat in seats.iter().filter(|seat| !self.seats.contains_key(*seat)) {
                errors.push(MeshError::UnknownSeat {
                    module: module.clone(),
                    field,
                    seat: seat.clone(),
                });
            }
        }
        for other in &manifest.after {
            if !self.modules.contains_key(other) {
                errors.push(MeshError::UnknownAfter {
                    module: module.clone(),
                    other: other.clone(),
                });
            }
        }
    }

    /// Modules that can never start, because each waits for another of them.
    fn cycle(&self) -> Option<MeshError> {
        let mut waiting: BTreeMap<&ModuleName, BTreeSet<&ModuleName>> = self
            .modules
            .values()
            .map(|m| {
                let after = m
                    .after
                    .iter()
                    .filter(|o| **o != m.module && self.modules.contains_key(*o));
                (&m.module, after.collect())
            })
            .collect();
        loop {
            let ready: Vec<&ModuleName> = waiting
                .iter()
                .filter(|(_, after)| after.is_empty())
                .map(|(module, _)| *module)
                .collect();
            if ready.is_empty() {
                break;
            }
            for module in &ready {
                waiting.remove(module);
            }
            for after in waiting.values_mut() {
                after.retain(|module| !ready.contains(module));
            }
        }
        (!waiting.is_empty()).then(|| MeshError::AfterCycle {
            modules: waiting.into_keys().cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;
    use crate::{Restart, Run};

    fn manifest() -> Manifest {
        Manifest {
            module: "x".parse().unwrap(),
            release: "1".to_owned(),
            run: Run::command(["serve".to_owned()]).unwrap(),
            after: BTreeSet::new(),
            env: BTreeMap::new(),
            restart: Restart::Always,
            emits: BTreeSet::new(),
            follows: BTreeSet::new(),
            can_hold: BTreeSet::new(),
            sends_to: BTreeSet::new(),
            health: None,
            secrets: [].into(),
        }
    }

    fn wrong(name: &str, manifest: Manifest, on: Selector) -> Vec<String> {
        let module: ModuleName = name.parse().unwrap();
        let declared = Declared {
            mesh: "home".parse().unwrap(),
            modules: [(module.clone(), manifest)].into(),
            seats: BTreeMap::new(),
            placements: [(module, Placement { on, count: None })].into(),
        };
        declared.check().iter().map(ToString::to_string).collect()
    }

    fn nowhere() -> Selector {
        Selector::Nodes(BTreeSet::new())
    }

    fn many<T: std::str::FromStr<Err: fmt::Debug> + Ord>(count: usize) -> BTreeSet<T> {
        let names = (0..count).map(|number| format!("n{number}").parse().unwrap());
        names.collect()
    }

    #[test]
    fn a_module_is_declared_under_its_own_name() {
        assert_eq!(wrong("x", manifest(), nowhere()), [""; 0]);
        let said = wrong("y", manifest(), nowhere()).join("; ");
        assert!(
            said.contains("module y: its manifest says it is x"),
            "{said}"
        );
    }

    type Change = fn(&mut Manifest);

    #[test]
    fn what_is_too_large_for_a_declaration_is_named_with_its_module_and_field() {
        let cases: [(&str, Change); 7] = [
            ("release has 129 bytes", |it| it.release = "1".repeat(129)),
            ("env has 16385 bytes", |it| {
                it.env = [("A".to_owned(), "x".repeat(16 * 1024))].into();
            }),
            ("command has 16385 bytes", |it| {
                it.run = Run::command(["x".repeat(16 * 1024 + 1)]).unwrap();
            }),
            ("command lists 257 entries", |it| {
                it.run = Run::command((0..257).map(|_| "x".to_owned())).unwrap();
            }),
            ("after lists 257 entries", |it| it.after = many(257)),
            ("can_hold lists 257 entries", |it| it.can_hold = many(257)),
            ("sends_to lists 257 entries", |it| it.sends_to = many(257)),
        ];
        for (expected, change) in cases {
            let mut manifest = manifest();
            change(&mut manifest);
            let said = wrong("x", manifest, nowhere()).join("; ");
            assert!(said.contains(&format!("module x: {expected}")), "{said}");
        }
        let labels = |count: usize, value: &str| -> Labels {
            let pairs = (0..count).map(|number| (number.to_string(), value.to_owned()));
            pairs.collect()
        };
        for (expected, on) in [
            ("nodes are 10001", Selector::Nodes(many(10_001))),
            ("labels are 65", Selector::Labels(labels(65, "x"))),
            (
                "labels hold \"0\"",
                Selector::Labels(labels(1, &"x".repeat(256))),
            ),
        ] {
            let said = wrong("x", manifest(), on).join("; ");
            assert!(said.contains(&format!("place x: {expected}")), "{said}");
        }
    }

    #[test]
    fn a_count_that_the_nodes_it_lists_cannot_make_up_is_refused() {
        let problem = |count: u32, on: Selector| {
            let count = NonZeroU32::new(count);
            Placement { on, count }.wrong()
        };
        assert_eq!(problem(2, Selector::Nodes(many(2))), None);
        assert_eq!(
            problem(3, Selector::Nodes(many(2))),
            Some(("count", "is 3, and nodes lists 2".to_owned()))
        );
        // How many nodes come to have a label is not known.
        assert_eq!(problem(3, Selector::Labels(Labels::new())), None);
    }
}
